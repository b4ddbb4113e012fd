// Block sizes that are asked for in the place of the library's own.
#pragma once

#include <vkattn/matmul.hpp>
#include <vkattn/tuning.hpp>

#include <optional>
#include <string_view>

#include "problem/problem.hpp"

namespace vkattn::bench {

/// Of one kernel: nothing, or those of the operation that it is a kernel of.
struct TileChoice {
  std::optional<TileSizes> attention;
  std::optional<MatmulTile> matmul;
};

/// Reads "threads=256,columns=16,rows=4", by the names that the operation's kernels have for their sizes.
[[nodiscard]] Result<TileChoice> parse_tile_choice(std::string_view text, Operation operation);

}  // namespace vkattn::bench
