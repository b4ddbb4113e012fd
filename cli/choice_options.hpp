// --tile, --kv-splits and --arithmetic: what the library chooses at other times.
#pragma once

#include <cstdint>
#include <string>

#include "command.hpp"
#include "tile_choice.hpp"

namespace vkattn::cli {

/// As typed.
struct ChoiceArguments {
  std::string tile, kv_splits, arithmetic;
};

void add_choice_options(CLI::App& app, ChoiceArguments& arguments);
/// --arithmetic alone.
void add_arithmetic_option(CLI::App& app, std::string& arithmetic);

/// Nothing where they were not given; fails where they make no sense. `kernel` is the one that --kernel
/// names, `operation` what it is a kernel of.
[[nodiscard]] bench::TileChoice read_tile(const ChoiceArguments& arguments, const std::string& kernel,
                                          bench::Operation operation);
[[nodiscard]] std::uint32_t read_kv_splits(const ChoiceArguments& arguments);
/// PlanOptions::arithmetic_type; its default where nothing was given.
[[nodiscard]] DataType read_arithmetic(const std::string& arithmetic);

}  // namespace vkattn::cli
