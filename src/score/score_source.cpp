// Reading a score function's source: tokens, what is refused, signatures, names.
#include "score/score_source.hpp"

#include <algorithm>
#include <array>
#include <initializer_list>
#include <optional>
#include <span>
#include <utility>

#include "common/message.hpp"

namespace vkattn::detail {
namespace {

struct Token {
  std::string_view text;  ///< an identifier, a number, or one character
  std::size_t offset = 0;
  int line = 0;
  bool directive = false;  ///< part of a line that begins with #
  bool identifier = false;
};

bool is_letter(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}
bool is_word(char c) {
  return is_letter(c) || (c >= '0' && c <= '9');
}

/// Splits a text into tokens; comments and white space are left out.
class Lexer {
 public:
  explicit Lexer(std::string_view text) : text_(text) {}

  std::vector<Token> run() {
    while (at_ < text_.size()) {
      if (!skip()) read_token();
    }
    return std::move(tokens_);
  }

  /// Where a comment begins that has no end; else 0.
  [[nodiscard]] int open_comment_line() const { return open_comment_line_; }

 private:
  [[nodiscard]] bool starts(std::string_view what) const { return text_.substr(at_, what.size()) == what; }

  /// White space or a comment; false where a token begins.
  bool skip() {
    if (text_[at_] == '\n') {
      ++at_;
      ++line_;
      line_has_token_ = false;
      directive_ = false;
      return true;
    }
    if (text_[at_] == ' ' || text_[at_] == '\t' || text_[at_] == '\r') return ++at_ != 0;
    if (starts("//")) {
      at_ = std::min(text_.find('\n', at_), text_.size());
      return true;
    }
    if (!starts("/*")) return false;
    const std::size_t end = text_.find("*/", at_ + 2);
    if (end == std::string_view::npos) open_comment_line_ = line_;
    const std::size_t next = end == std::string_view::npos ? text_.size() : end + 2;
    line_ += static_cast<int>(std::count(&text_[at_], text_.data() + next, '\n'));
    at_ = next;
    return true;
  }

  void read_token() {
    const std::size_t begin = at_++;
    const bool identifier = is_letter(text_[begin]);
    if (is_word(text_[begin])) {
      while (at_ < text_.size() && is_word(text_[at_])) ++at_;
    }
    if (text_[begin] == '#' && !line_has_token_) directive_ = true;
    line_has_token_ = true;
    tokens_.push_back({text_.substr(begin, at_ - begin), begin, line_, directive_, identifier});
  }

