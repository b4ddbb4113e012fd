// Checks enumerators from C, which may be any number.
#pragma once

#include <vkattn/vkattn.h>
#include <vkattn/cache.hpp>
#include <vkattn/device.hpp>
#include <vkattn/initialisation.hpp>
#include <vkattn/multi_head_attention.hpp>

#include <algorithm>
#include <cstdint>
#include <string_view>
#include <type_traits>

#include "common/message.hpp"

namespace vkattn::c {

/// The number of an enumeration's last enumerator.
template <class Enum>
consteval std::uint32_t last_of() {
  std::uint32_t last = 0;
#define VKATTN_ENUMERATOR(IN_C, IN_CPP)            \
  static_assert(IN_C == static_cast<int>(IN_CPP)); \
  if (std::is_same_v<Enum, decltype(IN_CPP)>) last = std::max(last, static_cast<std::uint32_t>(IN_CPP));
#include "c/enumerators.def"
  return last;
}

/// The enumerator with this number, or an error with the number.
template <class Enum>
[[nodiscard]] Result<Enum> enumerator(std::uint32_t number, std::string_view name) {
  constexpr std::uint32_t kLast = last_of<Enum>();
  if (number <= kLast) return static_cast<Enum>(number);
  return detail::invalid(name, " is ", number, "; the largest there is is ", kLast);
}

}  // namespace vkattn::c
