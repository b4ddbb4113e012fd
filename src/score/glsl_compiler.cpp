// The glslang library, and what it prints taken apart.
#include "score/glsl_compiler.hpp"

#include <glslang/Public/ResourceLimits.h>
#include <glslang/Public/ShaderLang.h>
#include <glslang/SPIRV/GlslangToSpv.h>

#include <algorithm>
#include <charconv>
#include <iterator>

#include "common/message.hpp"
#include "score/shader_texts.hpp"

namespace vkattn::detail {
namespace {

constexpr std::string_view kUserFile = "user_score.glsl";

// All faults, not the first alone.
constexpr auto kRules = static_cast<EShMessages>(EShMsgSpvRules | EShMsgVulkanRules | EShMsgCascadingErrors);
constexpr int kDefaultVersion = 460;

/// glslang's tables for the whole process, made once by whoever comes first and kept to its end.
void start_glslang() {
  static const bool started = glslang::InitializeProcess();
  (void)started;
}

/// Answers #include with the embedded texts.
class Includer : public glslang::TShader::Includer {
 public:
  explicit Includer(std::string_view user_text) : user_text_(user_text) {}

  IncludeResult* includeLocal(const char* name, const char*, std::size_t) override {
    if (name == kUserFile) return found(name, user_text_);
    for (const ShaderText& file : shader_texts()) {
      if (file.path == name) return found(name, file.text);
    }
    return nullptr;
  }
  void releaseInclude(IncludeResult* result) override { delete result; }

 private:
  static IncludeResult* found(const char* name, std::string_view text) {
    return new IncludeResult(name, text.data(), text.size(), nullptr);
  }

  std::string_view user_text_;
};

std::string_view next_word(std::string_view& text, char separator) {
  const std::size_t end = std::min(text.find(separator), text.size());
  const std::string_view word = text.substr(0, end);
  text.remove_prefix(std::min(end + 1, text.size()));
  return word;
}

std::string preamble(std::string_view defines) {
  std::string text;
  while (!defines.empty()) {
    std::string_view value = next_word(defines, ' ');
    if (value.empty()) continue;
    const std::string_view name = next_word(value, '=');
    text += message("#define ", name, " ", value, "\n");
  }
  return text;
}

void set_environment(glslang::TShader& shader, std::string_view target) {
  auto client = glslang::EShTargetVulkan_1_1;
  auto language = glslang::EShTargetSpv_1_3;
  if (target == "vulkan1.2") {
    client = glslang::EShTargetVulkan_1_2;
    language = glslang::EShTargetSpv_1_5;
  } else if (target == "vulkan1.3") {
    client = glslang::EShTargetVulkan_1_3;
    language = glslang::EShTargetSpv_1_6;
  }
  shader.setEnvInput(glslang::EShSourceGlsl, EShLangCompute, glslang::EShClientVulkan, 100);
  shader.setEnvClient(glslang::EShClientVulkan, client);
  shader.setEnvTarget(glslang::EShTargetSpv, language);
}

/// "FILE:LINE: text" into its parts; a text without them stays whole.
GlslMessage split(std::string_view text) {
  GlslMessage found;
  for (std::size_t colon = text.find(':'); colon != std::string_view::npos;
       colon = text.find(':', colon + 1)) {
    int line = 0;
    const auto [end, error] = std::from_chars(text.data() + colon + 1, text.data() + text.size(), line);
    const auto after = static_cast<std::size_t>(end - text.data());
    if (error != std::errc() || text.substr(after, 2) != ": ") continue;
    found.file = text.substr(0, colon);
    found.line = line;
    text.remove_prefix(after + 2);
    break;
  }
  found.text = text;
  return found;
}

/// The errors of a log. Lines that go on with one are indented; "compilation terminated" and totals say
/// nothing.
void add_messages(std::string_view log, std::vector<GlslMessage>& messages) {
  constexpr std::string_view kError = "ERROR: ";
  bool goes_on = false;
  while (!log.empty()) {
    std::string_view line = next_word(log, '\n');
    while (!line.empty() && line.back() == ' ') line.remove_suffix(1);
    if (goes_on && line.starts_with("    ")) {
      messages.back().text += " " + std::string(line.substr(4));
      continue;
    }
    goes_on = false;
    if (!line.starts_with(kError)) continue;
    line.remove_prefix(kError.size());
    constexpr std::string_view kLinking = "Linking compute stage: ";
    if (line.starts_with(kLinking)) line.remove_prefix(kLinking.size());
    const bool total = line.find("compilation errors.") != std::string_view::npos;
    if (total || line.ends_with("compilation terminated")) continue;
    messages.push_back(split(line));
    goes_on = true;
  }
}

}  // namespace

GlslText preprocess_glsl(const std::string& text, const std::string& name) {
  start_glslang();
  const char* const begin = text.data();
  const auto length = static_cast<int>(text.size());
  const char* const file = name.c_str();
  glslang::TShader shader(EShLangCompute);
  shader.setStringsWithLengthsAndNames(&begin, &length, &file, 1);
  set_environment(shader, "vulkan1.1");
  glslang::TShader::ForbidIncluder includer;
  GlslText output;
  if (!shader.preprocess(GetDefaultResources(), kDefaultVersion, ENoProfile, false, false, kRules,
                         &output.text, includer)) {
    add_messages(shader.getInfoLog(), output.messages);
    if (output.messages.empty()) output.messages.push_back({name, 0, "cannot be preprocessed"});
  }
  return output;
}

GlslOutput compile_glsl(const GlslInput& input) {
  start_glslang();
  const std::string defines = preamble(input.defines);
  const char* const text = input.text.data();
  const auto length = static_cast<int>(input.text.size());
  GlslOutput output;
  glslang::TShader shader(EShLangCompute);
  shader.setStringsWithLengths(&text, &length, 1);
  shader.setPreamble(defines.c_str());
  set_environment(shader, input.target_environment);
  Includer includer(input.user_text);
  if (!shader.parse(GetDefaultResources(), kDefaultVersion, false, kRules, includer)) {
    add_messages(shader.getInfoLog(), output.messages);
    return output;
  }
  glslang::TProgram program;
  program.addShader(&shader);
  if (!program.link(kRules)) {
    add_messages(program.getInfoLog(), output.messages);
    return output;
  }
  glslang::SpvOptions options;
  options.stripDebugInfo = true;  // as the build does
  glslang::GlslangToSpv(*program.getIntermediate(EShLangCompute), output.words, &options);
  return output;
}

}  // namespace vkattn::detail
