// Block sizes that are asked for in the place of the library's own.
#pragma once

#include <vkattn/matmul.hpp>
#include <vkattn/tuning.hpp>

#include <optional>
#include <string>
#include <string_view>

#include "problem/problem.hpp"

namespace vkattn::bench {

/// Of one kernel: nothing, or those of the operation that it is a kernel of.
struct TileChoice {
  std::optional<TileSizes> attention;
  std::optional<MatmulTile> matmul;

  /// In words; empty where there are none.
  [[nodiscard]] std::string to_string() const {
    return attention ? vkattn::to_string(*attention) : matmul ? vkattn::to_string(*matmul) : std::string();
  }
  [[nodiscard]] bool operator==(const TileChoice&) const = default;
};

/// Reads "threads=256,columns=16,rows=4", by the names that the operation's kernels have for their sizes.
[[nodiscard]] Result<TileChoice> parse_tile_choice(std::string_view text, Operation operation);

}  // namespace vkattn::bench
