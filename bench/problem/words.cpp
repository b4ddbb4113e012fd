// Edit distance for suggestions, and splitting of text.
#include "problem/words.hpp"

#include <algorithm>
#include <cstddef>
#include <vector>

namespace vkattn::bench {
namespace {

char lower(char c) {
  return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
}

/// The number of insertions, deletions, replacements and swaps of neighbours that turn one word into the
/// other.
std::size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::vector<std::size_t>> cost(a.size() + 1, std::vector<std::size_t>(b.size() + 1));
  for (std::size_t i = 0; i <= a.size(); ++i) cost[i][0] = i;
  for (std::size_t j = 0; j <= b.size(); ++j) cost[0][j] = j;
  for (std::size_t i = 1; i <= a.size(); ++i) {
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const bool same = lower(a[i - 1]) == lower(b[j - 1]);
      cost[i][j] = std::min({cost[i - 1][j] + 1, cost[i][j - 1] + 1, cost[i - 1][j - 1] + (same ? 0U : 1U)});
      const bool swapped =
          i > 1 && j > 1 && lower(a[i - 1]) == lower(b[j - 2]) && lower(a[i - 2]) == lower(b[j - 1]);
      if (swapped) cost[i][j] = std::min(cost[i][j], cost[i - 2][j - 2] + 1);
    }
  }
  return cost[a.size()][b.size()];
}

}  // namespace

std::optional<std::string_view> closest_word(std::string_view word,
                                             std::span<const std::string_view> candidates) {
  constexpr std::size_t kLongestWord =
      64;  // a longer word is no typo, and the table grows with the square of the length
  if (word.empty() || word.size() > kLongestWord) return std::nullopt;
  std::optional<std::string_view> best;
  std::size_t best_distance = 0;
  for (const std::string_view candidate : candidates) {
    const std::size_t distance = edit_distance(word, candidate);
    const std::size_t allowed = candidate.size() <= 3 ? 1 : candidate.size() <= 6 ? 2 : 3;
    if (distance > allowed || distance >= candidate.size()) continue;
    if (best.has_value() && distance >= best_distance) continue;
    best = candidate;
    best_distance = distance;
  }
  return best;
}

bool next_piece(std::string_view& text, char separator, std::string_view& piece) {
  if (text.data() == nullptr) return false;
  const std::size_t end = text.find(separator);
  piece = text.substr(0, end);
  text = end == std::string_view::npos ? std::string_view() : text.substr(end + 1);
  return true;
}

}  // namespace vkattn::bench
