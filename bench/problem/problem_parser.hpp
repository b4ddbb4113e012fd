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
  /// Remembers that the word sets a thing of that name.
  Result<void> once(std::string_view thing, std::string_view word);
  /// The word that set the thing: see Word::sets. Empty where none did.
  [[nodiscard]] std::string_view word_of(std::string_view thing) const;
  [[nodiscard]] bool has(std::string_view thing) const { return !word_of(thing).empty(); }

  // What the words give together.
  void resolve_types();
  void resolve_defaults();
  [[nodiscard]] Result<void> check_together() const;
  [[nodiscard]] Result<void> check_lengths() const;
  [[nodiscard]] Result<void> check_features() const;
  [[nodiscard]] Result<void> check_append() const;
  [[nodiscard]] Result<void> check_packed() const;
  [[nodiscard]] Result<void> check_shift() const;
  [[nodiscard]] Result<void> check_backward() const;
  /// Words of attention and of a matrix multiplication do not go together.
  [[nodiscard]] Result<void> check_subject() const;
  Result<void> finish_matmul();

  Problem problem_;
  std::vector<std::pair<std::string_view, std::string_view>> set_by_;  ///< things and words
  std::string_view attention_word_, matmul_word_;                      ///< the first of each subject alone
};

}  // namespace vkattn::bench
