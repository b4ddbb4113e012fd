// Reads the value of a word or an option: a number or a name. Says in an error what else was found.
#pragma once

#include <charconv>
#include <limits>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "problem/names.hpp"
#include "problem/words.hpp"

namespace vkattn::bench {

/// A word of a problem string, such as softcap=50, or an option of the command line, such as --softcap 50.
struct Given {
  std::string_view typed;  ///< the whole word, or the option's name
  std::string_view value;  ///< the text to read; the whole word if it has no value
  bool is_option = false;
};

[[nodiscard]] Error problem_error(std::string message);
/// The text in quotes, cut if it would fill the screen.
[[nodiscard]] std::string quoted(std::string_view text);

/// "the word 'softcap=x' needs a number where it says 'x'", or "--softcap needs a number, not 'x'".
[[nodiscard]] Error refusal(const Given& given, const std::string& needs, std::string_view piece);
/// The error for a value that is wrong as a whole.
[[nodiscard]] Error refusal(const Given& given, const std::string& needs);
/// The error that lists the allowed names and suggests the one that was probably meant.
[[nodiscard]] Error no_such_name(const Given& given, std::span<const std::string_view> names);

/// The kind of numbers of a type, for messages about options.
template <class T>
[[nodiscard]] std::string number_kind() {
  if constexpr (std::is_floating_point_v<T>) return "a number";
  return std::is_unsigned_v<T> ? "a whole number from 0 on" : "a whole number";
}

/// Reads the whole of `piece`, a part of the given value, as a number.
template <class T>
[[nodiscard]] Result<void> read_piece(const Given& given, std::string_view piece, T& number) {
  const std::string kind = given.is_option ? number_kind<T>() : "a number";
  const std::string bits = std::to_string(sizeof(T) * 8);
  switch (read_number(piece, number)) {
    case NumberError::kNone:
      return {};
    case NumberError::kMalformed:
      return refusal(given, "needs " + kind, piece);
    case NumberError::kOutOfRange:
      break;
  }
  if (!given.is_option) {
    return problem_error("the number in " + quoted(given.typed) + " does not fit " + bits + " bits");
  }
  const std::string fits = std::is_floating_point_v<T> ? " that fits float" + bits : " of " + bits + " bits";
  return refusal(given, "needs " + kind + fits, piece);
}

template <class T>
[[nodiscard]] Result<void> read_name(const Given& given, std::span<const std::type_identity_t<Name<T>>> names,
                                     T& value) {
  std::vector<std::string_view> texts;
  for (const Name<T>& name : names) {
    if (name.text == given.value) {
      value = name.value;
      return {};
    }
    texts.push_back(name.text);
  }
  return no_such_name(given, texts);
}

/// The name of a value. Empty if the value has no name.
template <class T>
[[nodiscard]] std::string_view name_of(std::span<const std::type_identity_t<Name<T>>> names, T value) {
  for (const Name<T>& name : names) {
    if (name.value == value) return name.text;
  }
  return {};
}

}  // namespace vkattn::bench
