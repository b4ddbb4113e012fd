// The options that differ between operations: see operation_options.hpp.
#include "operation_options.hpp"

#include <vkattn/matmul.hpp>

#include "kernels/size_text.hpp"
#include "kernels/tile_table.hpp"

namespace vkattn::bench {

NumberOption parts_option(Operation operation) {
  switch (operation) {
    case Operation::kForward:
      return &PlanOptions::kv_splits;
    case Operation::kMatmul:
      return &PlanOptions::inner_splits;
    case Operation::kBackward:
      break;
  }
  return nullptr;
}

Result<void> read_tile(std::string_view text, Operation operation, PlanOptions& options) {
  if (operation == Operation::kMatmul) {
    const auto for_each = [](auto& tile, auto&& visit) { detail::for_each_size(tile, visit); };
    const auto tile =
        detail::parse_sizes<MatmulTile>(text, "threads=256,rows=4,columns=4,inner=16", for_each);
    if (!tile) return tile.error();
    options.matmul_tile = *tile;
    return {};
  }
  const auto tile = parse_tile_sizes(text);
  if (!tile) return tile.error();
  options.tile = *tile;
  return {};
}

std::string tile_text(const PlanOptions& options) {
  if (options.tile) return to_string(*options.tile);
  return options.matmul_tile ? to_string(*options.matmul_tile) : std::string();
}

}  // namespace vkattn::bench
