// Score functions: the text that kernels include, checking it, and compiling kernels with it.
#include <vkattn/score_function.hpp>

#include <algorithm>
#include <mutex>
#include <utility>

#include "common/message.hpp"
#include "score/glsl_compiler.hpp"
#include "score/score_source.hpp"
#include "score/shader_texts.hpp"
#include "shared/attention_constants.h"

static_assert(vkattn::kMaxScoreBuffers == VKATTN_USER_BINDINGS);

namespace vkattn {
namespace detail {

struct ScoreFunctionState {
  ScoreFunctionDesc desc;
  ScoreSource source;
  std::string include_text;  ///< what kernels include
  std::mutex mutex;
  std::map<std::string, std::vector<std::uint32_t>, std::less<>> binaries;  ///< guarded by the mutex
};

namespace {

/// The name of the user's text in #line, so that messages about it are known.
constexpr std::string_view kUserText = "vkattn_user";

/// Calls both functions, where nothing but what is promised can be seen by them.
constexpr std::string_view kTrialShader = R"(#version 460
#extension GL_GOOGLE_include_directive : require
#include "user_score.glsl"
layout(local_size_x = 1) in;
layout(std430, set = 0, binding = 0) buffer Result { float result; };
void main() {
  const Position position = Position(0u, 0u, 0u, 0u);
  if (vkattn_visible(position)) result = vkattn_score(result, position);
}
)";

/// Before the user's text.
constexpr std::string_view kPositionText = R"(struct Position {
  uint batch;
  uint head;
  uint query;
  uint key;
};
)";

/// After it: what lib/score_function.glsl promises to kernels. Their scores are in log2 units, and their
/// positions count from the beginning of a window.
constexpr std::string_view kInterfaceText = R"(
Position vkattn_position(uint batch, uint head, uint query, uint key) {
  return Position(features.first_batch + batch, features.first_head + head, features.first_row + query, key);
}
float user_score(float score, uint batch, uint head, uint query, uint key) {
  const float result = vkattn_score(0.693147180559945 * score, vkattn_position(batch, head, query, key));
  return floatBitsToUint(result) == 0xff800000u ? kHiddenScore : logit_in_log2_units(result);
}
bool user_visible(uint batch, uint head, uint query, uint key) {
  return vkattn_visible(vkattn_position(batch, head, query, key));
}
)";

std::string_view type_name(ScoreBufferType type) {
  return type == ScoreBufferType::kFloat ? "float" : type == ScoreBufferType::kInt ? "int" : "uint";
}

/// Reads of a buffer stay inside of what is bound, whatever the index.
std::string buffer_text(const ScoreBuffer& buffer, std::size_t number) {
  const std::string_view type = type_name(buffer.type);
  const std::string name = message(kUserPrefix, buffer.name);
  const std::string elements = message("vkattn_buffer_", buffer.name);
  return message("layout(set = 0, binding = ", VKATTN_BINDING_USER + number,
                 ", std430) readonly buffer VkattnBuffer", number, " { ", type, " ", elements, "[]; };\n",  //
                 type, " ", name, "(uint index) { return ", elements, "[min(index, uint(", elements,
                 ".length()) - 1u)]; }\n",  //
                 type, " ", name, "(int index) { return ", name, "(uint(max(index, 0))); }\n");
}

/// The user's text with its buffers, and both functions whether defined or not.
std::string functions_text(const ScoreFunctionDesc& desc, const ScoreSource& source) {
  std::string text(kPositionText);
  for (std::size_t i = 0; i < desc.buffers.size(); ++i) text += buffer_text(desc.buffers[i], i);
  text += message("#line 1 \"", kUserText, "\"\n", source.text, "\n\n");
  text += message("float vkattn_score(float s, Position p) { return ",
                  source.has_score ? "vkattn_user_score(s, p)" : "s", "; }\n",  //
                  "bool vkattn_visible(Position p) { return ",
                  source.has_visible ? "vkattn_user_visible(p)" : "true", "; }\n");
  return text;
}

/// The text that kernels include.
std::string include_text(const std::string& functions, const ScoreSource& source) {
  const auto flag = [](bool value) { return value ? "true" : "false"; };
  return message(functions, "const bool kHasUserScore = ", flag(source.has_score), ";\n",  //
                 "const bool kUserHides = ", flag(source.has_visible), ";\n", kInterfaceText);
}

