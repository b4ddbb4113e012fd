// The user's text before a compiler sees it: which functions it defines, what it may not use, and the same
// text with names of its own, so that it can stand among the kernels' without colliding with theirs.
#pragma once

#include <vkattn/score_function.hpp>

#include <map>
#include <string>
#include <string_view>

namespace vkattn::detail {

/// Begins every name of the user's file scope once rewritten.
inline constexpr std::string_view kUserPrefix = "vkattn_user_";

struct ScoreSource {
  bool has_score = false;
  bool has_visible = false;
  int lines = 0;
  std::string text;  ///< with prefixes; line by line the user's
  std::map<std::string, int, std::less<>>
      names;              ///< of file scope, buffers' too, with the line of their first mention
  std::string unclosed;   ///< what begins and has no end: a bracket, comment or #if; else empty
  int unclosed_line = 0;  ///< where it is
};

/// "name:line: text".
[[nodiscard]] Error source_error(const ScoreFunctionDesc& desc, int line, std::string_view text);

/// Reads the source, or says what in it a score function cannot have.
[[nodiscard]] Result<ScoreSource> read_score_source(const ScoreFunctionDesc& desc);

}  // namespace vkattn::detail
