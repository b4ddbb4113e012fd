// The rows of common/fields.def as functions.
#pragma once

#include <vkattn/vkattn.h>

#include <cstddef>
#include <cstdint>
#include <limits>
#include <type_traits>

#include "c/operations.hpp"
#include "common/members.hpp"

namespace vkattn::c {

/// Calls visit(name, member in C, member in C++) for each field of a structure and its descriptor.
/// @{
#define VKATTN_VALUE(STRUCTURE, DESC)                                                                     \
  template <detail::MaybeConst<vkattn_##STRUCTURE> Structure, detail::MaybeConst<DESC> Desc, class Visit> \
  void each_field(Structure& c, Desc& cpp, const Visit& visit) {
#define VKATTN_DESC VKATTN_VALUE
#define VKATTN_FIELD_AS(MEMBER, PATH) visit(#MEMBER, c.MEMBER, cpp.PATH);
#define VKATTN_END }
#include "common/fields.def"
/// @}

template <class Structure>
inline constexpr std::size_t kMembersWithoutField = 2 + (requires(Structure s) { s.reserved; } ? 1 : 0);

#define VKATTN_VALUE(STRUCTURE, DESC) static_assert(detail::member_count<vkattn_##STRUCTURE>() == 0
#define VKATTN_DESC(STRUCTURE, DESC) VKATTN_VALUE(STRUCTURE, DESC) + kMembersWithoutField<vkattn_##STRUCTURE>
#define VKATTN_FIELD_AS(MEMBER, PATH) +1
#define VKATTN_END , "a member of the structure has no row in common/fields.def");
#include "common/fields.def"

/// Writes the fields of a descriptor to a structure. Fields that are pointers in C stay as they are.
template <class Desc, class Structure>
void write_fields(const Desc& from, Structure& to) {
  each_field(to, from, []<class Member>(const char*, Member& member, const auto& value) {
    if constexpr (std::is_class_v<Member>) {
      write_fields(value, member);
    } else if constexpr (requires { value.has_value(); } && std::is_same_v<Member, float>) {
      member = value.value_or(std::numeric_limits<float>::quiet_NaN());
    } else if constexpr (!std::is_pointer_v<Member>) {
      member = static_cast<Member>(value);
    }
  });
}

}  // namespace vkattn::c
