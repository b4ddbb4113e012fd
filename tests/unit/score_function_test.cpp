// Score functions: what is refused, with the user's own lines, and that kernels are compiled as the build
// compiled them.
#include <vkattn/score_function.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "score/glsl_compiler.hpp"
#include "score/shader_texts.hpp"
#include "vkattn_core_shaders.hpp"

namespace vkattn {
namespace {

constexpr const char* kVisible = "bool visible(Position p) { return p.key < 3u; }";

Result<std::shared_ptr<const ScoreFunction>> create(std::string source,
                                                    std::vector<ScoreBuffer> buffers = {}) {
  return ScoreFunction::create({std::move(source), "my.glsl", std::move(buffers)});
}

std::string error_of(std::string source, std::vector<ScoreBuffer> buffers = {}) {
  const auto function = create(std::move(source), std::move(buffers));
  if (function) return "none";
  EXPECT_EQ(function.error().code, ErrorCode::kInvalidArgument);
  return function.error().message;
}

TEST(ScoreFunctionTest, FaultsHaveTheLinesOfTheSource) {
  EXPECT_EQ(error_of("float score(float s, Position p) {\n"
                     "  float x = 1.0;\n"
                     "  return s + foo;\n"
                     "}\n"),
            "my.glsl:3: 'foo' : undeclared identifier");
  EXPECT_EQ(error_of("// A comment,\n/* and\nanother */ bool visible(Position p) { return p.kye < 3u; }"),
            "my.glsl:3: 'kye' : no such field in structure 'p'");
  EXPECT_EQ(
      error_of("#define LINES \\\n  1\n" + std::string(kVisible) + "\nint f() { return y; }").substr(0, 38),
      "my.glsl:4: 'y' : undeclared identifier");
  // Buffers stand before the source and count no lines.
  EXPECT_EQ(error_of("bool visible(Position p) { return bias(p.key) > \"\"; }", {{"bias"}, {"other"}})
                .substr(0, 10),
            "my.glsl:1:");
}

TEST(ScoreFunctionTest, EveryFaultIsALineOfItsOwn) {
  EXPECT_EQ(error_of("float helper(float x) {\n"
                     "  return x + first;\n"
                     "}\n"
                     "float score(float s, Position p) {\n"
                     "  float a = second + third;\n"  // of one line the first alone
                     "  return helper(s) + p.kye;\n"
                     "}\n"
                     "bool visible(Position p) { return fourth; }\n"),
            "my.glsl:2: 'first' : undeclared identifier\n"
            "my.glsl:5: 'second' : undeclared identifier\n"
            "my.glsl:6: 'kye' : no such field in structure 'p'\n"
            "my.glsl:8: 'fourth' : undeclared identifier");
}

/// glslang goes on after faults, which must not end the process: words of a source that has most of GLSL are
/// put in each other's places.
TEST(ScoreFunctionTest, FaultsOfAnyKindAreErrors) {
  // '@' stands between the words.
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
    std::string text;
    for (const std::string& piece : pieces) text += piece;
    return text;
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

TEST(ScoreFunctionTest, AWordThatIsNoAsciiIsNamedWhole) {
  EXPECT_EQ(error_of("// gr\xc3\xb6\xc3\x9f"
                     "er \xe2\x86\x92\n/* \xc3\xa4 */ " +
                     std::string(kVisible) + "\nfloat gr\xc3\xb6;"),
            "my.glsl:3: the character '\xc3\xb6' may stand in comments only, as GLSL is ASCII");
  EXPECT_EQ(error_of("/* \xc3\xa4 */ " + std::string(kVisible) + " // \xf0\x9f\x99\x82"), "none");
}

TEST(ScoreFunctionTest, FaultsOfTheWholeTextNameTheFunction) {
  EXPECT_EQ(error_of("\nfloat helper(float x);\n"
                     "float score(float s, Position p) { return helper(s); }"),
            "my.glsl:2: No function definition (body) found: helper()");
  EXPECT_EQ(error_of("float again(float x) { return again(x); }\n"
                     "float score(float s, Position p) { return again(s); }"),
            "my.glsl:1: Recursion detected: again() calling again()");
}

TEST(ScoreFunctionTest, WhatHasNoEndIsNamedWhereItBegins) {
  EXPECT_EQ(error_of("\nbool visible(Position p) {\n  return true;\n"), "my.glsl:2: '{' is never closed");
  EXPECT_EQ(error_of(std::string(kVisible) + "\n#ifdef X\n"), "my.glsl:2: '#ifdef' is never closed");
  EXPECT_EQ(error_of(std::string(kVisible) + "\n/* and so on\n"), "my.glsl:2: '/*' is never closed");
  EXPECT_EQ(error_of(std::string(kVisible) + "\nconst float x = 3.0\n").substr(0, 34),
            "my.glsl:2: the text ends too early");
  EXPECT_EQ(error_of(std::string(kVisible) + "}\n"), "my.glsl:1: syntax error, unexpected RIGHT_BRACE");
}

TEST(ScoreFunctionTest, WhatConditionsLeaveOutIsNotThere) {
  const std::string score = "float score(float s, Position p) { return s; }\n";
  const auto visible = create(score + "#if 0\n" + kVisible + "\n#endif\n");
  ASSERT_TRUE(visible) << visible.error().message;
  EXPECT_FALSE((*visible)->hides_keys());
  EXPECT_TRUE((*visible)->binary("attention_lane_words"));
  EXPECT_EQ(error_of(score + "#if 0\nfloat score(int x) { return 1.0; }\nlayout {{{ #include\n#endif\n"),
            "none");
  EXPECT_EQ(error_of("#define WITH 0\n#if WITH\n" + score + "#endif\n"), error_of(""));
  // Either branch, and functions that macros make.
  EXPECT_EQ(error_of("#ifdef NOWHERE\nint score(int s) { return 1; }\n#else\n" + score + "#endif\n"), "none");
  EXPECT_EQ(
      error_of("#define FUNCTION(name) float name(float s, Position p) { return s; }\nFUNCTION(score)\n"),
      "none");
  EXPECT_EQ(error_of("#if 1 +\n" + score + "#endif\n").substr(0, 8), "my.glsl:");
  EXPECT_EQ(error_of("\n#error not today\n" + score), "my.glsl:2: '#error' : not today");
}

TEST(ScoreFunctionTest, RefusesWhatMacrosAndContinuedLinesHide) {
  const std::string score = "\nfloat score(float s, Position p) { return s; }\n";
  EXPECT_EQ(error_of("#inc\\\nlude \"lib/mask.glsl\"" + score).substr(8),
            "1: #include cannot be used in a score function");
  EXPECT_EQ(error_of("#exten\\\nsion GL_EXT_x : require" + score).substr(9),
            ": #extension cannot be used in a score function");
  EXPECT_EQ(error_of("#define JOIN(a, b) a ## b\nJOIN(lay, out)(binding = 3) buffer B { float x; };" + score)
                .substr(0, 34),
            "my.glsl:2: 'layout' cannot be used");
  EXPECT_EQ(error_of("void ba\\\nrrier();" + score).substr(9, 26), ": 'barrier' cannot be used");
}

/// What would take the compiler's stack, in every form that nests.
TEST(ScoreFunctionTest, RefusesWhatNestsTooDeep) {
  const auto repeated = [](const std::string& text, int count) {
    std::string result;
    for (int i = 0; i < count; ++i) result += text;
    return result;
  };
  const auto score = [](const std::string& expression) {
    return "float score(float s, Position p) {\n  " + expression + "\n}\n";
  };
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
    EXPECT_EQ(error_of(score(text)), "my.glsl:2: " + refused) << text.substr(0, 60);
  }
  EXPECT_EQ(error_of("#define A + s + s + s + s + s + s + s + s + s + s\n#define B A A A A A A A A A A\n" +
                     score("return s" + repeated(" B", 200) + ";")),
            "my.glsl:4: " + refused);
  EXPECT_EQ(error_of("#if " + repeated("!", kMany) + "0\n#endif\n" + score("return s;")),
            "my.glsl:1: " + refused);
}

TEST(ScoreFunctionTest, TakesLongTextsThatDoNotNest) {
  std::string table = "const float table[3000] = float[3000](0.0";
  std::string list = "const vec2 pairs[500] = {vec2(0.0)";
  std::string sums, branches;
  for (int i = 1; i < 3000; ++i) table += ", -1.5e-3";
  for (int i = 1; i < 500; ++i) list += ", vec2(1.0, -2.0)";
  for (int i = 0; i < 3000; ++i) sums += "  s = 0.5 * s + table[p.key % 3000u];\n  { s += 1.0; }\n";
  for (int i = 0; i < 150; ++i) branches += "if (p.key == " + std::to_string(i) + "u) { s += 1.0; } else ";
  std::string sum = "s";
  for (int i = 0; i < 450; ++i) sum += " + 1.5";
  EXPECT_EQ(error_of(table + ");\n" + list + "};\nfloat score(float s, Position p) {\n" + sums + branches +
                     "s = pairs[p.query % 500u].x;\n  return " + sum + ";\n}\n"),
            "none");
}

TEST(ScoreFunctionTest, RefusesOtherSignatures) {
  EXPECT_EQ(error_of(""),
            "my.glsl: defines neither float score(float s, Position p) nor bool visible(Position p)");
  EXPECT_EQ(error_of("float scores(float s, Position p) { return s; }"), error_of(""));
  for (const char* text :
       {"\nint score(float s, Position p) { return 1; }", "\nfloat score(float s) { return 1.0; }",
        "\nfloat score(Position p, float s) { return s; }",
        "\nfloat score(float s, inout Position p) { return s; }",
        "\nvoid score(out float s, Position p) { s = 1.0; }"}) {
    EXPECT_EQ(error_of(text), "my.glsl:2: 'score' must be float score(float s, Position p)") << text;
  }
  EXPECT_EQ(error_of("bool visible(Position p, uint key) { return true; }"),
            "my.glsl:1: 'visible' must be bool visible(Position p)");
}

TEST(ScoreFunctionTest, RefusesWhatIsNotTheUsers) {
  const std::vector<std::pair<const char*, const char*>> cases = {
      {"#include \"x\"", "my.glsl:2: #include cannot be used"},
      {"#extension GL_EXT_x : require", "my.glsl:2: #extension cannot be used"},
      {"#line 7", "my.glsl:2: #line cannot be used"},
      {"layout(binding = 3) buffer B { float x; };",
       "my.glsl:2: 'layout' cannot be used: buffers are named in"},
      {"shared float x;", "my.glsl:2: 'shared' cannot be used"},
      {"uniform float x;", "my.glsl:2: 'uniform' cannot be used"},
      {"in vec3 x;", "my.glsl:2: 'in' : global storage input qualifier"},
      {"float f() { return float(sqrt(dvec2(2.0)).x); }",
       "my.glsl:2: 'dvec2' cannot be used: scores have 32 bits"},
      {"const float x = float(1.5lf);", "my.glsl:2: the suffix of '5lf' cannot be used"},
      {"void main() {}", "my.glsl:2: 'main' is the kernel's"},
      {"void f() { barrier(); }",
       "my.glsl:2: 'barrier' cannot be used: a kernel calls the functions for single"},
      {"uint f() { return gl_LocalInvocationIndex; }", "my.glsl:2: 'gl_LocalInvocationIndex' cannot be used"},
      {"#define F vkattn_buffer_bias[7]\nfloat f() { return F; }",
       "my.glsl:3: 'vkattn_buffer_bias' cannot be used"},
      {"#pragma once", "my.glsl:2: #pragma cannot be used"},
      {"#version 450", "my.glsl:2: #version cannot be used"},
      {"#extension GL_EXT_null_initializer : enable", "my.glsl:2: #extension cannot be used"},
      {"struct Position { uint x; };", "my.glsl:2: 'Position' is the library's"},
      {"uint f() { return features.first_batch; }", "my.glsl:2: 'features' : undeclared identifier"},
  };
  for (const auto& [line, expected] : cases) {
    std::string text = kVisible;
    text += '\n';
    text += line;
    const std::string error = error_of(text);
    EXPECT_TRUE(error.starts_with(expected)) << line << ": " << error;
  }
  EXPECT_EQ(error_of(std::string("bool visible(Position p)\n{ \0 return true; }", 44)),
            "my.glsl:2: a byte of value 0 stands in the text");
}

TEST(ScoreFunctionTest, RefusesBufferNamesByName) {
  EXPECT_EQ(error_of(kVisible, {{"float"}}),
            "my.glsl: a buffer cannot be called 'float', which is a word of GLSL");
  EXPECT_EQ(error_of(kVisible, {{"score"}}),
            "my.glsl: a buffer cannot be called 'score', which has a meaning of its own");
  EXPECT_EQ(error_of(kVisible, {{"a b"}}),
            "my.glsl: the buffer name 'a b' must be a GLSL name of at most 64 characters");
  EXPECT_EQ(error_of(kVisible, {{"a"}, {"b"}, {"a"}}), "my.glsl: two buffers are called 'a'");
  EXPECT_EQ(error_of(kVisible, {{"a"}, {"b"}, {"c"}, {"d"}, {"e"}}),
            "my.glsl: has 5 buffers but at most 4 are possible");
}

// Names of file scope that the kernels use as well, as members, locals and macros too.
TEST(ScoreFunctionTest, NamesDoNotCollideWithTheKernels) {
  const auto function = create(R"(
    struct Span { float key; uint params[2]; };
    const uint kHeadDim = 3, batch = kHeadDim + 1;
    #define params 5u
    float decode_16bit(uint key) { Span span; span.key = float(key); vec2 x = vec2(span.key); return x.x; }
    float query_at(Position query) { return decode_16bit(query.key) + table(query.batch) + table(batch); }
    float score(float score, Position p) { return score + query_at(p) + float(params); }
    bool visible(in Position position) { uint visible = position.key; return visible > batch; }
  )",
                               {{"table", ScoreBufferType::kFloat}});
  ASSERT_TRUE(function) << function.error().message;
  EXPECT_TRUE((*function)->hides_keys());
  for (const detail::ShaderBinary& shader : detail::shader_binaries()) {
    if (shader.words.empty()) continue;
    const auto binary = (*function)->binary(shader.name);
    EXPECT_TRUE(binary) << binary.error().message;
  }
}

TEST(ScoreFunctionTest, KernelsAreThoseOfTheBuild) {
  using detail::shader_recipes;
  using detail::shader_texts;
  std::size_t compared = 0;
  for (const detail::ShaderRecipe& recipe : shader_recipes()) {
    const detail::ShaderBinary* const built = detail::find_shader(detail::shader_binaries(), recipe.name);
    ASSERT_NE(built, nullptr) << recipe.name;
    if (built->words.empty()) continue;
    const auto text = std::find_if(shader_texts().begin(), shader_texts().end(),
                                   [&](const detail::ShaderText& file) { return file.path == recipe.file; });
    ASSERT_NE(text, shader_texts().end()) << recipe.file;
    const detail::GlslOutput output =
        detail::compile_glsl({text->text, recipe.defines, recipe.target_environment, ""});
    ASSERT_FALSE(output.words.empty()) << recipe.name << ": " << output.messages.at(0).text;
    if (output.words[2] != built->words[2]) GTEST_SKIP() << "the build used another version of glslang";
    EXPECT_TRUE(
        std::equal(output.words.begin(), output.words.end(), built->words.begin(), built->words.end()))
        << recipe.name;
    ++compared;
  }
  EXPECT_EQ(shader_recipes().size(), detail::shader_binaries().size());
  EXPECT_GT(compared, 10U);
}

TEST(ScoreFunctionTest, KeepsWhatItCompiled) {
  const auto function = create("float score(float s, Position p) { return s + float(p.key); }");
  ASSERT_TRUE(function) << function.error().message;
  EXPECT_FALSE((*function)->hides_keys());
  const auto first = (*function)->binary("attention_lane_words");
  const auto second = (*function)->binary("attention_lane_words");
  ASSERT_TRUE(first && second);
  EXPECT_EQ(first->data(), second->data());
  const auto unknown = (*function)->binary("attention_nowhere");
  ASSERT_FALSE(unknown);
  EXPECT_EQ(unknown.error().message, "there is no shader 'attention_nowhere'");
}

TEST(ScoreFunctionTest, CompilesFromSeveralThreads) {
  const auto shared = create(kVisible);
  ASSERT_TRUE(shared) << shared.error().message;
  std::vector<std::size_t> words(4);
  std::vector<std::thread> threads;
  for (std::size_t i = 0; i < words.size(); ++i) {
    threads.emplace_back([&, i] {
      const auto own = create(kVisible);
      const auto binary = (own && i % 2 == 0 ? *own : *shared)->binary("attention_tile_words");
      if (binary) words[i] = binary->size();
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_GT(words[0], 0U);
  for (const std::size_t count : words) EXPECT_EQ(count, words[0]);
}

}  // namespace
}  // namespace vkattn
