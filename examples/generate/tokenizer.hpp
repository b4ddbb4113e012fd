// Text and tokens by a tokenizer.json: byte-level BPE, and BPE as SentencePiece makes it.
#pragma once

#include <vkattn/result.hpp>

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

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
  struct Rules;
  std::shared_ptr<const Rules> rules_;
};

}  // namespace generate