  std::string_view text_;
  std::vector<Token> tokens_;
  int open_comment_line_ = 0;
  std::size_t at_ = 0;
  int line_ = 1;
  bool line_has_token_ = false;
  bool directive_ = false;
};

bool is_one_of(std::string_view word, std::initializer_list<std::string_view> words) {
  return std::find(words.begin(), words.end(), word) != words.end();
}

constexpr std::string_view kNo64Bits = "cannot be used: scores have 32 bits, and few devices numbers of 64";

/// Why a word cannot be used, or nothing.
std::optional<std::string_view> refusal(std::string_view word) {
  if (is_one_of(word, {"layout", "buffer", "uniform", "shared"})) {
    return "cannot be used: buffers are named in ScoreFunctionDesc::buffers, and nothing else is bound";
  }
  if (word.starts_with("barrier") || word.starts_with("memoryBarrier") ||
      word.starts_with("groupMemoryBarrier")) {
    return "cannot be used: a kernel calls the functions for single positions, not for whole workgroups";
  }
  if (word == "double" || word.starts_with("dvec") || word.starts_with("dmat") ||
      word.find("Double2x32") != std::string_view::npos) {
    return kNo64Bits;
  }
  if (word.starts_with("gl_")) return "cannot be used: a score depends on its arguments and the buffers only";
  if (word.starts_with("vkattn") || word.starts_with("VKATTN")) {
    return "cannot be used: names that begin with vkattn are the library's";
  }
  return std::nullopt;
}

/// GLSL has nothing but ASCII outside of comments. A compiler would name the first byte of a character.
Result<void> check_characters(const ScoreFunctionDesc& desc, const std::vector<Token>& tokens) {
  const auto is_ascii = [](char c) { return (static_cast<unsigned char>(c) & 0x80U) == 0; };
  const auto continues = [](char c) { return (static_cast<unsigned char>(c) & 0xc0U) == 0x80U; };
  for (const Token& token : tokens) {
    if (is_ascii(token.text.front())) continue;
    const std::string_view rest = std::string_view(desc.source).substr(token.offset);
    std::size_t length = 1;
    while (length < std::min<std::size_t>(rest.size(), 4) && continues(rest[length])) ++length;
    return source_error(
        desc, token.line,
        message("the character '", rest.substr(0, length), "' may stand in comments only, as GLSL is ASCII"));
  }
  return {};
}

Result<void> check_words(const ScoreFunctionDesc& desc, const std::vector<Token>& tokens) {
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    const Token& token = tokens[i];
    if (!token.identifier && (token.text.ends_with("lf") || token.text.ends_with("LF"))) {
      return source_error(desc, token.line, message("the suffix of '", token.text, "' ", kNo64Bits));
    }
    if (!token.identifier) continue;
    const bool names_directive = i > 0 && tokens[i - 1].directive && tokens[i - 1].text == "#";
    if (names_directive && std::ranges::count(kRefusedDirectives, token.text) != 0) {
      return directive_error(desc, token.line, token.text);
    }
    if (token.text == "main" && i + 1 < tokens.size() && tokens[i + 1].text == "(") {
      return source_error(desc, token.line, "'main' is the kernel's: define score or visible");
    }
    if (const auto why = refusal(token.text)) {
      return source_error(desc, token.line, message("'", token.text, "' ", *why));
    }
  }
  return {};
}

/// Follows brackets through the tokens.
struct Nesting {
  std::vector<const Token*> open;

  void pass(const Token& token) {
    if (is_one_of(token.text, {"{", "(", "["})) open.push_back(&token);
    if (is_one_of(token.text, {"}", ")", "]"}) && !open.empty()) open.pop_back();
  }
};

/// The last #if that has no #endif; null where each has one.
const Token* open_condition(const std::vector<Token>& tokens) {
  std::vector<const Token*> conditions;
  for (std::size_t i = 0; i + 1 < tokens.size(); ++i) {
    if (!tokens[i].directive || tokens[i].text != "#") continue;
    const Token& name = tokens[i + 1];
    if (is_one_of(name.text, {"if", "ifdef", "ifndef"})) conditions.push_back(&name);
    if (name.text == "endif" && !conditions.empty()) conditions.pop_back();
  }
  return conditions.empty() ? nullptr : conditions.back();
}

void find_unclosed(const std::vector<Token>& tokens, ScoreSource& source) {
  Nesting nesting;
  for (const Token& token : tokens) nesting.pass(token);
  if (nesting.open.empty()) return;
  source.unclosed = message("'", nesting.open.back()->text, "'");
  source.unclosed_line = nesting.open.back()->line;
}

/// Counts the operators and brackets that hang on one another, which is what a compiler's recursion grows
/// with: those of one statement, but for what a list of arguments has beside itself.
class Chain {
 public:
  /// The count after this token, which stands between those.
  std::size_t pass(const Token& before, const Token& token, const Token& after) {
    const std::string_view text = token.text;
    if (token.directive && text == "#") *this = {};  // a line of its own
    if (is_one_of(text, {"(", "[", "{"})) {
      ++count_;
      open_.push_back({count_, text == "{" && !is_list(before, text), is_list(before, text)});
    } else if (is_one_of(text, {")", "]", "}"})) {
      if (open_.empty()) return count_;
      count_ = open_.back().count;
      const bool statement = open_.back().block;
      open_.pop_back();
      if (statement && after.text != "else") count_ = base();
    } else if (text == ";" && (open_.empty() || open_.back().block)) {
      if (after.text != "else") count_ = base();
    } else if (text == "," && !open_.empty() && open_.back().list) {
      count_ = base();
    } else if (text == ".") {
      if (after.identifier && !is_number(before)) ++count_;
    } else if (is_one_of(text, {"else", "do"}) || !is_word(text.front())) {
      ++count_;
    }
    return count_;
  }

