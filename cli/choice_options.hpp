// --tile and --kv-splits: what the library chooses at other times.
#pragma once

#include <vkattn/tuning.hpp>

#include <cstdint>
#include <optional>
#include <string>

#include "command.hpp"

namespace vkattn::cli {

/// As typed.
struct ChoiceArguments {
  std::string tile, kv_splits;
};

void add_choice_options(CLI::App& app, ChoiceArguments& arguments);

/// Nothing where they were not given; fails where they make no sense. `kernel` is the one that --kernel
/// names.
[[nodiscard]] std::optional<TileSizes> read_tile(const ChoiceArguments& arguments, const std::string& kernel);
[[nodiscard]] std::uint32_t read_kv_splits(const ChoiceArguments& arguments);

}  // namespace vkattn::cli