/// A compiler's sentence in the user's names: without our prefix, and with "f()" for "f(f1;vf2;".
std::string readable(std::string_view text) {
  if (text.starts_with("'' :")) text.remove_prefix(4);
  while (text.starts_with(" ")) text.remove_prefix(1);
  std::string result;
  while (!text.empty()) {
    if (text.starts_with(kUserPrefix)) {
      text.remove_prefix(kUserPrefix.size());
      continue;
    }
    const std::size_t end = text.front() == '(' ? text.find_first_of(" )") : std::string_view::npos;
    const std::size_t last = std::min(end, text.size());
    const bool mangled = text.front() == '(' && (last == 1 || text[last - 1] == ';');
    if (mangled && (last == text.size() || text[last] == ' ')) {
      result += "()";
      text.remove_prefix(last);
      continue;
    }
    if (text.front() != ' ' || !result.ends_with(' ')) result += text.front();
    text.remove_prefix(1);
  }
  return result;
}

/// The line of the first of the user's names in a sentence about the whole text; 0 where there is none.
int line_of_name(const ScoreSource& source, std::string_view text) {
  const std::size_t begin = text.find(kUserPrefix);
  if (begin == std::string_view::npos) return 0;
  text.remove_prefix(begin + kUserPrefix.size());
  const auto found = source.names.find(text.substr(0, text.find('(')));
  return found != source.names.end() ? found->second : 0;
}

/// The compiler's messages, in names and lines of the user's source.
Error compile_error(const ScoreFunctionDesc& desc, const ScoreSource& source, const GlslOutput& output) {
  std::string text;
  const auto add = [&](const std::string& sentence) { text += message(text.empty() ? "" : "\n", sentence); };
  // Only the first message of a line counts: the compiler goes on as well as it can, and further messages of
  // the line mostly follow from the first.
  int last_line = 0;
  for (const GlslMessage& found : output.messages) {
    const std::string sentence = readable(found.text);
    if (found.file == kUserText && found.line <= source.lines) {
      if (found.line == last_line) continue;
      last_line = found.line;
      add(source_error(desc, found.line, sentence).message);
    } else if (found.line == 0) {
      const int line = line_of_name(source, found.text);
      add(line != 0 ? source_error(desc, line, sentence).message : message(desc.name, ": ", sentence));
    }
  }
  if (!text.empty()) return invalid(text);
  // If something in the text has no end, the text after it fails.
  if (!source.unclosed.empty()) {
    return source_error(desc, source.unclosed_line, message(source.unclosed, " is never closed"));
  }
  return source_error(desc, source.lines,
                      message("the text ends too early",
                              output.messages.empty() ? "" : ": " + readable(output.messages[0].text)));
}

/// The source after preprocessing. Its lines are the user's.
Result<std::string> preprocessed(const ScoreFunctionDesc& desc) {
  // The newline ends a last line that has no end, which the preprocessor could not handle.
  GlslText output = preprocess_glsl(desc.source + "\n", std::string(kUserText));
  if (output.messages.empty()) return std::move(output.text);
  const GlslMessage& first = output.messages.front();
  for (const std::string_view directive : kRefusedDirectives) {
    if (first.text.starts_with(message("'#", directive, "'")))
      return directive_error(desc, first.line, directive);
  }
  return source_error(desc, std::max(first.line, 1), readable(first.text));
}

/// A buffer's name may be a word of GLSL, which no rule of ours can know.
Result<void> check_buffer_names(const ScoreFunctionDesc& desc) {
  for (const ScoreBuffer& buffer : desc.buffers) {
    const std::string text = message("#version 460\nvoid main() { int ", buffer.name, "; }\n");
    if (!compile_glsl({text, "", "vulkan1.1", ""}).words.empty()) continue;
    return invalid(desc.name, ": a buffer cannot be called '", buffer.name, "', which is a word of GLSL");
  }
  return {};
}

