// Keys of descriptors: see vkattn/plan_key.hpp.
#include <vkattn/operations.hpp>
#include <vkattn/plan_key.hpp>

#include <bit>
#include <charconv>
#include <concepts>
#include <cstdint>
#include <optional>
#include <type_traits>
#include <utility>

#include "common/members.hpp"

namespace vkattn {

namespace {

#define VKATTN_VALUE(STRUCTURE, DESC) static_assert(detail::member_count<DESC>() == detail::members_named({
#define VKATTN_DESC VKATTN_VALUE
#define VKATTN_FIELD_AS(MEMBER, PATH) #PATH,
#define VKATTN_END \
  }), "a member of the descriptor has no row in common/fields.def");
#include "common/fields.def"

/// Writes numbers one after the other, each with an end mark.
class KeyText {
 public:
  explicit KeyText(const char* kind) : text_(kind) {}

  [[nodiscard]] std::string take() { return std::move(text_); }

  void add(bool value) { text_ += value ? '1' : '0'; }
  void add(std::integral auto value) { add_number(static_cast<std::uint64_t>(value)); }
  template <class Enum>
  requires std::is_enum_v<Enum>
  void add(Enum value) { add(static_cast<std::underlying_type_t<Enum>>(value)); }
  // Zeros are equal whatever their sign.
  void add(float value) { add_number(value == 0 ? 0 : std::bit_cast<std::uint32_t>(value)); }
  void add(double value) { add_number(value == 0 ? 0 : std::bit_cast<std::uint64_t>(value)); }
  template <class T>
  void add(const std::optional<T>& value) {
    text_ += value ? '+' : '-';
    if (value) add(*value);
  }

  void add(const Shared<const ScoreShaders>& of) {
    add_number(static_cast<std::uint64_t>(reinterpret_cast<std::uintptr_t>(of.get())));
  }

#define VKATTN_VALUE(STRUCTURE, DESC) void add(const DESC& of) {
#define VKATTN_DESC VKATTN_VALUE
#define VKATTN_FIELD_AS(MEMBER, PATH) add(of.PATH);
#define VKATTN_END }
#include "common/fields.def"

 private:
  void add_number(std::uint64_t value) {
    char digits[17];
    const auto end = std::to_chars(digits, digits + sizeof(digits), value, 16);
    text_.append(digits, end.ptr);
    text_ += ',';
  }

  std::string text_;
};

/// The first word of a key.
template <class Desc>
constexpr const char* kKind = nullptr;
#define VKATTN_OPERATION(NAME, PLAN, DESC, WORDS, OPTIONS) \
  template <>                                              \
  constexpr const char* kKind<DESC> = #NAME " ";
#define VKATTN_EVERY_OPERATION
#include "common/operations.def"

}  // namespace

template <class Desc>
std::string plan_key(const Desc& desc) {
  KeyText text(kKind<Desc>);
  text.add(desc);
  return text.take();
}

#define VKATTN_OPERATION(NAME, PLAN, DESC, WORDS, OPTIONS) template std::string plan_key(const DESC&);
#define VKATTN_EVERY_OPERATION
#include "common/operations.def"

}  // namespace vkattn