 private:
  struct Open {
    std::size_t count = 0;  ///< with the bracket
    bool block = false;     ///< of statements
    bool list = false;      ///< of arguments or of an array's elements
  };

  [[nodiscard]] static bool is_number(const Token& token) {
    return !token.identifier && !token.text.empty() && is_word(token.text.front());
  }
  [[nodiscard]] bool is_list(const Token& before, std::string_view bracket) const {
    if (bracket == "[") return false;
    const bool within = !open_.empty() && open_.back().list;
    if (bracket == "{") return before.text == "=" || (within && is_one_of(before.text, {"{", ","}));
    const bool keyword =
        is_one_of(before.text, {"if", "for", "while", "switch", "return", "case", "else", "do"});
    return before.text == "]" || (before.identifier && !keyword);
  }
  [[nodiscard]] std::size_t base() const { return open_.empty() ? 0 : open_.back().count; }

  std::vector<Open> open_;
  std::size_t count_ = 0;
};

/// glslang's parser, tree walks and preprocessor recurse, and a stack that overflows ends the process.
Result<void> check_nesting(const ScoreFunctionDesc& desc, const std::vector<Token>& tokens) {
  constexpr std::size_t kMost = 500;  // takes less than 512 KiB of stack
  Chain chain;
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    const Token& before = i > 0 ? tokens[i - 1] : Token{};
    const Token& after = i + 1 < tokens.size() ? tokens[i + 1] : Token{};
    if (chain.pass(before, tokens[i], after) <= kMost) continue;
    return source_error(
        desc, tokens[i].line,
        message("more than ", kMost,
                " operators and brackets hang on one another; give parts of the expression names"));
  }
  return {};
}

/// Tokens of file scope, without what stands in brackets after a name: those of a
/// function keep "(" and "{" only.
std::vector<std::size_t> file_scope(const std::vector<Token>& tokens) {
  std::vector<std::size_t> scope;
  Nesting nesting;
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    const bool outside = nesting.open.empty();
    nesting.pass(tokens[i]);
    if (outside && tokens[i].text != "[") scope.push_back(i);
    if (!outside && nesting.open.empty() && tokens[i].text == "}") scope.push_back(i);
  }
  return scope;
}

void find_names(const std::vector<Token>& tokens, ScoreSource& source) {
  const auto add = [&](const Token& token) { source.names.try_emplace(std::string(token.text), token.line); };
  const std::vector<std::size_t> scope = file_scope(tokens);
  bool in_value = false;  // after the = of a constant
  bool in_precision = false;
  for (std::size_t i = 0; i + 1 < scope.size(); ++i) {
    const Token& token = tokens[scope[i]];
    const std::string_view next = tokens[scope[i + 1]].text;
    if (token.text == "precision") in_precision = true;
    if (token.text == "=") in_value = true;
    if (is_one_of(token.text, {",", ";", "}"})) in_value = false;
    if (token.identifier && !in_value && !in_precision && is_one_of(next, {"(", "=", ";", ",", "{"}))
      add(token);
    if (token.text == ";") in_precision = false;
  }
}

