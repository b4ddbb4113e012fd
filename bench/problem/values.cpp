// Makes the errors for values that cannot be read.
#include "problem/values.hpp"

#include <utility>

namespace vkattn::bench {

Error problem_error(std::string message) {
  return Error{ErrorCode::kInvalidArgument, {}, std::move(message)};
}

std::string quoted(std::string_view text) {
  constexpr std::size_t kLongest = 60;  // a very long word must not fill the screen
  if (text.size() > kLongest) return "'" + std::string(text.substr(0, kLongest)) + "…'";
  return "'" + std::string(text) + "'";
}

Error refusal(const Given& given, const std::string& needs, std::string_view piece) {
  if (given.is_option)
    return problem_error(std::string(given.typed) + " " + needs + ", not " + quoted(piece));
  return problem_error("the word " + quoted(given.typed) + " " + needs + " where it says " + quoted(piece));
}

Error refusal(const Given& given, const std::string& needs) {
  if (given.is_option) return refusal(given, needs, given.value);
  return problem_error("the word " + quoted(given.typed) + " " + needs);
}

Error no_such_name(const Given& given, std::span<const std::string_view> names) {
  std::string needs = given.is_option ? "needs" : "must name one of";
  for (std::size_t i = 0; i < names.size(); ++i) {
    const bool is_last = i != 0 && i + 1 == names.size();
    needs += i == 0 ? " " : is_last && given.is_option ? " or " : ", ";
    needs += names[i];
  }
  Error error = refusal(given, needs);
  if (const auto meant = closest_word(given.value, names)) {
    error.message += "; did you mean " + quoted(*meant) + "?";
  }
  return error;
}

}  // namespace vkattn::bench
