// The options of `vkattn inspect`: as typed, and what each way of using it takes.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "command.hpp"
#include "open_runtime.hpp"
#include "word_options.hpp"

namespace vkattn::cli {

/// The options as typed.
struct InspectArguments {
  std::string text, query, key, value, input, weights, layer, sweep_dim, memory;
  std::string heads, kv_heads, head_dim, seed, layout, batch, labels, labels_file, plot;
  std::string output;  ///< of a layer
  std::string colors;  ///< linear, sqrt, or empty
  std::vector<WordArgument> words;
  DeviceArguments where;
  bool colors_per_head = false, print_weights = false, steps = false, check = false, json = false;
};

/// What it is to show.
enum class InspectMode { kText, kArrays, kLayer, kSweep, kMemory };

inline constexpr std::int64_t kMostTextHeads = 16;
inline constexpr std::int64_t kMostTokens = 512;
inline constexpr std::int64_t kMostWeights = kMostTextHeads * kMostTokens * kMostTokens;

/// Adds them to the command, with its help.
void add_inspect_arguments(CLI::App& app, InspectArguments& arguments);

/// Throws CommandError where the options do not go together.
[[nodiscard]] InspectMode inspect_mode(const InspectArguments& arguments);

/// A number from `least` to `most`, or `otherwise` where the option was not given.
[[nodiscard]] std::int64_t number_of(const std::string& option, const std::string& text, std::int64_t least,
                                     std::int64_t most, std::int64_t otherwise);
/// Numbers with commas between them, ascending and none twice.
[[nodiscard]] std::vector<std::int64_t> numbers_of(const std::string& option, const std::string& text,
                                                   std::int64_t least, std::int64_t most);
[[nodiscard]] std::uint64_t seed_of(const InspectArguments& arguments);

}  // namespace vkattn::cli
