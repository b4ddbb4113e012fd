// Reads problem strings: looks each word up in the table. A word that is not there is an error.
#include <algorithm>
#include <optional>

#include "problem/problem_parser.hpp"

namespace vkattn::bench {

namespace {

/// The parts of a word as typed.
struct Parts {
  Form form;
  std::string_view key;
  std::string_view value;
};

const Word* find_word(Form form, std::string_view key) {
  for (const Word& word : words()) {
    if (word.form == form && word.key == key) return &word;
  }
  return nullptr;
}

std::vector<std::string_view> keys_of(Form form) {
  std::vector<std::string_view> keys;
  for (const Word& word : words()) {
    if (word.form == form) keys.push_back(word.key);
  }
  return keys;
}

Parts parts_of(std::string_view word) {
  const std::size_t equals = word.find('=');
  if (equals != std::string_view::npos) {
    return {Form::kSetting, word.substr(0, equals), word.substr(equals + 1)};
  }
  const std::size_t digit = word.find_first_of("-0123456789");
  if (digit != std::string_view::npos) {
    const std::string_view letters = word.substr(0, digit);
    if (find_word(Form::kSize, letters) != nullptr) return {Form::kSize, letters, word.substr(digit)};
    const auto crosses = std::ranges::count(word, 'x');
    if (digit == 0 && crosses > 0) return {crosses == 1 ? Form::kCross : Form::kProduct, "", word};
  }
  return {Form::kFlag, word, word};
}

/// A question that suggests the word that was probably meant. Empty if no word is similar.
std::string suggestion(std::string_view word, const Parts& parts) {
  const auto ask = [](std::string_view meant, std::string_view rest) {
    return "; did you mean '" + std::string(meant) + std::string(rest) + "'?";
  };
  if (parts.form != Form::kSetting) {
    if (const auto flag = closest_word(word, keys_of(Form::kFlag))) return ask(*flag, "");
  }
  if (const auto setting = closest_word(parts.key, keys_of(Form::kSetting))) return ask(*setting, "=…");
  const std::size_t digit = word.find_first_of("0123456789");
  // A number alone may be a length.
  if (!word.empty() && word.find_first_not_of("0123456789") == std::string_view::npos) {
    return ask(word, "x" + std::string(word));
  }
  if (parts.form == Form::kSetting || digit == std::string_view::npos || digit == 0) return {};
  const auto size = closest_word(word.substr(0, digit), keys_of(Form::kSize));
  return size ? ask(*size, word.substr(digit, 20)) : std::string();
}

}  // namespace

std::string_view ProblemParser::word_of(std::string_view thing) const {
  for (const auto& [set, word] : set_by_) {
    if (set == thing) return word;
  }
  return {};
}

Result<void> ProblemParser::once(std::string_view thing, std::string_view word) {
  if (has(thing)) {
    return problem_error(quoted(word) + " sets again what " + quoted(word_of(thing)) +
                         " has set; give one of them");
  }
  set_by_.emplace_back(thing, word);
  return {};
}

Result<void> ProblemParser::read_word(std::string_view word) {
  const Parts parts = parts_of(word);
  const Word* const row = find_word(parts.form, parts.key);
  if (row == nullptr) {
    return problem_error("unknown word " + quoted(word) + " in the problem" + suggestion(word, parts));
  }
  if (Result<void> s = row->read({word, parts.value}, problem_); !s.ok()) return s;
  if (row->subject == Subject::kAttention && attention_word_.empty()) attention_word_ = word;
  if (row->subject == Subject::kMatmul && matmul_word_.empty()) matmul_word_ = word;
  if (row->sets[0].empty()) return once(row->key, word);
  for (const std::string_view thing : row->sets) {
    if (thing.empty()) continue;
    if (Result<void> s = once(thing, word); !s.ok()) return s;
  }
  return {};
}

Result<void> ProblemParser::read(std::string_view text) {
  constexpr std::string_view kSpaces = " \t\r\n";
  std::size_t begin = text.find_first_not_of(kSpaces);
  while (begin != std::string_view::npos) {
    const std::size_t end = text.find_first_of(kSpaces, begin);
    if (Result<void> s = read_word(text.substr(begin, end - begin)); !s.ok()) return s;
    begin = text.find_first_not_of(kSpaces, end);
  }
  return {};
}

Result<Problem> parse_problem(std::string_view text) {
  ProblemParser parser;
  if (Result<void> s = parser.read(text); !s.ok()) return s.error();
  return parser.finish();
}

}  // namespace vkattn::bench
