// From a text to queries and keys, without a trained model: words, embeddings and projections from a seed.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace vkattn::cli {

/// The words of a text, and its punctuation marks as tokens of their own; an apostrophe stays in its word.
[[nodiscard]] std::vector<std::string> split_tokens(std::string_view text);

/// The same; throws CommandError where a token could not be printed or drawn.
[[nodiscard]] std::vector<std::string> read_tokens(const std::string& option, const std::string& text);

/// Queries or keys of every head (head, token, dim), unit-normal as far as they are random: an embedding of
/// 256 normal numbers for each word, the same wherever it stands, times a projection of normal numbers for
/// each head.
struct ProjectionSettings {
  std::int64_t heads = 4, head_dim = 64;
  std::uint64_t seed = 1;
};
enum class Projection : std::uint64_t { kQuery = 0, kKey = 1 };
[[nodiscard]] std::vector<float> project_tokens(const std::vector<std::string>& tokens,
                                                const ProjectionSettings& settings, Projection which);

}  // namespace vkattn::cli
