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

/// What a compiler says of a text: where it is one of ours, `file` is its path or empty.
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

/// Does what directives say and puts macros in, without include files. What comes out has directives only of
/// a kind that a compiler reads: #version, #extension, #pragma, #line. `name` is that of the messages' file.
/// No line may go on with the next: glslang throws where one does so after a macro's name.
[[nodiscard]] GlslText preprocess_glsl(const std::string& text, const std::string& name);

/// Compiles one compute shader; its other include files are the embedded ones. From any thread.
[[nodiscard]] GlslOutput compile_glsl(const GlslInput& input);

}  // namespace vkattn::detail
