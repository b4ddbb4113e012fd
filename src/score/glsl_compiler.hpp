// GLSL to SPIR-V through the glslang library.
#pragma once

#include <vkattn/result.hpp>

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace vkattn::detail {

struct GlslInput {
  std::string_view text;
  std::string_view defines;             ///< NAME=VALUE, separated by spaces
  std::string_view target_environment;  ///< vulkan1.1, vulkan1.2 or vulkan1.3
  std::string_view user_text;           ///< what the include file "user_score.glsl" holds
};

/// A compiler's message on a text. For a text of the library, `file` is its path or empty.
struct GlslMessage {
  std::string file;
  int line = 0;  ///< 0 where it has none
  std::string text;
};

struct GlslOutput {
  std::vector<std::uint32_t> words;   ///< empty where it failed
  std::vector<GlslMessage> messages;  ///< of a failure; warnings are left out
};

struct GlslText {
  std::string text;                   ///< line by line what came in
  std::vector<GlslMessage> messages;  ///< of a failure; none: it did not fail
};

/// Runs the preprocessor, without include files. The result has only directives that a compiler reads:
/// #version, #extension, #pragma, #line. `name` is the file's name in messages. No line may be continued:
/// glslang throws if one is after a macro's name.
[[nodiscard]] GlslText preprocess_glsl(const std::string& text, const std::string& name);

/// Compiles one compute shader; its other include files are the embedded ones. From any thread.
[[nodiscard]] GlslOutput compile_glsl(const GlslInput& input);

}  // namespace vkattn::detail
