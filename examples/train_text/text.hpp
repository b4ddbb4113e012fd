// A text as tokens, each of which is a character.
#pragma once

#include <vkattn/result.hpp>

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "train_text/model.hpp"

namespace train_text {

// The whole of the files, one after the other. An error names the file.
[[nodiscard]] vkattn::Result<std::string> read_files(const std::vector<std::filesystem::path>& paths);
// The *.md files of a folder in the order of their names.
[[nodiscard]] std::vector<std::filesystem::path> documents_of(const std::filesystem::path& folder);

// The characters of a text, each once, in the order of their codes: a character's place is its token.
class Vocabulary {
 public:
  // Refuses a text that is empty, no UTF-8, all of one character, or of more than kMost.
  [[nodiscard]] static vkattn::Result<Vocabulary> of(std::string_view text);

  // Refuses a character that is not there.
  [[nodiscard]] vkattn::Result<std::vector<std::uint32_t>> tokens(std::string_view text) const;
  [[nodiscard]] const std::string& character(std::uint32_t token) const { return characters_[token]; }
  [[nodiscard]] std::string text(std::span<const std::uint32_t> tokens) const;
  // All characters, as of() takes them.
  [[nodiscard]] std::string all() const;
  [[nodiscard]] std::int64_t size() const { return static_cast<std::int64_t>(characters_.size()); }

  static constexpr std::size_t kMost = 4096;

 private:
  std::vector<std::string> characters_;
};

// A text to learn from: the last tenth is kept back, where that is long enough for a sequence, to measure on.
class Corpus {
 public:
  // Refuses a text that is shorter than a sequence and the token behind it.
  [[nodiscard]] static vkattn::Result<Corpus> create(std::vector<std::uint32_t> tokens, std::int64_t context);

  // Sequences from anywhere in what is learned: which ones depends on seed and step alone.
  [[nodiscard]] Batch draw(std::int64_t batch, std::uint64_t seed, std::int64_t step) const;
  // Sequences from all over what was kept back, the same ones each time; nothing where nothing was.
  [[nodiscard]] std::vector<Batch> kept_back(std::int64_t batch) const;

 private:
  [[nodiscard]] Batch sequences(std::span<const std::size_t> begins) const;
  std::vector<std::uint32_t> tokens_;
  std::size_t context_ = 0;
  std::size_t learned_ = 0;  // tokens from the beginning on
};

// The next number of a sequence that depends on `state` alone (SplitMix64).
[[nodiscard]] std::uint64_t next_random(std::uint64_t& state);

}  // namespace train_text