/// Whether tokens from `at` on are the words of a signature. "*" stands for a name that may be left out;
/// qualifiers of arguments that change nothing are skipped.
bool matches(const std::vector<Token>& tokens, std::size_t at, std::span<const std::string_view> words) {
  for (const std::string_view word : words) {
    while (at < tokens.size() && is_one_of(tokens[at].text, {"const", "in", "highp"})) ++at;
    if (at >= tokens.size()) return false;
    if (word == "*") {
      if (tokens[at].identifier) ++at;
      continue;
    }
    if (tokens[at].text != word) return false;
    ++at;
  }
  return true;
}

/// Finds a function of the interface and checks its signature wherever it is declared.
Result<void> find_function(const ScoreFunctionDesc& desc, const std::vector<Token>& tokens,
                           std::span<const std::string_view> words, std::string_view signature, bool& found) {
  const std::vector<std::size_t> scope = file_scope(tokens);
  for (std::size_t i = 0; i + 1 < scope.size(); ++i) {
    const Token& token = tokens[scope[i]];
    const bool called_so = token.identifier && token.text == words[1];
    if (!called_so || tokens[scope[i + 1]].text != "(") continue;
    if (scope[i] == 0 || !matches(tokens, scope[i] - 1, words)) {
      return source_error(desc, token.line, message("'", words[1], "' must be ", signature));
    }
    found = true;
  }
  return {};
}

/// Where member names of structs stand, which are no names of file scope.
std::vector<bool> find_members(const std::vector<Token>& tokens) {
  std::vector<bool> member(tokens.size(), false);
  int depth = 0;  // of braces within a struct
  int brackets = 0;
  for (std::size_t i = 1; i < tokens.size(); ++i) {
    const std::string_view text = tokens[i].text;
    if (tokens[i - 1].text == ".") member[i] = true;
    if (text == "{" &&
        (depth > 0 || tokens[i - 1].text == "struct" || (i > 1 && tokens[i - 2].text == "struct"))) {
      ++depth;
    } else if (depth > 0) {
      if (text == "}") --depth;
      if (text == "[") ++brackets;
      if (text == "]") --brackets;
      const bool begins = is_one_of(tokens[i - 1].text, {"{", ";"});
      if (brackets == 0 && !begins && tokens[i].identifier) member[i] = true;
    }
  }
  return member;
}

std::string prefixed(std::string_view text, const std::vector<Token>& tokens, const ScoreSource& source) {
  const std::vector<bool> member = find_members(tokens);
  std::string result;
  std::size_t copied = 0;
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    if (!tokens[i].identifier || member[i] || !source.names.contains(tokens[i].text)) continue;
    result += text.substr(copied, tokens[i].offset - copied);
    result += kUserPrefix;
    copied = tokens[i].offset;
  }
  result += text.substr(copied);
  return result;
}

Result<void> check_buffers(const ScoreFunctionDesc& desc) {
  const auto fail = [&](auto&&... parts) { return invalid(desc.name, ": ", parts...); };
  if (desc.buffers.size() > kMaxScoreBuffers) {
    return fail("has ", desc.buffers.size(), " buffers but at most ", kMaxScoreBuffers, " are possible");
  }
  for (std::size_t i = 0; i < desc.buffers.size(); ++i) {
    const std::string& name = desc.buffers[i].name;
    const bool word = !name.empty() && is_letter(name[0]) && std::all_of(name.begin(), name.end(), is_word);
    if (!word || name.size() > 64) {
      return fail("the buffer name '", name, "' must be a GLSL name of at most 64 characters");
    }
    if (is_one_of(name, {"score", "visible", "Position"}) || refusal(name)) {
      return fail("a buffer cannot be called '", name, "', which has a meaning of its own");
    }
    if (desc.buffers[i].type > ScoreBufferType::kUint) {
      return fail("the type of the buffer '", name, "' holds ",
                  static_cast<std::uint32_t>(desc.buffers[i].type), ", which names no type");
    }
    for (std::size_t k = 0; k < i; ++k) {
      if (desc.buffers[k].name == name) return fail("two buffers are called '", name, "'");
    }
  }
  return {};
}

}  // namespace

