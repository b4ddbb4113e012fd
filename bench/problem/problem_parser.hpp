// The reader of problem strings: each word sets something of the problem, once.
#pragma once

#include <string_view>
#include <utility>
#include <vector>

#include "problem/word_table.hpp"

namespace vkattn::bench {

/// Reads the words of one string into a Problem.
class ProblemParser {
 public:
  Result<void> read(std::string_view text);
  Result<Problem> finish();

 private:
  Result<void> read_word(std::string_view word);
  /// Remembers that the word sets this thing. A second word for the same thing is an error.
  Result<void> once(std::string_view thing, std::string_view word);
  /// The word that set the thing: see Word::sets. Empty if no word set it.
  [[nodiscard]] std::string_view word_of(std::string_view thing) const;
  [[nodiscard]] bool has(std::string_view thing) const { return !word_of(thing).empty(); }

  // Checks and values that follow from several words together.
  void resolve_types();
  void resolve_defaults();
  [[nodiscard]] Result<void> check_together() const;
  [[nodiscard]] Result<void> check_lengths() const;
  [[nodiscard]] Result<void> check_features() const;
  [[nodiscard]] Result<void> check_append() const;
  [[nodiscard]] Result<void> check_packed() const;
  [[nodiscard]] Result<void> check_shift() const;
  [[nodiscard]] Result<void> check_backward() const;
  /// Refuses words of attention together with words of a matrix multiplication.
  [[nodiscard]] Result<void> check_subject() const;
  Result<void> finish_matmul();

  Problem problem_;
  std::vector<std::pair<std::string_view, std::string_view>> set_by_;  ///< pairs of thing and word
  std::string_view attention_word_, matmul_word_;  ///< the first word that belongs to one subject only
};

}  // namespace vkattn::bench
