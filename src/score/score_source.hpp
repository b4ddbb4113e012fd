// The user's text before a compiler sees it: what a preprocessor may be given, which functions are defined in
// what it makes of it, what may not be used, and the same text with names of its own, so that it can stand
// among the kernels' without colliding with theirs.
#pragma once

#include <vkattn/score_function.hpp>

#include <array>
#include <map>
#include <string>
#include <string_view>

namespace vkattn::detail {

/// Begins every name of the user's file scope once rewritten.
inline constexpr std::string_view kUserPrefix = "vkattn_user_";

struct ScoreSource {
  bool has_score = false;
  bool has_visible = false;
  int lines = 0;     ///< of the user's text
  std::string text;  ///< with prefixes; line by line the user's
  std::map<std::string, int, std::less<>>
      names;              ///< of file scope, buffers' too, with the line of their first mention
  std::string unclosed;   ///< a bracket that has no end; else empty
  int unclosed_line = 0;  ///< where it is
};

/// "name:line: text".
[[nodiscard]] Error source_error(const ScoreFunctionDesc& desc, int line, std::string_view text);

/// Directives that a score function cannot have.
inline constexpr std::array<std::string_view, 5> kRefusedDirectives{"include", "extension", "version", "line",
                                                                    "pragma"};
[[nodiscard]] Error directive_error(const ScoreFunctionDesc& desc, int line, std::string_view directive);

/// The text with each line that goes on with the next as one, and as many lines as before.
[[nodiscard]] std::string joined_lines(std::string_view text);

/// Checks the source before a preprocessor reads it: buffers, characters, comments and #if without an end,
/// and expressions that would take a compiler's stack. Lines are joined before.
[[nodiscard]] Result<void> check_score_source(const ScoreFunctionDesc& desc);

/// Reads what a preprocessor made of the source, or says what in it a score function cannot have.
[[nodiscard]] Result<ScoreSource> read_score_source(const ScoreFunctionDesc& desc,
                                                    std::string_view preprocessed);

}  // namespace vkattn::detail
