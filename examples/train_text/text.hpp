// A text as tokens; each character is a token.
#pragma once

#include <vkattn/result.hpp>

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace train_text {

// The *.md files of a folder, sorted by name.
[[nodiscard]] std::vector<std::filesystem::path> documents_of(const std::filesystem::path& folder);

// The characters of a text, each once, in the order of their codes. A character's place is its token.
class Vocabulary {
 public:
  // Refuses a text that is empty or not UTF-8, or that has only one character or more than kMost.
  [[nodiscard]] static vkattn::Result<Vocabulary> of(std::string_view text);

  // Refuses a character that is not in the vocabulary.
  [[nodiscard]] vkattn::Result<std::vector<std::uint32_t>> tokens(std::string_view text) const;
  [[nodiscard]] const std::string& character(std::uint32_t token) const { return characters_[token]; }
  [[nodiscard]] std::string text(std::span<const std::uint32_t> tokens) const;
  // All characters, in a text that of() takes.
  [[nodiscard]] std::string all() const;
  [[nodiscard]] std::int64_t size() const { return static_cast<std::int64_t>(characters_.size()); }

  static constexpr std::size_t kMost = 4096;

 private:
  std::vector<std::string> characters_;
};

// Sequences side by side: the token of each position, and the token that follows it.
struct Batch {
  std::vector<std::uint32_t> tokens, targets;
};

// A text to learn from. Its last tenth, if that is long enough for a sequence, is kept back for validation.
class Corpus {
 public:
  // Refuses a text that is shorter than a sequence and the token behind it.
  [[nodiscard]] static vkattn::Result<Corpus> create(std::vector<std::uint32_t> tokens, std::int64_t context);

  // Sequences from any place of the learned part. Seed and step alone decide which.
  [[nodiscard]] Batch draw(std::int64_t batch, std::uint64_t seed, std::int64_t step) const;
  // The same sequences each time, from all over the part that was kept back; none if there is no such part.
  [[nodiscard]] std::vector<Batch> kept_back(std::int64_t batch) const;

 private:
  [[nodiscard]] Batch sequences(std::span<const std::size_t> begins) const;
  std::vector<std::uint32_t> tokens_;
  std::size_t context_ = 0;
  std::size_t learned_ = 0;  // the number of tokens, from the beginning on, that are learned from
};

}  // namespace train_text
