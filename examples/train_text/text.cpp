#include "train_text/text.hpp"

#include <algorithm>
#include <set>

#include "decoder/files.hpp"

namespace train_text {

namespace {

vkattn::Error refuse(const std::string& what) {
  return {vkattn::ErrorCode::kInvalidArgument, 0, what};
}

// The number of bytes of the text's first character; 0 if the text is not UTF-8. Surrogates, forms that are
// longer than they need be and codes beyond U+10FFFF are not.
std::size_t character_bytes(std::string_view text) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned char first = byte(0);
  const std::size_t bytes = first < 0x80   ? 1
                            : first < 0xc2 ? 0
                            : first < 0xe0 ? 2
                            : first < 0xf0 ? 3
                            : first < 0xf5 ? 4
                                           : 0;
  if (bytes > text.size()) return 0;
  const unsigned least = first == 0xe0 ? 0xa0 : first == 0xf0 ? 0x90 : 0x80;
  const unsigned most = first == 0xed ? 0x9f : first == 0xf4 ? 0x8f : 0xbf;
  if (bytes > 1 && (byte(1) < least || byte(1) > most)) return 0;
  for (std::size_t i = 1; i < bytes; ++i) {
    if ((byte(i) & 0xc0U) != 0x80U) return 0;
  }
  return bytes;
}

vkattn::Result<std::vector<std::string_view>> characters_of(std::string_view text) {
  std::vector<std::string_view> characters;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t bytes = character_bytes(text.substr(at));
    if (bytes == 0) return refuse("the text is no UTF-8 at its byte " + std::to_string(at));
    characters.push_back(text.substr(at, bytes));
    at += bytes;
  }
  return characters;
}

}  // namespace

std::uint64_t next_random(std::uint64_t& state) {
  std::uint64_t bits = state += 0x9e3779b97f4a7c15U;
  bits = (bits ^ bits >> 30U) * 0xbf58476d1ce4e5b9U;
  bits = (bits ^ bits >> 27U) * 0x94d049bb133111ebU;
  return bits ^ bits >> 31U;
}

vkattn::Result<std::string> read_files(const std::vector<std::filesystem::path>& paths) {
  std::string text;
  for (const std::filesystem::path& path : paths) {
    const auto content = decoder::file_text(path);
    if (!content) return content.error();
    text += *content;
  }
  return text;
}

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
  if (text.empty()) return refuse("the text is empty");
  const auto characters = characters_of(text);
  if (!characters) return characters.error();
  const std::set<std::string_view> different(characters->begin(), characters->end());
  if (different.size() < 2)
    return refuse("the text has one character only, " + std::to_string(characters->size()) +
                  " times: there is nothing to learn");
  if (different.size() > kMost)
    return refuse("the text has " + std::to_string(different.size()) +
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
      return refuse("the model does not know the character '" + std::string(character) +
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
    return refuse("the text has " + std::to_string(tokens.size()) + " characters; sequences of " +
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