Result<std::unique_ptr<ScoreFunctionState>> make_score_function(ScoreFunctionDesc desc) {
  desc.source = joined_lines(desc.source);
  if (Result<void> status = check_score_source(desc); !status) return status.error();
  const auto text = preprocessed(desc);
  if (!text) return text.error();
  auto source = read_score_source(desc, *text);
  if (!source) return source.error();
  if (Result<void> status = check_buffer_names(desc); !status) return status.error();
  auto state = std::make_unique<ScoreFunctionState>();
  state->desc = desc;
  state->source = *std::move(source);
  const std::string functions = functions_text(desc, state->source);
  state->include_text = include_text(functions, state->source);
  const GlslOutput output = compile_glsl({kTrialShader, "", "vulkan1.1", functions});
  if (output.words.empty()) return compile_error(desc, state->source, output);
  return state;
}

/// An extension of GLSL that a kernel asks for and the compiler is too old for, as glslang 12 is for
/// matrices; empty where there is none.
std::string_view unknown_extension(const GlslOutput& output) {
  constexpr std::string_view kUnknown = "extension not supported: ";
  for (const GlslMessage& found : output.messages) {
    const std::string_view text = found.text;
    if (const std::size_t at = text.find(kUnknown); at != std::string_view::npos)
      return text.substr(at + kUnknown.size());
  }
  return {};
}

/// A failure in a kernel alone is rarely the user's fault, so all messages of the compiler are given.
Error kernel_error(const ScoreFunctionState& state, std::string_view shader, const GlslOutput& output) {
  if (const std::string_view extension = unknown_extension(output); !extension.empty()) {
    return unsupported("the glslang that score functions are compiled with does not know ", extension,
                       ", which the shader ", shader, " needs");
  }
  std::string text = message("the shader ", shader, " does not compile with ", state.desc.name);
  for (const GlslMessage& found : output.messages) {
    const bool in_user_text = found.file == kUserText && found.line <= state.source.lines;
    text += message(found.text.empty() ? "" : ": ", in_user_text ? state.desc.name : found.file, ":",
                    found.line, ": ", readable(found.text));
  }
  return unsupported(text);
}

Result<std::span<const std::uint32_t>> compile_kernel(ScoreFunctionState& state, std::string_view shader) {
  const std::scoped_lock lock(state.mutex);
  if (const auto found = state.binaries.find(shader); found != state.binaries.end()) {
    return std::span<const std::uint32_t>(found->second);
  }
  const auto recipes = shader_recipes();
  const auto recipe =
      std::find_if(recipes.begin(), recipes.end(), [&](const ShaderRecipe& r) { return r.name == shader; });
  if (recipe == recipes.end()) {
    return Error{ErrorCode::kNotFound, VK_SUCCESS, message("there is no shader '", shader, "'")};
  }
  const auto texts = shader_texts();
  const auto text = std::find_if(texts.begin(), texts.end(),
                                 [&](const ShaderText& file) { return file.path == recipe->file; });
  const std::string defines = message(recipe->defines, " VKATTN_USER_SCORE=1");
  GlslOutput output = compile_glsl({text->text, defines, recipe->target_environment, state.include_text});
  if (output.words.empty()) return kernel_error(state, shader, output);
  const auto added = state.binaries.emplace(shader, std::move(output.words)).first;
  return std::span<const std::uint32_t>(added->second);
}

}  // namespace

}  // namespace detail

ScoreFunction::ScoreFunction(std::unique_ptr<detail::ScoreFunctionState> state) : state_(std::move(state)) {}
ScoreFunction::~ScoreFunction() = default;

Result<Shared<const ScoreFunction>> ScoreFunction::create(const ScoreFunctionDesc& desc) {
  return detail::without_exceptions([&]() -> Result<Shared<const ScoreFunction>> {
    auto state = detail::make_score_function(desc);
    if (!state) return state.error();
    return Shared<const ScoreFunction>(
        std::unique_ptr<const ScoreFunction>(new ScoreFunction(*std::move(state))));
  });
}

std::string_view ScoreFunction::name() const noexcept {
  return state_->desc.name;
}
const std::vector<ScoreBuffer>& ScoreFunction::buffers() const noexcept {
  return state_->desc.buffers;
}
bool ScoreFunction::hides_keys() const noexcept {
  return state_->source.has_visible;
}

Result<std::span<const std::uint32_t>> ScoreFunction::binary(std::string_view shader) const noexcept {
  return detail::without_exceptions([&] { return detail::compile_kernel(*state_, shader); });
}

}  // namespace vkattn