Error source_error(const ScoreFunctionDesc& desc, int line, std::string_view text) {
  return invalid(desc.name, ":", line, ": ", text);
}

Error directive_error(const ScoreFunctionDesc& desc, int line, std::string_view directive) {
  return source_error(desc, line, message("#", directive, " cannot be used in a score function"));
}

std::string joined_lines(std::string_view text) {
  std::string result;
  std::size_t continued = 0;
  while (!text.empty()) {
    const std::size_t mark = std::min(text.find_first_of("\\\n"), text.size());
    result += text.substr(0, mark);
    text.remove_prefix(mark);
    if (text.starts_with("\\\n") || text.starts_with("\\\r\n") || text == "\\" || text == "\\\r") {
      const std::size_t end = text.find('\n');
      if (end != std::string_view::npos) ++continued;
      text.remove_prefix(std::min(end, text.size() - 1) + 1);
      // A stray one before it does not go on with what follows.
      if (result.ends_with('\\') || result.ends_with("\\\r")) result += ' ';
    } else if (!text.empty()) {
      result += text.front();
      if (text.front() == '\n') result.append(std::exchange(continued, 0), '\n');
      text.remove_prefix(1);
    }
  }
  return result.append(continued, '\n');
}

Result<void> check_score_source(const ScoreFunctionDesc& desc) {
  if (Result<void> s = check_buffers(desc); !s) return s;
  if (const std::size_t zero = desc.source.find('\0'); zero != std::string::npos) {
    const auto lines =
        std::count(desc.source.begin(), desc.source.begin() + static_cast<std::ptrdiff_t>(zero), '\n');
    return source_error(desc, static_cast<int>(lines) + 1, "a byte of value 0 stands in the text");
  }
  Lexer lexer(desc.source);
  const std::vector<Token> tokens = lexer.run();
  if (lexer.open_comment_line() != 0) {
    return source_error(desc, lexer.open_comment_line(), "'/*' is never closed");
  }
  if (const Token* const condition = open_condition(tokens)) {
    return source_error(desc, condition->line, message("'#", condition->text, "' is never closed"));
  }
  if (Result<void> s = check_characters(desc, tokens); !s) return s;
  return check_nesting(desc, tokens);
}

Result<ScoreSource> read_score_source(const ScoreFunctionDesc& desc, std::string_view preprocessed) {
  ScoreSource source;
  const auto breaks = static_cast<int>(std::count(desc.source.begin(), desc.source.end(), '\n'));
  source.lines = std::max(breaks + (desc.source.ends_with('\n') ? 0 : 1), 1);
  const std::vector<Token> tokens = Lexer(preprocessed).run();
  if (Result<void> s = check_nesting(desc, tokens); !s) return s.error();
  if (Result<void> s = check_words(desc, tokens); !s) return s.error();
  constexpr std::array<std::string_view, 9> score{"float", "score",    "(", "float", "*",
                                                  ",",     "Position", "*", ")"};
  constexpr std::array<std::string_view, 6> visible{"bool", "visible", "(", "Position", "*", ")"};
  if (Result<void> s =
          find_function(desc, tokens, score, "float score(float s, Position p)", source.has_score);
      !s)
    return s.error();
  if (Result<void> s = find_function(desc, tokens, visible, "bool visible(Position p)", source.has_visible);
      !s)
    return s.error();
  if (!source.has_score && !source.has_visible) {
    return invalid(desc.name,
                   ": defines neither float score(float s, Position p) nor bool visible(Position p)");
  }
  find_unclosed(tokens, source);
  for (const ScoreBuffer& buffer : desc.buffers) source.names.try_emplace(buffer.name, 1);
  find_names(tokens, source);
  if (const auto position = source.names.find("Position"); position != source.names.end()) {
    return source_error(desc, position->second, "'Position' is the library's");
  }
  source.text = prefixed(preprocessed, tokens, source);
  return source;
}

}  // namespace vkattn::detail
