// The options of `vkattn inspect`: as typed, and which of them each mode takes.
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
  std::string output;  ///< file for the output of a layer
  std::string colors;  ///< "linear", "sqrt" or empty
  std::vector<WordArgument> words;
  DeviceArguments where;
  bool colors_per_head = false, print_weights = false, steps = false, check = false, json = false;
};

/// What the command shows.
enum class InspectMode { kText, kArrays, kLayer, kSweep, kMemory };

inline constexpr std::int64_t kMostTextHeads = 16;
inline constexpr std::int64_t kMostTokens = 512;
inline constexpr std::int64_t kMostWeights = kMostTextHeads * kMostTokens * kMostTokens;

/// Adds the options to the command, and its help.
void add_inspect_arguments(CLI::App& app, InspectArguments& arguments);

/// Throws CommandError if the options do not go together.
[[nodiscard]] InspectMode inspect_mode(const InspectArguments& arguments);

/// Reads a number from `least` to `most`. Returns `otherwise` if the option was not given.
[[nodiscard]] std::int64_t number_of(const std::string& option, const std::string& text, std::int64_t least,
                                     std::int64_t most, std::int64_t otherwise);
/// Reads numbers with commas between them. They must ascend, and none may occur twice.
[[nodiscard]] std::vector<std::int64_t> numbers_of(const std::string& option, const std::string& text,
                                                   std::int64_t least, std::int64_t most);
[[nodiscard]] std::uint64_t seed_of(const InspectArguments& arguments);

}  // namespace vkattn::cli
