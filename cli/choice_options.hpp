// --tile and --kv-splits: what the library chooses at other times.
#pragma once

#include <cstdint>
#include <string>

#include "command.hpp"
#include "tile_choice.hpp"

namespace vkattn::cli {

/// As typed.
struct ChoiceArguments {
  std::string tile, kv_splits;
};

void add_choice_options(CLI::App& app, ChoiceArguments& arguments);

/// Nothing where they were not given; fails where they make no sense. `kernel` is the one that --kernel
/// names, `operation` what it is a kernel of.
[[nodiscard]] bench::TileChoice read_tile(const ChoiceArguments& arguments, const std::string& kernel,
                                          bench::Operation operation);
[[nodiscard]] std::uint32_t read_kv_splits(const ChoiceArguments& arguments);

}  // namespace vkattn::cli
