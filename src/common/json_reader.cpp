// See json_reader.hpp. The grammar is that of RFC 8259.
#include "common/json_reader.hpp"

#include <algorithm>
#include <charconv>

namespace vkattn::detail {

namespace {

constexpr std::uint32_t kFirstSurrogate = 0xd800, kFirstLowSurrogate = 0xdc00, kAfterSurrogates = 0xe000;

/// Appends a code point as UTF-8.
void append_utf8(std::uint32_t code, std::string& text) {
  const auto add = [&](std::uint32_t byte) { text += static_cast<char>(byte); };
  const auto add_rest = [&](unsigned shift) { add(0x80U | ((code >> shift) & 0x3fU)); };
  if (code < 0x80) return add(code);
  if (code < 0x800) {
    add(0xc0U | (code >> 6U));
  } else {
    if (code < 0x10000) {
      add(0xe0U | (code >> 12U));
    } else {
      add(0xf0U | (code >> 18U));
      add_rest(12);
    }
    add_rest(6);
  }
  add_rest(0);
}

}  // namespace

void JsonReader::skip_blanks() {
  at_ = std::min(text_.find_first_not_of(" \t\r\n", at_), text_.size());
}

bool JsonReader::is_at_end() {
  skip_blanks();
  return at_ == text_.size();
}

bool JsonReader::take(char character) {
  if (is_at_end() || text_[at_] != character) return false;
  ++at_;
  return true;
}

bool JsonReader::take_word(std::string_view word) {
  skip_blanks();
  const std::string_view rest = text_.substr(at_, word.size());
  if (!word.starts_with(rest)) return false;
  at_ += rest.size();
  return rest == word;
}

bool JsonReader::take_digits() {
  const std::size_t end = std::min(text_.find_first_not_of("0123456789", at_), text_.size());
  const bool has_digits = end > at_;
  at_ = end;
  return has_digits;
}

bool JsonReader::take_number() {
  (void)take('-');
  if (at_ < text_.size() && text_[at_] == '0') {
    ++at_;
  } else if (!take_digits()) {
    return false;
  }
  if (at_ < text_.size() && text_[at_] == '.') {
    ++at_;
    if (!take_digits()) return false;
  }
  if (at_ == text_.size() || (text_[at_] != 'e' && text_[at_] != 'E')) return true;
  ++at_;
  if (at_ < text_.size() && (text_[at_] == '+' || text_[at_] == '-')) ++at_;
  return take_digits();
}

bool JsonReader::read(std::uint64_t& value) {
  skip_blanks();
  const std::size_t begin = at_;
  if (!take_number()) return false;
  const char* const end = text_.data() + at_;
  const auto [last, error] = std::from_chars(text_.data() + begin, end, value);
  return error == std::errc() && last == end;
}

bool JsonReader::read(bool& value) {
  skip_blanks();
  value = at_ < text_.size() && text_[at_] == 't';
  return take_word(value ? "true" : "false");
}

bool JsonReader::read_hex(std::uint32_t& value) {
  constexpr std::size_t kDigits = 4;
  const std::string_view digits = text_.substr(at_, kDigits);
  const auto [last, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value, 16);
  at_ += static_cast<std::size_t>(last - digits.data());
  return error == std::errc() && last == digits.data() + kDigits;
}

// The character after a backslash.
bool JsonReader::read_escape(std::string& value) {
  if (at_ == text_.size()) return false;
  constexpr std::string_view kLetters = "\"\\/bfnrt", kMeant = "\"\\/\b\f\n\r\t";
  const char letter = text_[at_];
  if (letter != 'u') {
    const std::size_t which = kLetters.find(letter);
    if (which == kLetters.npos) return false;
    ++at_;
    value += kMeant[which];
    return true;
  }
  ++at_;
  std::uint32_t code = 0, low = 0;
  if (!read_hex(code)) return false;
  if (code >= kFirstSurrogate && code < kFirstLowSurrogate) {
    const bool is_pair = text_.substr(at_, 2) == "\\u";
    if (is_pair) at_ += 2;
    if (!is_pair || !read_hex(low) || low < kFirstLowSurrogate || low >= kAfterSurrogates) return false;
    code = 0x10000U + ((code - kFirstSurrogate) << 10U) + (low - kFirstLowSurrogate);
  } else if (code >= kFirstLowSurrogate && code < kAfterSurrogates) {
    return false;
  }
  append_utf8(code, value);
  return true;
}

bool JsonReader::read(std::string& value) {
  value.clear();
  if (!take('"')) return false;
  while (at_ < text_.size()) {
    const char character = text_[at_];
    if (static_cast<unsigned char>(character) < ' ') return false;
    ++at_;
    if (character == '"') return true;
    if (character != '\\') {
      value += character;
    } else if (!read_escape(value)) {
      return false;
    }
  }
  return false;
}

bool JsonReader::skip() {
  if (is_at_end()) return false;
  std::string ignored;
  switch (text_[at_]) {
    case '{':
      return object([&](std::string_view) { return skip(); });
    case '[':
      return array([&] { return skip(); });
    case '"':
      return read(ignored);
    case 't':
      return take_word("true");
    case 'f':
      return take_word("false");
    case 'n':
      return take_word("null");
    default:
      return take_number();
  }
}

}  // namespace vkattn::detail
