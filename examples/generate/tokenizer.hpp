// Text and tokens by a tokenizer.json: byte-level BPE, and BPE as SentencePiece makes it.
#pragma once

#include <glib.h>

#include <array>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "generate/model.hpp"

namespace generate {

class Tokenizer {
 public:
  // Refuses kinds of models and steps that are not known, by their names.
  [[nodiscard]] static vkattn::Result<Tokenizer> open(const std::filesystem::path& path);

  // The tokens of a text, after those that begin each text. Refuses a text that is not UTF-8.
  [[nodiscard]] vkattn::Result<std::vector<std::uint32_t>> encode(std::string_view text) const;
  // The bytes of a token; none of a special token or a number that is no token. They may be a part of a
  // character.
  [[nodiscard]] std::string bytes(std::uint32_t token) const;
  // A name for a picture: also of special tokens.
  [[nodiscard]] std::string name(std::uint32_t token) const;

 private:
  struct Regex {
    void operator()(GRegex* regex) const { g_regex_unref(regex); }
  };
  enum class Behavior { kIsolated, kRemoved, kMergedWithPrevious, kMergedWithNext };
  // A step before the merges: it splits pieces of text, or changes each.
  struct Splitter {
    std::shared_ptr<GRegex> pattern;  // null: pieces stay whole
    Behavior behavior = Behavior::kIsolated;
    bool is_inverted = false;        // what does not match is taken for what matches
    bool spells_bytes = false;       // each byte becomes a letter, behind the split
    bool has_space_first = false;    // a text without a space in front gets one
    std::string space, space_first;  // in place of spaces, and in front; SentencePiece's mark
    bool only_at_start = false;      // space_first stands in front of the first piece alone
  };
  struct Normalizer {
    std::string prepended, replaced, content;
    bool has_form = false;
    GNormalizeMode form = G_NORMALIZE_NFC;
  };
  struct Added {
    std::string text;
    std::uint32_t token;
    bool takes_left, takes_right;  // spaces beside it belong to it
  };
  struct Merge {
    std::uint32_t rank, token;
  };
  using Json = nlohmann::json;

  void read(const Json& json);
  void read_model(const Json& model);
  void read_added(const Json& tokens);
  void read_normalizer(const Json& json);
  void read_splitter(const Json& json);
  void read_decoder(const Json& json);
  void read_beginning(const Json& json);
  void add_split(const Json& json);

  [[nodiscard]] std::string normalized(std::string text) const;
  void encode_section(std::string_view text, bool is_first, std::vector<std::uint32_t>& tokens) const;
  [[nodiscard]] std::vector<std::string> split(const Splitter& splitter,
                                               const std::vector<std::string>& pieces) const;
  void encode_word(const std::string& word, std::vector<std::uint32_t>& tokens) const;
  void merge(std::vector<std::uint32_t>& symbols) const;
  void add_unknown(std::string_view character, std::vector<std::uint32_t>& symbols) const;

  std::unordered_map<std::string, std::uint32_t> vocabulary_;
  std::unordered_map<std::uint64_t, Merge> merges_;  // by the pair of tokens
  std::vector<std::string> texts_;                   // of tokens
  std::vector<bool> is_special_, is_added_;
  std::vector<Added> added_;  // the longest first
  std::vector<Normalizer> normalizers_;
  std::vector<Splitter> splitters_;
  std::vector<std::uint32_t> beginning_;
  std::array<std::string, 256> letters_;  // of bytes
  std::unordered_map<std::string, char> bytes_of_letters_;
  std::int64_t unknown_ = -1;
  bool joins_unknown_ = false, falls_back_to_bytes_ = false, takes_whole_words_ = false;
  bool is_byte_level_ = false;  // tokens are spelled in letters for bytes
  std::string space_;           // SentencePiece's mark in tokens
};

}  // namespace generate
