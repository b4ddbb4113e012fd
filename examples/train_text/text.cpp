#include "train_text/text.hpp"

#include <algorithm>
#include <set>

#include "decoder/text.hpp"

namespace train_text {

using decoder::characters_of;
using decoder::refusal;

namespace {

// The next number of a sequence that depends on `state` alone (SplitMix64).
std::uint64_t next_random(std::uint64_t& state) {
  std::uint64_t bits = state += 0x9e3779b97f4a7c15U;
  bits = (bits ^ bits >> 30U) * 0xbf58476d1ce4e5b9U;
  bits = (bits ^ bits >> 27U) * 0x94d049bb133111ebU;
  return bits ^ bits >> 31U;
}

}  // namespace

std::vector<std::filesystem::path> documents_of(const std::filesystem::path& folder) {
  std::vector<std::filesystem::path> paths;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(folder, error)) {
    if (entry.path().extension() == ".md") paths.push_back(entry.path());
  }
  std::ranges::sort(paths);
  return paths;
}

vkattn::Result<Vocabulary> Vocabulary::of(std::string_view text) {
  if (text.empty()) return refusal("the text is empty");
  const auto characters = characters_of(text);
  if (!characters) return characters.error();
  const std::set<std::string_view> different(characters->begin(), characters->end());
  if (different.size() < 2)
    return refusal("the text has one character only, " + std::to_string(characters->size()) +
                   " times: there is nothing to learn");
  if (different.size() > kMost)
    return refusal("the text has " + std::to_string(different.size()) +
                   " different characters, more than the " + std::to_string(kMost) +
                   " that this example takes");
  Vocabulary vocabulary;
  vocabulary.characters_.assign(different.begin(), different.end());
  return vocabulary;
}

vkattn::Result<std::vector<std::uint32_t>> Vocabulary::tokens(std::string_view text) const {
  const auto characters = characters_of(text);
  if (!characters) return characters.error();
  std::vector<std::uint32_t> tokens;
  for (const std::string_view character : *characters) {
    const auto found = std::ranges::lower_bound(characters_, character);
    if (found == characters_.end() || *found != character)
      return refusal("the model does not know the character '" + std::string(character) +
                     "': the text that it was made for has none");
    tokens.push_back(static_cast<std::uint32_t>(found - characters_.begin()));
  }
  return tokens;
}

std::string Vocabulary::text(std::span<const std::uint32_t> tokens) const {
  std::string text;
  for (const std::uint32_t token : tokens) text += characters_[token];
  return text;
}

std::string Vocabulary::all() const {
  std::string text;
  for (const std::string& character : characters_) text += character;
  return text;
}

vkattn::Result<Corpus> Corpus::create(std::vector<std::uint32_t> tokens, std::int64_t context) {
  Corpus corpus;
  corpus.context_ = static_cast<std::size_t>(context);
  const std::size_t tenth = tokens.size() / 10;
  corpus.learned_ = tokens.size() - (tenth > corpus.context_ ? tenth : 0);
  if (corpus.learned_ <= corpus.context_)
    return refusal("the text has " + std::to_string(tokens.size()) + " characters; sequences of " +
                   std::to_string(context) + " need at least " + std::to_string(context + 1) +
                   " (a smaller --context needs fewer)");
  corpus.tokens_ = std::move(tokens);
  return corpus;
}

Batch Corpus::draw(std::int64_t batch, std::uint64_t seed, std::int64_t step) const {
  std::uint64_t state = seed;
  state = next_random(state) + static_cast<std::uint64_t>(step);
  state = next_random(state);
  std::vector<std::size_t> begins;
  for (std::int64_t i = 0; i < batch; ++i) begins.push_back(next_random(state) % (learned_ - context_));
  return sequences(begins);
}

std::vector<Batch> Corpus::kept_back(std::int64_t batch) const {
  constexpr std::size_t kMostBatches = 8;
  std::vector<Batch> batches;
  const std::size_t count = tokens_.size() - learned_;
  if (count <= context_) return batches;
  const std::size_t all = kMostBatches * static_cast<std::size_t>(batch);
  for (std::size_t i = 0; i < all; i += static_cast<std::size_t>(batch)) {
    std::vector<std::size_t> begins;
    for (std::size_t j = i; j < i + static_cast<std::size_t>(batch); ++j)
      begins.push_back(learned_ + (count - context_) * j / all);
    batches.push_back(sequences(begins));
  }
  return batches;
}

Batch Corpus::sequences(std::span<const std::size_t> begins) const {
  Batch batch;
  for (const std::size_t begin : begins) {
    const auto first = tokens_.begin() + static_cast<std::ptrdiff_t>(begin);
    const auto length = static_cast<std::ptrdiff_t>(context_);
    batch.tokens.insert(batch.tokens.end(), first, first + length);
    batch.targets.insert(batch.targets.end(), first + 1, first + 1 + length);
  }
  return batch;
}

}  // namespace train_text
