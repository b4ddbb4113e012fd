// Makes queries and keys from a text without a trained model: words, embeddings and projections from a seed.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace vkattn::cli {

/// The words of a text, and its punctuation marks as tokens of their own. An apostrophe stays in its word.
[[nodiscard]] std::vector<std::string> split_tokens(std::string_view text);

/// Splits as split_tokens() does. Throws CommandError if a token cannot be printed or drawn.
[[nodiscard]] std::vector<std::string> read_tokens(const std::string& option, const std::string& text);

/// Makes queries or keys (head, token, dim) of every head, with a standard deviation of 1 as far as they are
/// random. Each word has an embedding of 256 normal numbers, the same wherever the word stands. Each head has
/// a projection of normal numbers.
struct ProjectionSettings {
  std::int64_t heads = 4, head_dim = 64;
  std::uint64_t seed = 1;
};
enum class Projection : std::uint64_t { kQuery = 0, kKey = 1 };
[[nodiscard]] std::vector<float> project_tokens(const std::vector<std::string>& tokens,
                                                const ProjectionSettings& settings, Projection which);

}  // namespace vkattn::cli
