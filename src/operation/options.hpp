// Which options an operation uses.
#pragma once

#include <vkattn/plan.hpp>

#include <cstdint>
#include <string_view>

namespace vkattn::detail {

/// Options that some operations do not use: name here, member of PlanOptions, and the value to leave it at,
/// as refusals say it.
#define VKATTN_OPTIONS_OF_SOME(ROW)                \
  ROW(kKernel, kernel, "empty")                    \
  ROW(kTile, tile, "out")                          \
  ROW(kRefusals, refusals, "empty")                \
  ROW(kStrictNonfinite, strict_nonfinite, "off")   \
  ROW(kArithmeticType, arithmetic_type, "float32") \
  ROW(kKvSplits, kv_splits, "0")                   \
  ROW(kChunkKeys, chunk_keys, "0")                 \
  ROW(kMatmulTile, matmul_tile, "out")             \
  ROW(kInnerSplits, inner_splits, "0")             \
  ROW(kCopies, copies, "out")

enum class Option : std::uint32_t {
#define VKATTN_NAME(NAME, MEMBER, UNSET) NAME,
  VKATTN_OPTIONS_OF_SOME(VKATTN_NAME)
#undef VKATTN_NAME
};

/// A set of these options.
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

/// Refuses an option that is set, but that `operation` does not use.
[[nodiscard]] Result<void> check_used(const PlanOptions& options, OptionSet used, std::string_view operation);

}  // namespace vkattn::detail
