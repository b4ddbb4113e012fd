// Which options an operation uses.
#pragma once

#include <vkattn/plan.hpp>

#include <cstdint>
#include <string_view>

namespace vkattn::detail {

/// Options of which not every operation has a use.
enum class Option : std::uint32_t {
  kKernel,
  kTile,
  kRefusals,
  kStrictNonfinite,
  kArithmeticType,
  kKvSplits,
  kChunkKeys,
  kMatmulTile,
  kInnerSplits,
  kCopies,
};

/// Some of them.
class OptionSet {
 public:
  constexpr OptionSet() = default;
  template <class... Options>
  constexpr explicit OptionSet(Option first, Options... others) : bits_((bit(first) | ... | bit(others))) {}
  [[nodiscard]] constexpr bool has(Option option) const { return (bits_ & bit(option)) != 0; }

 private:
  static constexpr std::uint32_t bit(Option option) { return 1U << static_cast<std::uint32_t>(option); }
  std::uint32_t bits_ = 0;
};

/// That no option is set which `operation` has no use for.
[[nodiscard]] Result<void> check_used(const PlanOptions& options, OptionSet used, std::string_view operation);

}  // namespace vkattn::detail
