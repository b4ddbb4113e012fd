// Which options an operation uses: see options.hpp.
#include "operation/options.hpp"

#include <array>

#include "common/message.hpp"

namespace vkattn::detail {

namespace {

struct OptionRow {
  Option option;
  std::string_view name;
  std::string_view unset;
  bool (*is_set)(const PlanOptions&);
};
using O = PlanOptions;
constexpr std::array<OptionRow, 10> kRows{{
    {Option::kKernel, "kernel", "empty", [](const O& o) { return !o.kernel.empty(); }},
    {Option::kTile, "tile", "out", [](const O& o) { return o.tile.has_value(); }},
    {Option::kRefusals, "refusals", "empty", [](const O& o) { return !o.refusals.empty(); }},
    {Option::kStrictNonfinite, "strict_nonfinite", "off", [](const O& o) { return o.strict_nonfinite; }},
    {Option::kArithmeticType, "arithmetic_type", "float32",
     [](const O& o) { return o.arithmetic_type != DataType::kFloat32; }},
    {Option::kKvSplits, "kv_splits", "0", [](const O& o) { return o.kv_splits != 0; }},
    {Option::kChunkKeys, "chunk_keys", "0", [](const O& o) { return o.chunk_keys != 0; }},
    {Option::kMatmulTile, "matmul_tile", "out", [](const O& o) { return o.matmul_tile.has_value(); }},
    {Option::kInnerSplits, "inner_splits", "0", [](const O& o) { return o.inner_splits != 0; }},
    {Option::kCopies, "copies", "out", [](const O& o) { return o.copies.has_value(); }},
}};

}  // namespace

Result<void> check_used(const PlanOptions& options, OptionSet used, std::string_view operation) {
  for (const OptionRow& row : kRows) {
    if (used.has(row.option) || !row.is_set(options)) continue;
    return invalid("the option ", row.name, " is set, but is not used by ", operation, ": leave it ",
                   row.unset);
  }
  return {};
}

}  // namespace vkattn::detail
