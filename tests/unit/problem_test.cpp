// Problem strings: what they set, that they come back, and what is said about bad ones.
#include <gtest/gtest.h>

#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "problem/problem.hpp"
#include "problem/word_table.hpp"
#include "support/problem_text.hpp"

namespace {

using vkattn::Align;
using vkattn::DataType;
using vkattn::Layout;
using vkattn::Result;
using vkattn::Strides;
using vkattn::bench::DataKind;
using vkattn::bench::parse_problem;
using vkattn::bench::Problem;
using vkattn::tests::error_of;
using vkattn::tests::parsed;

TEST(ParseProblem, TheExampleOfTheHelp) {
  const Problem problem = parsed("b1 hq32 hkv8 q1 kv4096 d128 f16 causal align=bottom-right");
  EXPECT_EQ(problem.desc.batch, 1);
  EXPECT_EQ(problem.desc.query_heads, 32);
  EXPECT_EQ(problem.desc.kv_heads, 8);
  EXPECT_EQ(problem.desc.query_length, 1);
  EXPECT_EQ(problem.desc.kv_length, 4096);
  EXPECT_EQ(problem.desc.head_dim, 128);
  EXPECT_EQ(problem.desc.value_dim, 128);
  EXPECT_EQ(problem.desc.query.type, DataType::kFloat16);
  EXPECT_EQ(problem.desc.output.type, DataType::kFloat16);
  EXPECT_TRUE(problem.desc.causal);
  EXPECT_EQ(problem.desc.align, Align::kBottomRight);
  EXPECT_EQ(problem.desc.key.strides, (Strides{8 * 4096 * 128, 4096 * 128, 128, 1}));
}

TEST(ParseProblem, Defaults) {
  const Problem problem = parsed("3x5 d7");
  EXPECT_EQ(problem.desc.batch, 1);
  EXPECT_EQ(problem.desc.query_heads, 1);
  EXPECT_EQ(problem.desc.kv_heads, 1);
  EXPECT_EQ(problem.desc.value_dim, 7);
  EXPECT_EQ(problem.desc.query.type, DataType::kFloat32);
  EXPECT_FALSE(problem.desc.causal);
  EXPECT_FALSE(problem.desc.scale.has_value());
  EXPECT_FALSE(problem.desc.has_lse);
  EXPECT_NE(problem.desc.kv_lengths, vkattn::Lengths::kPerEntry);
  EXPECT_EQ(problem.desc.query.alignment_bytes, 16U);
  EXPECT_EQ(problem.desc.layout, Layout::kBhsd);
  EXPECT_EQ(problem.data, DataKind::kNormal);
  EXPECT_EQ(problem.magnitude, 1.0);
  EXPECT_EQ(problem.seed, 1U);
}

TEST(ParseProblem, HeadsGivenOnceAreBoth) {
  EXPECT_EQ(parsed("h8 2x2 d4").desc.kv_heads, 8);
  EXPECT_EQ(parsed("h8 2x2 d4").desc.query_heads, 8);
  EXPECT_EQ(parsed("hq8 2x2 d4").desc.kv_heads, 8);
  EXPECT_EQ(parsed("hkv2 2x2 d4").desc.query_heads, 2);
}

TEST(ParseProblem, TypesByName) {
  const Problem problem = parsed("2x2 d4 bf16 query=f32 output=f16");
  EXPECT_EQ(problem.desc.query.type, DataType::kFloat32);
  EXPECT_EQ(problem.desc.key.type, DataType::kBfloat16);
  EXPECT_EQ(problem.desc.value.type, DataType::kBfloat16);
  EXPECT_EQ(problem.desc.output.type, DataType::kFloat16);
}

TEST(ParseProblem, MemoryOfRowsWithPadding) {
  const Problem bhsd = parsed("b2 h3 4x5 d6 dv7 pad=2 shift=3");
  EXPECT_EQ(bhsd.desc.query.strides, (Strides{3 * 4 * 8, 4 * 8, 8, 1}));
  EXPECT_EQ(bhsd.desc.value.strides, (Strides{3 * 5 * 9, 5 * 9, 9, 1}));
  EXPECT_EQ(bhsd.row_padding, 2);
  EXPECT_EQ(bhsd.shift, 3);
  const Problem bshd = parsed("b2 h3 4x5 d6 dv7 layout=bshd pad=2");
  EXPECT_EQ(bshd.desc.query.strides, (Strides{4 * 20, 6, 20, 1}));
  EXPECT_EQ(bshd.desc.output.strides, (Strides{4 * 23, 7, 23, 1}));
  const Problem packed = parsed("hq4 hkv2 5x5 d6 layout=packed pad=1");
  EXPECT_EQ(packed.desc.key.strides, (Strides{5 * 49, 6, 49, 1}));
}

TEST(ParseProblem, KeyLengths) {
  const Problem problem = parsed("b3 2x20 d4 kv_lengths=5,0,-17");
  EXPECT_EQ(problem.desc.kv_lengths, vkattn::Lengths::kPerEntry);
  EXPECT_EQ(problem.kv_lengths, (std::vector<std::int32_t>{5, 0, -17}));
  EXPECT_TRUE(parsed("b0 2x20 d4 kv_lengths=").kv_lengths.empty());
}

TEST(ParseProblem, SpacesOfAnyKindInAnyOrder) {
  const Problem problem = parsed("\n d4\t2x3   f16 ");
  EXPECT_EQ(problem.desc.head_dim, 4);
  EXPECT_EQ(problem.desc.kv_length, 3);
}

/// Canonical strings, which come back as they are.
class Canonical : public testing::TestWithParam<const char*> {};

TEST_P(Canonical, ComesBack) {
  EXPECT_EQ(to_string(parsed(GetParam())), GetParam());
}

INSTANTIATE_TEST_SUITE_P(
    Strings, Canonical,
    testing::Values("1x1 d1", "b2 h3 4x5 d6", "hq32 hkv8 1x4096 d128 f16 causal align=bottom-right",
                    "512x512 d192 dv128 bf16 query=f32", "4x4 d8 key=f16", "4x4 d8 f16 query=f32",
                    "4x4 d8 query=f16 key=bf16", "4x4 d8 causal", "4x4 d8 causal align=-5",
                    "4x4 d8 causal align=0", "4x4 d8 scale=-0.25 lse", "4x4 d8 scale=1e-20",
                    "b3 4x9 d8 kv_lengths=5,0,9",
                    "b0 4x9 d8 kv_lengths=", "4x4 d8 f16 layout=bshd pad=3 shift=8 aligned=16",
                    "hq4 hkv2 4x4 d8 layout=packed", "4x4 d8 aligned=0", "4x4 d8 f16 shift=1",
                    "4x4 d8 data=uniform magnitude=0.001", "4x4 d8 data=dominant seed=18446744073709551615",
                    "4x4 d8 data=equal magnitude=1e-06", "0x0 d576"));

INSTANTIATE_TEST_SUITE_P(
    Features, Canonical,
    testing::Values("4x4 d8 window=3,-1", "4x4 d8 causal window=2,0 align=bottom-right",
                    "4x4 d8 alibi align=-2", "4x4 d8 window=-1,0 alibi=given", "4x4 d8 softcap=50",
                    "4x4 d8 mask=f32", "b2 h2 4x4 d8 mask=f16:bhqk hidden=0.5 block=16",
                    "4x4 d8 mask=bytes:k hidden=0", "4x4 d8 mask=bits:hqk", "4x4 d8 mask=bytes:b",
                    "h3 4x4 d8 sinks lse", "4x4 d8 dropout=0.17",
                    "4x4 d8 dropout=0.5 dropout_seed=18446744073709551615 dropout_offset=9",
                    "4x4 d8 weights=scores", "4x4 d8 weights=softcap", "4x4 d8 weights=masked",
                    "4x4 d8 weights=probabilities", "b2 4x4 d8 query_lengths=1,4 kv_lengths=4,2",
                    "b3 4x7 d8 sequences query_lengths=1,4,0 kv_lengths=7,3,2", "4x40 d8 ring=16",
                    "b2 4x7 d8 sequences=queries query_lengths=1,4",
                    "b2 4x40 d8 sequences=queries query_lengths=1,4 kv_lengths=40,9 page=16",
                    "b2 4x40 d8 kv_lengths=40,9 page=16", "4x4 d32 cache=q8_0", "4x4 d32 f16 cache=q4_0",
                    "4x4 d32 f16 key=q8_0 value=e4m3", "4x4 d8 cache=f16", "4x4 d8 cache=bf16",
                    "4x4 d32 key=q4_0"));

TEST(ToString, SaysTheSameShorter) {
  EXPECT_EQ(
      to_string(parsed("b1 h1 q4 kv5 d8 dv8 f32 layout=bhsd pad=0 shift=0 seed=1 magnitude=1.0 data=normal")),
      "4x5 d8");
  EXPECT_EQ(to_string(parsed("d8 causal align=top-left 4x5 query=f16 key=f16 value=f16 output=f16 hkv2 hq2")),
            "h2 4x5 d8 f16 causal");
}

TEST(ToString, ScaleComesBackToTheLastBit) {
  Problem problem = parsed("4x4 d8");
  for (const float scale : {0.1F, 1.0F / 3.0F, -1.17549435e-38F, 2.3e38F}) {
    problem.desc.scale = scale;
    EXPECT_EQ(parsed(to_string(problem)).desc.scale, scale);
  }
}

TEST(ParseProblem, NamesUnknownWordsAndWhatWasMeant) {
  EXPECT_NE(error_of("4x4 d8 casual").find("did you mean 'causal'"), std::string::npos);
  EXPECT_NE(error_of("4x4 d8 fp16").find("did you mean 'f16'"), std::string::npos);
  EXPECT_NE(error_of("4x4 d8 F16").find("'F16'"), std::string::npos);
  EXPECT_NE(error_of("4x4 d8 sead=4").find("did you mean 'seed=…'"), std::string::npos);
  EXPECT_NE(error_of("4x4 d8 kvlengths=4").find("did you mean 'kv_lengths=…'"), std::string::npos);
  EXPECT_NE(error_of("4x4 d8 layout=bsdh").find("did you mean 'bshd'"), std::string::npos);
  EXPECT_NE(error_of("4x4 d8 causal align=bottomright").find("did you mean 'bottom-right'"),
            std::string::npos);
  EXPECT_NE(error_of("4x4 d8 data=random").find("normal, uniform, dominant, equal"), std::string::npos);
  EXPECT_NE(error_of("4x4 d8 key=f64").find("f32, f16, bf16"), std::string::npos);
  EXPECT_NE(error_of("4x4 d8 hvk2").find("did you mean 'hkv2'"), std::string::npos);
  EXPECT_NE(error_of("4x4 d8 rhubarb").find("'rhubarb'"), std::string::npos);
  EXPECT_LT(error_of("4x4 d8 " + std::string(100000, 'z')).size(), 200U);
}

TEST(ParseProblem, RefusesMalformedNumbers) {
  for (const char* word : {"b",
                           "b2x",
                           "b1.5",
                           "b0x10",
                           "q+3",
                           "4x",
                           "x4",
                           "4x4x4",
                           "4X4",
                           "pad=",
                           "pad=3a",
                           "seed=-1",
                           "magnitude=0",
                           "magnitude=-1",
                           "magnitude=nan",
                           "magnitude=inf",
                           "scale=nan",
                           "scale=1e99",
                           "scale=",
                           "kv_lengths=1,",
                           "kv_lengths=,1",
                           "kv_lengths=1,,2",
                           "kv_lengths=",
                           "=",
                           "d8=",
                           "align=",
                           "layout=",
                           "pad=-1",
                           "shift=-1"}) {
    const std::string message = error_of(std::string("b2 4x4 d8 causal ") + word);
    EXPECT_FALSE(message.empty()) << word;
  }
}

TEST(ParseProblem, RefusesNumbersThatOverflow) {
  for (const char* word :
       {"b99999999999999999999", "b9223372036854775807", "seed=18446744073709551616",
        "pad=9223372036854775808", "pad=9223372036854775807", "shift=4611686018427387904",
        "aligned=4294967296", "kv_lengths=2147483648", "hq9223372036854775807", "dv9223372036854775808"}) {
    const std::string message = error_of(std::string("4x4 d8 ") + word);
    EXPECT_FALSE(message.empty()) << word;
  }
  EXPECT_NE(error_of("4x4 d8 b99999999999999999999").find("'b99999999999999999999'"), std::string::npos);
  EXPECT_NE(error_of("b1000000 hq2000 hkv1 1000000000x1 d576").find("63 bits"), std::string::npos);
  EXPECT_NE(error_of("q1073741825 kv1 d8").find("1073741825"), std::string::npos);
}

TEST(ParseProblem, RefusesWordsThatContradict) {
  EXPECT_NE(error_of("4x4 d8 f16 bf16").find("'bf16'"), std::string::npos);
  EXPECT_NE(error_of("4x4 q4 d8").find("'4x4'"), std::string::npos);
  EXPECT_NE(error_of("4x4 d8 h8 hq4").find("'hq4'"), std::string::npos);
  EXPECT_NE(error_of("4x4 d8 causal causal").find("'causal'"), std::string::npos);
  EXPECT_NE(error_of("4x4 d8 align=3").find("causal"), std::string::npos);
  EXPECT_NE(error_of("b2 4x4 d8 kv_lengths=4").find("batch is 2"), std::string::npos);
  EXPECT_NE(error_of("4x5 d8 layout=packed").find("4 and 5"), std::string::npos);
  EXPECT_NE(error_of("4x4 d8 dv9 layout=packed").find("8 and 9"), std::string::npos);
  EXPECT_NE(error_of("4x4 d8 key=f16 layout=packed").find("f16"), std::string::npos);
  EXPECT_NE(error_of("4x4 d8 shift=1 aligned=16").find("byte 4"), std::string::npos);
  EXPECT_NE(error_of("4x4 d8 aligned=3").find("3"), std::string::npos);
  EXPECT_NE(error_of("4x4 d577").find("577"), std::string::npos);
  EXPECT_NE(error_of("hq6 hkv4 4x4 d8").find("multiple"), std::string::npos);
}

TEST(ParseProblem, AsksForWhatIsMissing) {
  EXPECT_NE(error_of("").find("query length"), std::string::npos);
  EXPECT_NE(error_of("q4 d8").find("key length"), std::string::npos);
  EXPECT_NE(error_of("4x4").find("head dimension"), std::string::npos);
}

TEST(ProblemWords, EachStandsOnceAndIsExplained) {
  const std::string help = vkattn::bench::problem_help();
  std::set<std::pair<vkattn::bench::Form, std::string_view>> seen;
  std::set<std::string_view> options;
  for (const vkattn::bench::Word& word : vkattn::bench::words()) {
    EXPECT_TRUE(seen.emplace(word.form, word.key).second) << word.key;
    if (!word.option.name.empty()) {
      EXPECT_TRUE(options.insert(word.option.name).second) << word.option.name;
      EXPECT_FALSE(word.option.help.empty()) << word.option.name;
    }
    EXPECT_NE(help.find(word.key), std::string::npos) << word.key;
    EXPECT_EQ(word.example.empty(), word.help.empty()) << word.key;
  }
}

TEST(ProblemHelp, NamesEveryWord) {
  const std::string help(vkattn::bench::problem_help());
  for (const char* word :
       {"hq32", "hkv8", "512x512", "dv64", "bf16", "query=", "causal", "align=", "scale=", "lse",
        "kv_lengths=", "layout=", "pad=", "shift=", "aligned=", "data=", "magnitude=", "seed="}) {
    EXPECT_NE(help.find(word), std::string::npos) << word;
  }
}

}  // namespace
