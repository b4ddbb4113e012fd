// Counts members of structures, for tables and functions that must name each member.
#pragma once

#include <concepts>
#include <cstddef>
#include <initializer_list>
#include <string_view>
#include <type_traits>

namespace vkattn::detail {

/// A structure whose members are read, or written too.
template <class T, class Of>
concept MaybeConst = std::same_as<std::remove_const_t<T>, Of>;

/// Stands for a value of any type in unevaluated code.
struct AnyMember {
  template <class T>
  operator T&() const&;
  template <class T>
  operator T&() const&&;
};

/// The number of members of an aggregate without arrays: as many as braces take.
template <class Aggregate, class... Members>
consteval std::size_t member_count() {
  if constexpr (requires { Aggregate{Members{}..., AnyMember{}}; }) {
    return member_count<Aggregate, Members..., AnyMember>();
  } else {
    return sizeof...(Members);
  }
}

/// The number of members that paths such as "window.left" begin with. Paths of one member stand one after the
/// other.
consteval std::size_t members_named(std::initializer_list<std::string_view> paths) {
  std::size_t count = 0;
  std::string_view last;
  for (const std::string_view path : paths) {
    const std::string_view member = path.substr(0, path.find('.'));
    if (member != last) ++count;
    last = member;
  }
  return count;
}

}  // namespace vkattn::detail
