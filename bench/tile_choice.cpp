// Reading block sizes: see tile_choice.hpp.
#include "tile_choice.hpp"

#include "kernels/size_text.hpp"
#include "kernels/tile_table.hpp"

namespace vkattn::bench {

namespace {

Result<TileChoice> parse_matmul(std::string_view text) {
  const auto for_each = [](auto& tile, auto&& visit) { detail::for_each_size(tile, visit); };
  const auto tile = detail::parse_sizes<MatmulTile>(text, "threads=256,rows=4,columns=4,inner=16", for_each);
  if (!tile) return tile.error();
  return TileChoice{{}, *tile};
}

}  // namespace

Result<TileChoice> parse_tile_choice(std::string_view text, Operation operation) {
  if (operation == Operation::kMatmul) return parse_matmul(text);
  if (operation == Operation::kBackward) {
    return Error{ErrorCode::kInvalidArgument,
                 {},
                 "the backward pass has block sizes of its own for each device, and none can be given"};
  }
  const auto tile = parse_tile_sizes(text);
  if (!tile) return tile.error();
  return TileChoice{*tile, {}};
}

}  // namespace vkattn::bench
