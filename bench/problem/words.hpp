// Reads and writes numbers exactly, and suggests similar words.
#pragma once

#include <charconv>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <system_error>

namespace vkattn::bench {

enum class NumberError { kNone, kMalformed, kOutOfRange };

/// Reads the whole of `text` as one number, in the C locale, whatever locale the program has.
template <class T>
[[nodiscard]] NumberError read_number(std::string_view text, T& value) {
  const char* const end = text.data() + text.size();
  const std::from_chars_result result = std::from_chars(text.data(), end, value);
  if (result.ec == std::errc::result_out_of_range) return NumberError::kOutOfRange;
  if (result.ec != std::errc() || result.ptr != end) return NumberError::kMalformed;
  return NumberError::kNone;
}

/// The shortest text that read_number() turns into the same number.
template <class T>
[[nodiscard]] std::string number_text(T value) {
  char buffer[64];
  const std::to_chars_result result = std::to_chars(buffer, buffer + sizeof(buffer), value);
  return {buffer, result.ptr};
}

/// The candidate that `word` was probably meant to be. It is few edits away, and case is ignored.
[[nodiscard]] std::optional<std::string_view> closest_word(std::string_view word,
                                                           std::span<const std::string_view> candidates);

/// Cuts the piece before the next separator off `text`. Returns false if nothing is left.
[[nodiscard]] bool next_piece(std::string_view& text, char separator, std::string_view& piece);

}  // namespace vkattn::bench
