// Score functions: refusals with the user's own lines, and kernels that are compiled as the build compiles
// them.
#include <vkattn/score_function.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <numeric>
#include <sstream>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "common/message.hpp"
#include "score/glsl_compiler.hpp"
#include "score/shader_texts.hpp"
#include "support/must.hpp"
#include "support/temp_folder.hpp"
#include "support/text.hpp"
#include "unit/build.hpp"
#include "vkattn_bench_shaders.hpp"
#include "vkattn_core_shaders.hpp"

namespace vkattn {
namespace {

constexpr const char* kVisible = "bool visible(Position p) { return p.key < 3u; }";

using tests::has;
using tests::message_of;
using tests::must;

Result<Shared<const ScoreFunction>> create(std::string source, std::vector<ScoreBuffer> buffers = {}) {
  return ScoreFunction::create({std::move(source), "my.glsl", std::move(buffers)});
}

std::string error_of(std::string source, std::vector<ScoreBuffer> buffers = {}) {
  const auto function = create(std::move(source), std::move(buffers));
  if (function) return "none";
  EXPECT_EQ(function.error().code, ErrorCode::kInvalidArgument);
  return function.error().message;
}

/// A source, and the beginning of its error.
struct Refusal {
  std::string source, begin;
};

void expect_refused(const std::vector<Refusal>& refusals, const std::string& before = "") {
  for (const auto& [source, begin] : refusals) {
    const std::string error = error_of(before + source);
    EXPECT_TRUE(error.starts_with("my.glsl:" + begin)) << source << ": " << error;
  }
}

std::string repeated(const std::string& text, int count) {
  std::string result;
  for (int i = 0; i < count; ++i) result += text;
  return result;
}

/// Several faults are reported, one in each line.
TEST(ScoreFunctionTest, FaultsHaveTheLinesOfTheSource) {
  EXPECT_EQ(error_of("float helper(float x) {\n"
                     "  return x + first;\n"
                     "}\n"
                     "float score(float s, Position p) {\n"
                     "  float a = second + third;\n"  // only the first fault of a line
                     "  return helper(s) + p.kye;\n"
                     "}\n"
                     "bool visible(Position p) { return fourth; }\n"),
            "my.glsl:2: 'first' : undeclared identifier\n"
            "my.glsl:5: 'second' : undeclared identifier\n"
            "my.glsl:6: 'kye' : no such field in structure 'p'\n"
            "my.glsl:8: 'fourth' : undeclared identifier");
  expect_refused(
      {{"// A comment,\n/* and\nanother */ bool visible(Position p) { return p.kye < 3u; }", "3: 'kye' : "},
       {std::string("#define LINES \\\n  1\n") + kVisible + "\nint f() { return y; }", "4: 'y' : "},
       {"\nfloat helper(float x);\nfloat score(float s, Position p) { return helper(s); }",
        "2: No function definition (body) found: helper()"},
       {"float again(float x) { return again(x); }\nfloat score(float s, Position p) { return again(s); }",
        "1: Recursion detected: again() calling again()"}});
  // The declarations of buffers before the source do not count as lines.
  EXPECT_TRUE(error_of("bool visible(Position p) { return bias(p.key) > \"\"; }", {{"bias"}, {"other"}})
                  .starts_with("my.glsl:1:"));
}

/// glslang continues after faults, which must not end the process. The test exchanges words of a source that
/// uses most of GLSL.
TEST(ScoreFunctionTest, FaultsOfAnyKindAreErrors) {
  // '@' separates the words.
  std::istringstream source(R"(struct @Pair@ { @float @first@; @vec3 @second@[2]@; };
@const @float@ k@[3]@ = @float[3]@(1.0, 2.0, 3.0)@;
@float @helper@(in @Pair @pair@, out @float @r@) { @r@ = @pair@.@second@[1]@.@yz@.x@;
  for (@int @i@ = 0; @i@ < 3; @++i)@ r += @k@[i]@;
  return @r@ * @pair@.first@; }
@bool @visible@(@Position @p@) {
  switch (@p@.head@) { case @0u@: return @true@;
  default: return @p@.key@ % @3@ == 0; } }
@float @score@(@float @s@, @Position @p@) {
  @Pair @t@; @t@.first@ = @s@; t@.second@[0] = @vec3(1, 2, 3)@; t@.second@[1] = @t@.second@[0]@ * 2.0;
  @float @r@; return @helper@(t, r)@ + @mat2(1.0)@[0]@.x@; }
)");
  std::vector<std::string> words;
  for (std::string word; std::getline(source, word, '@');) words.push_back(word);
  const auto text_of = [](const std::vector<std::string>& pieces) {
    return std::accumulate(pieces.begin(), pieces.end(), std::string());
  };
  EXPECT_EQ(error_of(text_of(words)), "none");
  std::uint32_t state = 1;
  const auto draw = [&](std::size_t most) {
    state = state * 1664525U + 1013904223U;
    return static_cast<std::size_t>(state >> 8U) % most;
  };
  std::size_t faulty = 0;
  for (int round = 0; round < 300; ++round) {
    std::vector<std::string> changed = words;
    for (std::size_t change = 0; change < 1 + static_cast<std::size_t>(round % 4); ++change) {
      changed[draw(changed.size())] = words[draw(words.size())];
    }
    if (error_of(text_of(changed)) != "none") ++faulty;
  }
  EXPECT_GT(faulty, 200U);
}

TEST(ScoreFunctionTest, WhatHasNoEndIsNamedWhereItBegins) {
  EXPECT_EQ(error_of("\nbool visible(Position p) {\n  return true;\n"), "my.glsl:2: '{' is never closed");
  expect_refused({{"#ifdef X\n", "2: '#ifdef' is never closed"},
                  {"/* and so on\n", "2: '/*' is never closed"},
                  {"const float x = 3.0\n", "2: the text ends too early"},
                  {"}\n", "2: syntax error, unexpected RIGHT_BRACE"}},
                 std::string(kVisible) + "\n");
}

TEST(ScoreFunctionTest, WhatConditionsLeaveOutIsNotThere) {
  const std::string score = "float score(float s, Position p) { return s; }\n";
  const auto visible = must(create(score + "#if 0\n" + kVisible + "\n#endif\n"));
  EXPECT_FALSE(visible->hides_keys());
  EXPECT_TRUE(visible->binary("attention_lane_words"));
  for (const std::string& text :
       {score + "#if 0\nfloat score(int x) { return 1.0; }\nlayout {{{ #include\n#endif\n",
        "#ifdef NOWHERE\nint score(int s) { return 1; }\n#else\n" + score + "#endif\n",
        std::string(
            "#define FUNCTION(name) float name(float s, Position p) { return s; }\nFUNCTION(score)\n"),
        std::string("/* \xc3\xa4 */ ") + kVisible + " // \xf0\x9f\x99\x82"}) {
    EXPECT_EQ(error_of(text), "none") << text;
  }
  EXPECT_EQ(error_of("#define WITH 0\n#if WITH\n" + score + "#endif\n"), error_of(""));
}

/// Code that would exhaust the compiler's stack, in every form that nests.
TEST(ScoreFunctionTest, RefusesWhatNestsTooDeep) {
  const std::string begin = "float score(float s, Position p) {\n  ";
  const std::string refused =
      "more than 500 operators and brackets hang on one another; give parts of the expression names";
  constexpr int kMany = 20000;
  for (const std::string& text :
       {"return s" + repeated(" + 1.0", kMany) + ";",
        "return " + repeated("(", kMany) + "s" + repeated(")", kMany) + ";",
        "return " + repeated("- ", kMany) + "s;", "return s" + repeated(".x", kMany) + ";",
        "return " + repeated("s > 0.0 ? s : ", kMany) + "s;", repeated("s = ", kMany) + "s; return s;",
        "return (s" + repeated(", s", kMany) + ");",
        "return " + repeated("abs(", kMany) + "s" + repeated(")", kMany) + ";",
        repeated("if (s > 0.0) s = 1.0; else ", kMany) + "s = 2.0; return s;",
        repeated("if (s > 0.0) { s = 1.0; } else ", kMany) + "s = 2.0; return s;",
        repeated("for (;;) ", kMany) + "s = 2.0; return s;",
        repeated("{", kMany) + repeated("}", kMany) + "return s;"}) {
    EXPECT_EQ(error_of(begin + text + "\n}\n"), "my.glsl:2: " + refused) << text.substr(0, 60);
  }
  expect_refused(
      {{"#define A + s + s + s + s + s + s + s + s + s + s\n#define B A A A A A A A A A A\n" + begin +
            "return s" + repeated(" B", 200) + ";\n}\n",
        "4: " + refused},
       {"#if " + repeated("!", kMany) + "0\n#endif\n" + begin + "return s;\n}\n", "1: " + refused}});
}

TEST(ScoreFunctionTest, TakesLongTextsThatDoNotNest) {
  const std::string table =
      "const float table[3000] = float[3000](0.0" + repeated(", -1.5e-3", 2999) + ");\n";
  const std::string list = "const vec2 pairs[500] = {vec2(0.0)" + repeated(", vec2(1.0, -2.0)", 499) + "};\n";
  const std::string sums = repeated("  s = 0.5 * s + table[p.key % 3000u];\n  { s += 1.0; }\n", 3000);
  const std::string branches = repeated("if (p.key == 7u) { s += 1.0; } else ", 150);
  EXPECT_EQ(error_of(table + list + "float score(float s, Position p) {\n" + sums + branches +
                     "s = pairs[p.query % 500u].x;\n  return s" + repeated(" + 1.5", 450) + ";\n}\n"),
            "none");
}

TEST(ScoreFunctionTest, RefusesOtherSignatures) {
  EXPECT_EQ(error_of(""),
            "my.glsl: defines neither float score(float s, Position p) nor bool visible(Position p)");
  EXPECT_EQ(error_of("float scores(float s, Position p) { return s; }"), error_of(""));
  for (const char* text :
       {"int score(float s, Position p) { return 1; }", "float score(float s) { return 1.0; }",
        "float score(Position p, float s) { return s; }",
        "float score(float s, inout Position p) { return s; }",
        "void score(out float s, Position p) { s = 1.0; }"}) {
    expect_refused({{text, "2: 'score' must be float score(float s, Position p)"}}, "\n");
  }
  expect_refused({{"bool visible(Position p, uint key) { return true; }",
                   "1: 'visible' must be bool visible(Position p)"}});
}

/// Each is refused alone, and hidden by macros and continued lines.
TEST(ScoreFunctionTest, RefusesWhatIsNotTheUsers) {
  for (const std::string line :
       {"#include \"x\"", "#extension GL_EXT_x : require", "#line 7", "#pragma once", "#version 450"}) {
    expect_refused({{line, "2: " + tests::words_of(line).front() + " cannot be used"}},
                   std::string(kVisible) + "\n");
  }
  for (const std::string word : {"shared", "uniform"}) {
    expect_refused({{word + " float x;", "2: '" + word + "' cannot be used"}}, std::string(kVisible) + "\n");
  }
  expect_refused(
      {{"#error not today", "2: '#error' : not today"},
       {"#if 1 +\n#endif", ""},
       {"layout(binding = 3) buffer B { float x; };", "2: 'layout' cannot be used: buffers are named in"},
       {"in vec3 x;", "2: 'in' : global storage input qualifier"},
       {"float f() { return float(sqrt(dvec2(2.0)).x); }", "2: 'dvec2' cannot be used: scores have 32 bits"},
       {"const float x = float(1.5lf);", "2: the suffix of '5lf' cannot be used"},
       {"void main() {}", "2: 'main' is the kernel's"},
       {"void f() { barrier(); }", "2: 'barrier' cannot be used: a kernel calls the functions for single"},
       {"uint f() { return gl_LocalInvocationIndex; }", "2: 'gl_LocalInvocationIndex' cannot be used"},
       {"#define F vkattn_buffer_bias[7]\nfloat f() { return F; }", "3: 'vkattn_buffer_bias' cannot be used"},
       {"struct Position { uint x; };", "2: 'Position' is the library's"},
       {"uint f() { return features.first_batch; }", "2: 'features' : undeclared identifier"},
       {"float gr\xc3\xb6;", "2: the character '\xc3\xb6' may stand in comments only"},
       {std::string("float \0 x;", 10), "2: a byte of value 0 stands in the text"},
       {"#define JOIN(a, b) a ## b\nJOIN(lay, out)(binding = 3) buffer B { float x; };",
        "3: 'layout' cannot be used"}},
      std::string(kVisible) + "\n");
  // A continued line counts as the line on which it begins.
  for (const auto& [line, part] : {std::pair{"#inc\\\nlude \"x\"\n", "#include"},
                                   {"#exten\\\nsion GL_EXT_x : require\n", "#extension"},
                                   {"void ba\\\nrrier();\n", "'barrier'"}}) {
    EXPECT_TRUE(has(error_of(std::string(line) + kVisible), "1: " + std::string(part) + " cannot be used"));
  }
}

/// glslang's preprocessor throws if a line continues after a macro's name.
TEST(ScoreFunctionTest, LinesMayGoOn) {
  for (const std::string end : {"\\\n", "\\\r\n"}) {
    const std::string text = "#define TWO" + end + " 2.0\nfloat score(float s, Position p) { return s + TWO" +
                             end + "* float(p.key); }\n";
    EXPECT_EQ(error_of(text), "none");
    EXPECT_TRUE(has(error_of(text + "int x = y;\n"), "my.glsl:5: 'y' : undeclared identifier"));
  }
  for (const std::string end : {"\\", "\\\r", "\\\n", "\\\\", "\\\\\n\n", "\\\\\r\n\r\n", "\\\r\\\n\n"}) {
    EXPECT_TRUE(has(error_of("#define A 1\nA" + end), "my.glsl:")) << testing::PrintToString(end);
  }
  // Comments continue too, even with text that is not GLSL.
  for (const std::string end : {"\\\n", "\\\r\n"}) {
    EXPECT_EQ(error_of(std::string("// a comment") + end + "/* gr\xc3\xb6\xc3\x9f" + "er\n" + kVisible),
              "none");
  }
}

TEST(ScoreFunctionTest, RefusesBufferNamesByName) {
  using Buffers = std::vector<ScoreBuffer>;
  for (const auto& [buffers, begin] :
       {std::pair<Buffers, const char*>{{{"float"}},
                                        "a buffer cannot be called 'float', which is a word of GLSL"},
        {{{"score"}}, "a buffer cannot be called 'score', which has a meaning of its own"},
        {{{"a b"}}, "the buffer name 'a b' must be a GLSL name of at most 64 characters"},
        {{{"a"}, {"b"}, {"a"}}, "two buffers are called 'a'"},
        {{{"a"}, {"b"}, {"c"}, {"d"}, {"e"}}, "has 5 buffers but at most 4 are possible"}}) {
    EXPECT_EQ(error_of(kVisible, buffers), std::string("my.glsl: ") + begin);
  }
}

// Names that the kernels use at file scope, also as members, locals and macros.
TEST(ScoreFunctionTest, NamesDoNotCollideWithTheKernels) {
  const auto function = must(create(R"(
    struct Span { float key; uint params[2]; };
    const uint kHeadDim = 3, batch = kHeadDim + 1;
    #define params 5u
    float decode_16bit(uint key) { Span span; span.key = float(key); vec2 x = vec2(span.key); return x.x; }
    float query_at(Position query) { return decode_16bit(query.key) + table(query.batch) + table(batch); }
    float score(float score, Position p) { return score + query_at(p) + float(params); }
    bool visible(in Position position) { uint visible = position.key; return visible > batch; }
  )",
                                    {{"table", ScoreBufferType::kFloat}}));
  EXPECT_TRUE(function->hides_keys());
  std::size_t compiled = 0;
  for (const detail::ShaderBinary& shader : detail::shader_binaries()) {
    if (!shader.is_built()) continue;
    const auto binary = function->binary(shader.name);
    // A build may have shaders from an archive, made by a newer compiler than its own glslang.
    if (!binary && has(binary.error().message, "does not know GL_")) continue;
    EXPECT_TRUE(binary) << binary.error().message;
    ++compiled;
  }
  EXPECT_GT(compiled, 40U);
  EXPECT_TRUE(function->binary("score_rows").ok()) << "the laboratory's";
}

/// Plans then take the next kernel.
TEST(ScoreFunctionTest, KernelsThatNeedANewerCompilerSaySo) {
  const auto function = must(create(kVisible));
  const auto binary = function->binary("attention_matrix_features");
  if (binary) GTEST_SKIP() << "this glslang knows matrices";
  EXPECT_EQ(binary.error().code, ErrorCode::kUnsupported);
  EXPECT_EQ(
      binary.error().message,
      "the glslang that score functions are compiled with does not know GL_KHR_cooperative_matrix, which "
      "the shader attention_matrix_features needs");
}

/// The output of spirv-opt for a kernel's binary in the build. The binary itself if the build has no
/// spirv-opt.
std::vector<std::uint32_t> optimized(std::vector<std::uint32_t> words, const detail::ShaderRecipe& recipe) {
  const char* const tool =
      tests::build::kSpirvOpt[recipe.name.find("matrix") == std::string_view::npos ? 0 : 1];
  if (tool == nullptr) return words;
  const tests::TempFolder folder;
  const std::string file = (folder / "shader.spv").string();
  tests::write_file(file, {reinterpret_cast<const char*>(words.data()), words.size() * sizeof(words[0])});
  const std::string command =
      detail::message(tool, " --target-env=", recipe.target_environment, " ", file, " -o ", file);
  EXPECT_EQ(std::system(command.c_str()), 0);  // NOLINT: a test with its own words
  const std::string bytes = tests::read_file(file);
  words.resize(bytes.size() / sizeof(words[0]));
  std::memcpy(words.data(), bytes.data(), bytes.size());
  return words;
}

TEST(ScoreFunctionTest, KernelsAreThoseOfTheBuild) {
  std::size_t compared = 0;
  for (const detail::ShaderRecipe& recipe : detail::shader_recipes()) {
    const detail::ShaderBinary* built = detail::find_shader(detail::shader_binaries(), recipe.name);
    if (built == nullptr) built = detail::find_shader(bench::shader_binaries(), recipe.name);
    ASSERT_NE(built, nullptr) << recipe.name;
    if (!built->is_built()) continue;
    const auto words = must(built->code().words());
    const auto text = std::find_if(detail::shader_texts().begin(), detail::shader_texts().end(),
                                   [&](const detail::ShaderText& file) { return file.path == recipe.file; });
    ASSERT_NE(text, detail::shader_texts().end()) << recipe.file;
    const detail::GlslOutput output =
        detail::compile_glsl({text->text, recipe.defines, recipe.target_environment, ""});
    const bool is_newer = output.words.empty() && has(output.messages.at(0).text, "not supported: GL_");
    if (is_newer) GTEST_SKIP() << "the build used a newer glslang: " << output.messages.at(0).text;
    ASSERT_FALSE(output.words.empty()) << recipe.name << ": " << output.messages.at(0).text;
    if (output.words[2] != (words)[2]) GTEST_SKIP() << "the build used another version of glslang";
    EXPECT_EQ(optimized(output.words, recipe), words) << recipe.name;
    ++compared;
  }
  // score_rows of the laboratory is one more.
  EXPECT_EQ(detail::shader_recipes().size(), detail::shader_binaries().size() + 1);
  EXPECT_GT(compared, 10U);
}

TEST(ScoreFunctionTest, KeepsWhatItCompiled) {
  const auto function = must(create("float score(float s, Position p) { return s + float(p.key); }"));
  EXPECT_FALSE(function->hides_keys());
  const auto first = must(function->binary("attention_lane_words"));
  EXPECT_EQ(first.data(), must(function->binary("attention_lane_words")).data());
  EXPECT_EQ(message_of(function->binary("attention_nowhere")), "there is no shader 'attention_nowhere'");
}

TEST(ScoreFunctionTest, CompilesFromSeveralThreads) {
  const auto shared = must(create(kVisible));
  std::vector<std::size_t> words(4);
  std::vector<std::thread> threads;
  for (std::size_t i = 0; i < words.size(); ++i) {
    threads.emplace_back([&, i] {
      const auto own = create(kVisible);
      const auto binary = (own && i % 2 == 0 ? *own : shared)->binary("attention_tile_words");
      if (binary) words[i] = binary->size();
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_GT(words[0], 0U);
  for (const std::size_t count : words) EXPECT_EQ(count, words[0]);
}

// Saved kernels equal the compiled ones. Bytes that are cut off are refused.
TEST(SavedScoreFunction, IsTheSameFunction) {
  const auto function =
      must(ScoreFunction::create({.source = "bool visible(Position p) { return at(p.key) > 0; }",
                                  .name = "some keys",
                                  .buffers = {{"at", ScoreBufferType::kInt}}}));
  const std::string shaders[] = {"attention_block_mask_features"};
  const auto saved = must(save_score_shaders(*function, shaders));
  const auto loaded = must(load_score_shaders(saved));
  EXPECT_EQ(loaded->name(), "some keys");
  EXPECT_TRUE(loaded->hides_keys());
  ASSERT_EQ(loaded->buffers().size(), 1U);
  EXPECT_EQ(loaded->buffers()[0].name, "at");
  EXPECT_EQ(loaded->buffers()[0].type, ScoreBufferType::kInt);
  const auto words = must(loaded->binary(shaders[0]));
  const auto original = must(function->binary(shaders[0]));
  EXPECT_TRUE(std::equal(words.begin(), words.end(), original.begin(), original.end()));
  EXPECT_TRUE(has(message_of(loaded->binary("attention_lane_features")), "without the shader"));
  const std::string none[] = {"no_such_shader"};
  EXPECT_TRUE(has(message_of(save_score_shaders(*function, none)), "no_such_shader"));

  for (std::size_t bytes = 0; bytes < saved.size(); bytes += bytes < 200 ? 1 : 97) {
    EXPECT_FALSE(load_score_shaders(std::span(saved).first(bytes)).ok()) << bytes << " bytes";
  }
  for (std::size_t at = 0; at < saved.size(); at += at < 200 ? 1 : 97) {
    std::vector<std::byte> wrong = saved;
    wrong[at] ^= std::byte{0x10};
    EXPECT_FALSE(load_score_shaders(wrong).ok()) << "byte " << at;
  }
}

}  // namespace
}  // namespace vkattn
