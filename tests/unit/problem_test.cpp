// Problem strings: what they set, that they can be written and read again, and the errors for bad ones.
#include <gtest/gtest.h>

#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "common/message.hpp"
#include "harness/row_map.hpp"
#include "problem/problem.hpp"
#include "problem/word_table.hpp"
#include "support/problem_text.hpp"
#include "support/rule.hpp"

namespace vkattn::tests {
namespace {

/// Problems with one fault, and the words of the refusal.
using Refusals = std::vector<std::pair<std::string, const char*>>;

void expect_refused(const Refusals& refusals) {
  for (const auto& [problem, part] : refusals) EXPECT_TRUE(has(error_of(problem), part)) << problem;
}

std::string strides_of(std::string_view problem) {
  const AttentionDesc desc = desc_of(problem);
  return strides_text({desc.query, desc.key, desc.value, desc.output});
}

std::string types_of(std::string_view problem) {
  const AttentionDesc desc = desc_of(problem);
  return detail::message(name(desc.query.type), " ", name(desc.key.type), " ", name(desc.value.type), " ",
                         name(desc.output.type));
}

TEST(ParseProblem, Sizes) {
  AttentionDesc all{.batch = 2, .query_heads = 6, .kv_heads = 3, .query_length = 4, .kv_length = 5};
  all.head_dim = 8;
  all.value_dim = 7;
  all.mask.strides = Strides{};
  all.set_type(DataType::kFloat16);
  EXPECT_EQ(desc_of("\n kv5\thq6 f16 hkv3   q4 b2 d8 dv7 "), all.resolved());
  EXPECT_EQ(desc_of("3x5 d7 h8"), desc_of("b1 hq8 hkv8 q3 kv5 d7 dv7"));
  EXPECT_EQ(desc_of("hq8 2x2 d4").kv_heads, 8);
  EXPECT_EQ(desc_of("hkv2 2x2 d4").query_heads, 2);
  const AttentionDesc least{.query_length = 3, .kv_length = 5, .head_dim = 7, .mask = {.strides = Strides{}}};
  EXPECT_EQ(desc_of("3x5 d7"), least.resolved());
}

TEST(ParseProblem, Types) {
  EXPECT_EQ(types_of("2x2 d4"), "f32 f32 f32 f32");
  EXPECT_EQ(types_of("2x2 d4 f16"), "f16 f16 f16 f16");
  EXPECT_EQ(types_of("2x2 d4 bf16 query=f32 output=f16"), "f32 bf16 bf16 f16");
  EXPECT_EQ(types_of("4x4 d64 f16 cache=q8_0"), "f16 q8_0 q8_0 f16");
  EXPECT_EQ(types_of("4x4 d64 key=q4_0 value=e4m3"), "f32 q4_0 e4m3 f32");
}

TEST(ParseProblem, Memory) {
  EXPECT_EQ(strides_of("b2 h3 4x5 d6 dv7 pad=2"), "96 32 8 1, 120 40 8 1, 135 45 9 1, 108 36 9 1");
  EXPECT_EQ(strides_of("b2 h3 4x5 d6 dv7 layout=bshd pad=2"), "80 6 20 1, 100 6 20 1, 115 7 23 1, 92 7 23 1");
  EXPECT_EQ(strides_of("hq4 hkv2 5x5 d6 layout=packed pad=1"),
            "245 6 49 1, 245 6 49 1, 245 6 49 1, 125 6 25 1");
  const Problem shifted = parsed("4x4 d32 cache=q8_0 shift=1");
  EXPECT_EQ(shifted.shift, 1);
  EXPECT_EQ(shifted.desc.key.alignment_bytes, 0U);
  const AttentionDesc ring = desc_of("b2 h2 1x50 d8 ring=16 pad=1");
  EXPECT_EQ(strides_text({ring.key}), "288 144 9 1");
  const AttentionDesc pages = desc_of("b2 h2 1x50 d8 page=16 layout=bshd");
  EXPECT_EQ(pages.cache, (CacheLayout{KeyMapping::kPaged, 0, 16, 8 + bench::kSparePages, 4}));
  EXPECT_EQ(strides_text({pages.key}), "256 8 16 1");
  EXPECT_EQ(desc_of("1x0 d8 page=16").cache.page_table_stride, 0);
  EXPECT_EQ(desc_of("1x32 d8 page=16").cache.page_table_stride, 2);
}

TEST(ParseProblem, Scores) {
  const Problem problem = parsed(
      "h3 4x5 d8 window=3,-1 align=bottom-right softcap=50 alibi=given sinks dropout=0.25 dropout_seed=9 "
      "dropout_offset=4 weights=softcap scale=2");
  EXPECT_EQ(problem.desc.window, (SlidingWindow{3, -1}));
  EXPECT_EQ(desc_of("4x5 d8 window=-1").window, SlidingWindow{});
  EXPECT_FALSE(problem.desc.causal);
  EXPECT_EQ(problem.desc.align, Align::kBottomRight);
  EXPECT_EQ(problem.desc.scale, 2.0F);
  EXPECT_EQ(problem.desc.softcap, 50.0F);
  EXPECT_EQ(problem.desc.alibi, Alibi::kGiven);
  EXPECT_TRUE(problem.desc.has_sinks);
  EXPECT_EQ(problem.desc.dropout, 0.25F);
  EXPECT_EQ(problem.dropout_seed, 9U);
  EXPECT_EQ(problem.dropout_offset, 4U);
  EXPECT_EQ(problem.desc.weights, WeightsStage::kSoftcap);
  EXPECT_EQ(desc_of("4x5 d8 alibi").alibi, Alibi::kStandard);
  EXPECT_TRUE(desc_of("4x5 d8 causal").causal);
  EXPECT_EQ(parsed("4x4 d8 score=alibi").score, bench::ScoreKind::kAlibi);
  EXPECT_EQ(parsed("4x4 d8 score=bias").score, bench::ScoreKind::kBias);
  EXPECT_EQ(desc_of("4x4 d8 score=alibi"), desc_of("4x4 d8")) << "a matter of PlanOptions";
}

TEST(ParseProblem, MasksVaryAlongWhatIsNamed) {
  const Problem whole = parsed("b2 h3 4x50 d8 mask=f16:bhqk hidden=0.5 zeros=0.25 block=16");
  EXPECT_EQ(whole.desc.mask.type, MaskType::kFloat16);
  EXPECT_EQ(whole.hidden_share, 0.5);
  EXPECT_EQ(whole.zero_share, 0.25);
  EXPECT_EQ(whole.hidden_block, 16);
  for (const auto& [mask, strides] : {std::pair{"f16:bhqk", Strides{600, 200, 50, 1}},
                                      {"bytes", {0, 0, 50, 1}},
                                      {"bits", {0, 0, 64, 1}},
                                      {"bits:bk", {64, 0, 0, 1}},
                                      {"bits:hq", {0, 128, 32, 0}},  // one word for each row
                                      {"bits:bh", {96, 32, 0, 0}},
                                      {"f32:hq", {0, 4, 1, 0}},
                                      {"f32:h1qk", {0, 0, 50, 1}},
                                      {"f32:bh3q", {12, 4, 1, 0}},
                                      {"f32:", {0, 0, 0, 0}}}) {
    EXPECT_EQ(desc_of(std::string("b2 h3 4x50 d8 mask=") + mask).mask.strides, strides) << mask;
  }
}

TEST(ParseProblem, MasksOfFewerHeads) {
  const AttentionDesc desc = desc_of("b2 h12 4x50 d8 mask=f32:bh3qk alibi=times-mask");
  EXPECT_EQ(desc.mask.heads, 3);
  EXPECT_EQ(desc.mask.strides, (Strides{600, 200, 50, 1}));
  EXPECT_EQ(desc.alibi, Alibi::kTimesMask);
  EXPECT_TRUE(has(error_of("h12 4x50 d8 mask=f32:h5qk"), "mask.heads is 5 but must divide query_heads, 12"));
  EXPECT_TRUE(has(error_of("h12 4x50 d8 mask=f32:h0"), "mask.heads is 0"));
  EXPECT_TRUE(has(error_of("h12 4x50 d8 mask=f32:q2k"), "letters of b, h, q"));
  EXPECT_TRUE(has(error_of("h12 4x50 d8 mask=f32:h99999999999999999999"), "99999"));
  EXPECT_TRUE(has(error_of("4x5 d8 mask=bits alibi=times-mask"), "kTimesMask"));
}

TEST(ParseProblem, LengthsAndSequences) {
  const Problem given = parsed("b2 4x50 d8 query_lengths=4,-1 kv_lengths=50,60");
  EXPECT_EQ(given.desc.query_lengths, Lengths::kPerEntry);
  EXPECT_EQ(given.desc.kv_lengths, Lengths::kPerEntry);
  EXPECT_EQ(given.query_lengths, (std::vector<std::int32_t>{4, -1}));
  EXPECT_EQ(given.kv_lengths, (std::vector<std::int32_t>{50, 60}));
  EXPECT_TRUE(parsed("b0 2x20 d4 kv_lengths=").kv_lengths.empty());
  const char* const packed = "b3 hq4 hkv2 9x12 d8 sequences query_lengths=9,0,4 kv_lengths=3,7,12 pad=2";
  EXPECT_TRUE(desc_of(packed).has_packed_keys() && desc_of(packed).has_packed_queries());
  EXPECT_EQ(desc_of(packed).total_query_length, 13);
  EXPECT_EQ(desc_of(packed).total_kv_length, 22);
  EXPECT_EQ(strides_of(packed), "520 130 10 1, 440 220 10 1, 440 220 10 1, 520 130 10 1");
  EXPECT_EQ(strides_of("b2 h2 9x9 d8 sequences query_lengths=9,4 kv_lengths=9,4 layout=packed"),
            "624 8 48 1, 624 8 48 1, 624 8 48 1, 208 8 16 1");
  const AttentionDesc queries =
      desc_of("b3 hq4 hkv2 9x12 d8 sequences=queries query_lengths=9,0,4 kv_lengths=3,7,-1 page=4 pad=2");
  EXPECT_EQ(queries.query_lengths, Lengths::kPacked);
  EXPECT_EQ(queries.kv_lengths, Lengths::kPerEntry);
  EXPECT_EQ(queries.total_query_length, 13);
  EXPECT_EQ(strides_text({queries.query, queries.key}), "520 130 10 1, 80 40 10 1");
}

TEST(ParseProblem, Appends) {
  const Problem problem = parsed("q3 kv40 d8 append=3 rotary=half-split page=16");
  EXPECT_EQ(problem.appended, 3);
  EXPECT_EQ(problem.rotary, RotaryStyle::kHalfSplit);
  EXPECT_EQ(parsed("q3 kv40 d8 append=3 rotary=interleaved").rotary, RotaryStyle::kInterleaved);
  EXPECT_EQ(problem.desc, desc_of("q3 kv40 d8 page=16")) << "attention itself is the same";
  // With packed queries each entry appends as many keys as it has queries, but at most this many.
  const Problem packed = parsed("b3 q3 kv40 d8 sequences=queries query_lengths=3,0,2 append=3");
  EXPECT_TRUE(harness::is_appended(packed, 0, 37) && !harness::is_appended(packed, 0, 36));
  EXPECT_FALSE(harness::is_appended(packed, 1, 39));
  EXPECT_TRUE(harness::is_appended(packed, 2, 38) && !harness::is_appended(packed, 2, 37));
  const Problem few = parsed("b2 q3 kv40 d8 sequences=queries query_lengths=3,1 append=2 kv_lengths=9,40");
  EXPECT_EQ(harness::new_rows(few, 0), 2);
  EXPECT_EQ(harness::new_rows(few, 1), 1);
  EXPECT_TRUE(harness::is_appended(few, 0, 7) && !harness::is_appended(few, 0, 9));
  EXPECT_EQ(harness::new_rows(parsed("b2 q3 kv40 d8 query_lengths=3,1 append=2"), 1), 2) << "padded";
}

TEST(ParseProblem, Backward) {
  const Problem problem = parsed("h2 4x5 d8 alibi=given sinks backward");
  EXPECT_EQ(problem.operation, bench::Operation::kBackward);
  EXPECT_TRUE(problem.desc.has_lse) << "gradients need it";
  EXPECT_EQ(parsed("4x5 d8").operation, bench::Operation::kForward);
  expect_refused(
      {{"4x32 d32 cache=q8_0 backward", "the type of key is q8_0"},
       {"4x32 d32 value=q4_0 backward", "the type of value is q4_0"},
       {"4x32 d32 value=e4m3 backward", "the type of value is e4m3"},
       {"4x32 d32 page=16 backward", "keys lie in pages"},
       {"4x32 d32 ring=16 backward", "keys lie in a ring"},
       {"4x4 d8 score=alibi backward", "'score=alibi' has no gradients"},
       {"4x4 d8 weights=scores backward", "'weights=scores' asks for an output of the forward pass"},
       {"4x4 d8 backward backward", "'backward' sets again"},
       {"4x4 d8 backwards", "did you mean 'backward'?"}});
}

TEST(ParseProblem, MatrixMultiplications) {
  const Problem problem =
      parsed("matmul b2 4x5x6 f16 b=bf16 output=f32 bias=f32 accumulates transposed=ab seed=3");
  EXPECT_EQ(problem.operation, bench::Operation::kMatmul);
  EXPECT_EQ(problem.seed, 3U);
  MatmulDesc expected;
  expected.batch = 2;
  expected.rows = 4;
  expected.columns = 5;
  expected.inner = 6;
  expected.a = {DataType::kFloat16, MatrixStrides{24, 1, 4}, 16};
  expected.b = {DataType::kBfloat16, MatrixStrides{30, 1, 6}, 16};
  expected.output = {DataType::kFloat32, MatrixStrides{20, 5, 1}, 16};
  expected.has_bias = expected.accumulates = true;
  expected.bias_type = DataType::kFloat32;
  EXPECT_EQ(problem.matmul, expected);
  EXPECT_EQ(parsed("matmul 4x5x6").matmul.a.strides, (MatrixStrides{24, 6, 1}));
  EXPECT_TRUE(parsed("matmul 1x5x6 a=ones").matmul.a_is_ones);
  EXPECT_EQ(parsed("matmul 4x5x64 f16 b=q8_0 bias").matmul.bias_type, DataType::kFloat16);
  EXPECT_EQ(parsed("matmul 4x5x6 f16 shift=1").matmul.b.alignment_bytes, 0U);
  EXPECT_EQ(parsed("4x5 d6 b3").matmul, MatmulDesc{}) << "a problem is of one or the other";
  EXPECT_EQ(problem.desc, AttentionDesc{});
  expect_refused(
      {{"matmul 4x5x6 causal", "'causal' is of attention; the words of a matrix multiplication are b2"},
       {"matmul 4x5x6 d8", "'d8' is of attention"},
       {"matmul 4x5", "'4x5' is of attention"},
       {"matmul", "names no sizes"},
       {"4x5 d6 bias", "'bias' is of a matrix multiplication"},
       {"4x5x6", "add the word matmul"},
       {"matmul 4x5x6x7", "'6x7'"},
       {"matmul 4x5x6 3x4x5", "sets again"},
       {"matmul 4x5x6 bias bias=f16", "sets again"},
       {"matmul 4x5x6 backward", "'backward' sets again what 'matmul' has set"},
       {"matmul 4x5x6 a=q8_0", "f32, f16, bf16, ones"},
       {"matmul 4x5x6 b=e4m3", "f32, f16, bf16, q8_0, q4_0"},
       {"matmul 4x5x6 b=q8_0", "inner is 6"},
       {"matmul 4x5x32 b=q8_0 transposed=b", "leave out 'transposed=b'"},
       {"matmul 4x5x6 transposed=c", "a, b, ab"},
       {"matmul 4x5x6 shift=1 aligned=16", "byte 4"},
       {"matmul 4x5x-6", "inner is -6"},
       {"mathmul 4x5x6", "did you mean 'matmul'?"}});
}

TEST(ParseProblem, LayOutFollowsTheSizes) {
  Problem problem = parsed("b4 h2 8x64 d8 page=16 mask=bytes:bqk pad=3 query_lengths=1,2,3,4");
  problem.desc.batch = 1;
  problem.desc.kv_length = 20;
  problem.query_lengths = {3};
  problem.lay_out();
  EXPECT_EQ(problem.desc, desc_of("h2 8x20 d8 page=16 mask=bytes:bqk pad=3 query_lengths=3"));
}

TEST(ToString, CanonicalStringsComeBack) {
  for (const char* text :
       {"1x1 d1",
        "0x0 d576",
        "b2 h3 4x5 d6",
        "hq32 hkv8 1x4096 d128 f16 causal align=bottom-right lse",
        "512x512 d192 dv128 bf16 query=f32",
        "4x4 d8 key=f16",
        "4x4 d8 f16 query=f32",
        "4x4 d8 query=f16 key=bf16",
        "4x4 d32 key=q4_0",
        "4x4 d32 cache=q8_0",
        "4x4 d32 f16 cache=q4_0",
        "4x4 d32 f16 key=q8_0 value=e4m3",
        "4x4 d8 cache=f16",
        "4x4 d8 cache=bf16",
        "4x4 d8 causal align=-5 scale=1e-20",
        "4x4 d8 causal align=0",
        "4x4 d8 window=3,-1 softcap=50",
        "4x4 d8 causal window=2,0 align=bottom-right scale=-0.25",
        "4x4 d8 alibi align=-2",
        "h4 4x4 d8 alibi=times-mask mask=f16:h2k",
        "4x4 d8 window=-1,0 alibi=given",
        "4x4 d8 mask=f32",
        "h3 4x4 d8 sinks lse",
        "h3 4x4 d8 f16 causal sinks backward",
        "matmul 4x5x6",
        "b3 matmul 0x5x64 f16 b=q4_0 bias transposed=a",
        "matmul 4x5x6 shift=1 seed=9 a=f16 b=bf16 bias accumulates",
        "matmul 4x5x6 bf16 b=f16 bias=f32",
        "matmul 1x5x6 f16 aligned=2 a=ones",
        "b2 4x7 d8 backward sequences query_lengths=1,4 kv_lengths=7,3",
        "b2 h2 4x4 d8 mask=f16:bhqk hidden=0.5 zeros=0.5 block=16 score=documents",
        "4x4 d8 mask=bytes:k hidden=0",
        "4x4 d8 mask=bits:hqk dropout=0.17 weights=scores",
        "4x4 d8 mask=bytes:b weights=softcap",
        "4x4 d8 dropout=0.5 dropout_seed=18446744073709551615 dropout_offset=9 weights=masked",
        "b2 4x4 d8 weights=probabilities query_lengths=1,4 kv_lengths=4,2",
        "b0 4x9 d8 kv_lengths=",
        "b3 4x7 d8 sequences query_lengths=1,4,0 kv_lengths=7,3,2",
        "4x40 d8 ring=16",
        "b2 4x7 d8 sequences=queries query_lengths=1,4",
        "b2 4x40 d8 sequences=queries query_lengths=1,4 kv_lengths=40,9 page=16",
        "3x40 d8 page=16 append=3 rotary=half-split",
        "hq4 hkv2 4x4 d8 layout=packed aligned=0",
        "4x4 d8 f16 layout=bshd pad=3 shift=8 aligned=16",
        "4x4 d8 f16 shift=1 data=uniform magnitude=0.001",
        "4x4 d8 data=dominant seed=18446744073709551615",
        "4x4 d8 data=equal magnitude=1e-06"}) {
    EXPECT_EQ(to_string(parsed(text)), text);
  }
}

TEST(ToString, SaysTheSameShorter) {
  EXPECT_EQ(
      to_string(parsed("b1 h1 q4 kv5 d8 dv8 f32 layout=bhsd pad=0 shift=0 seed=1 magnitude=1.0 data=normal")),
      "4x5 d8");
  EXPECT_EQ(to_string(parsed("d8 causal align=top-left 4x5 query=f16 key=f16 value=f16 output=f16 hkv2 hq2")),
            "h2 4x5 d8 f16 causal");
  EXPECT_EQ(to_string(parsed("lse 4x5 d8 backward")), "4x5 d8 backward");
  Problem problem = parsed("4x4 d8");
  for (const float scale : {0.1F, 1.0F / 3.0F, -1.17549435e-38F, 2.3e38F}) {
    problem.desc.scale = scale;
    EXPECT_EQ(parsed(to_string(problem)).desc.scale, scale) << "to the last bit";
  }
}

TEST(ParseProblem, NamesUnknownWordsAndWhatWasMeant) {
  for (const auto& [word, hint] : Refusals{{"casual", "did you mean 'causal'"},
                                           {"512", "did you mean '512x512'"},
                                           {"fp16", "did you mean 'f16'"},
                                           {"F16", "'F16'"},
                                           {"sead=4", "did you mean 'seed=…'"},
                                           {"hvk2", "did you mean 'hkv2'"},
                                           {"rhubarb", "'rhubarb'"},
                                           {"layout=bsdh", "did you mean 'bshd'"},
                                           {"causal align=bottomright", "did you mean 'bottom-right'"},
                                           {"weights=probs", "scores, softcap, masked, probabilities"},
                                           {"cache=q8", "f32, f16, bf16, q8_0, q4_0, e4m3"},
                                           {"query=q8_0", "f32, f16, bf16"},
                                           {"window=5", "window=512,0"},
                                           {"mask=f32:kq", "b, h, q and k in this order"},
                                           {"mask=f32:qx", "mask=f32:hqk"}}) {
    EXPECT_TRUE(has(error_of("4x4 d32 " + word), hint)) << word;
  }
  EXPECT_LT(error_of("4x4 d8 " + std::string(100000, 'z')).size(), 200U);
}

TEST(ParseProblem, RefusesMalformedNumbers) {
  for (const std::string& word :
       words_of("b b2x b1.5 b0x10 q+3 4x x4 4x4x4 4X4 pad= pad=3a seed=-1 magnitude=0 magnitude=-1 "
                "magnitude=nan magnitude=inf scale=nan scale=1e99 scale= kv_lengths=1, kv_lengths=,1 "
                "kv_lengths=1,,2 kv_lengths= = d8= align= layout= pad=-1 shift=-1 "
                "window= window=, window=1, window=1,2,3 window=-2,0 window=1.5,0 softcap= softcap=-1 "
                "softcap=nan softcap=inf hidden=2 hidden=-0.1 hidden=nan zeros=1.5 zeros=nan block=0 "
                "block=-4 ring=0 ring=-1 "
                "ring=x page=0 page=-5 page=9223372036854775808 dropout=1.1 dropout=-0.1 dropout=nan "
                "dropout_seed=-1 dropout_offset=4294967296 query_lengths=1 query_lengths=a weights= "
                "cache= mask= mask=:qk")) {
    const std::string rest =
        word.starts_with("mask") || word.starts_with("dropout=") ? "" : " mask=f32 dropout=0.5";
    EXPECT_FALSE(error_of("b2 4x4 d8 causal " + word + rest).empty()) << word;
  }
}

TEST(ParseProblem, RefusesNumbersThatOverflow) {
  for (const std::string& word :
       words_of("b9223372036854775807 seed=18446744073709551616 pad=9223372036854775808 "
                "pad=9223372036854775807 shift=4611686018427387904 aligned=4294967296 "
                "kv_lengths=2147483648 hq9223372036854775807 dv9223372036854775808")) {
    EXPECT_FALSE(error_of("4x4 d8 " + word).empty()) << word;
  }
  expect_refused({{"4x4 d8 b99999999999999999999", "'b99999999999999999999'"},
                  {"b1000000 hq2000 hkv1 1000000000x1 d576", "63 bits"},
                  {"q1073741825 kv1 d8", "1073741825"},
                  {"1x9223372036854775807 d8 page=1", "kv_length"},
                  {"b2 h4 4x4 d8 page=9223372036854775807", "page_size"}});
}

TEST(ParseProblem, RefusesWordsThatContradict) {
  expect_refused({{"4x4 d8 f16 bf16", "'bf16'"},
                  {"4x4 q4 d8", "'4x4'"},
                  {"4x4 d8 h8 hq4", "'hq4'"},
                  {"4x4 d8 causal causal", "'causal'"},
                  {"4x4 d8 ring=4 page=4", "'ring=4'"},
                  {"4x4 d8 alibi alibi=given", "'alibi'"},
                  {"4x4 d32 cache=q8_0 key=f16", "'cache=q8_0'"},
                  {"4x4 d32 cache=q8_0 value=f16", "'cache=q8_0'"},
                  {"4x4 d8 align=3 softcap=2", "causal, window=… or alibi"},
                  {"4x4 d8 align=3 mask=f32 alibi=times-mask", "causal, window=… or alibi"},
                  {"4x4 d8 hidden=0.5", "mask=bytes"},
                  {"4x4 d8 mask=bits zeros=0.5", "mask=f32 or mask=f16"},
                  {"4x4 d8 block=2", "mask=bytes"},
                  {"4x4 d8 dropout_seed=2", "dropout=0.1"},
                  {"4x5 d8 layout=packed", "4 and 5"},
                  {"4x4 d8 dv9 layout=packed", "8 and 9"},
                  {"4x4 d8 key=f16 layout=packed", "f16"},
                  {"4x4 d8 layout=packed page=4", "'page=4'"},
                  {"4x4 d32 cache=q8_0 layout=packed", "one type"},
                  {"4x4 d8 shift=1 aligned=16", "byte 4"},
                  {"4x4 d32 cache=q8_0 shift=4 aligned=16", "byte 8"},
                  {"4x4 d40 cache=q8_0", "blocks of 32"},
                  {"4x4 d32 cache=q8_0 pad=3", "q8_0"},
                  {"q3 kv40 d8 append=-1", "must be from 0 to 40"},
                  {"q3 kv40 d8 append=41", "must be from 0 to 40"},
                  {"q3 kv40 d8 append=2 rotary=half-split", "needs append=3"},
                  {"q3 kv40 d7 append=3 rotary=half-split", "d is 7"},
                  {"q3 kv40 d8 append=3 sequences query_lengths=3 kv_lengths=40", "leave out sequences"},
                  {"", "query length"},
                  {"q4 d8", "key length"},
                  {"4x4", "head dimension"}});
  const std::string two = "b2 4x4 d8 ", packed = two + "sequences kv_lengths=4,4 ";
  expect_refused({{two + "kv_lengths=4", "batch is 2"},
                  {two + "query_lengths=4", "batch is 2"},
                  {packed, "query_lengths=…"},
                  {packed + "query_lengths=4,-1", "-1"},
                  {packed + "query_lengths=4,1 ring=4", "kv_lengths is kPacked"},
                  {packed + "query_lengths=4,1 layout=packed", "5 and 8"},
                  {packed + "query_lengths=4,4 sequences=queries", "'sequences'"},
                  {two + "sequences=queries kv_lengths=4,4", "query_lengths=…"},
                  {two + "sequences=queries query_lengths=4,-1", "-1"},
                  {two + "sequences=queries query_lengths=4,4 layout=packed", "'sequences=queries'"}});
}

TEST(ProblemWords, EachStandsOnceAndIsExplained) {
  const std::string help = bench::problem_help();
  std::set<std::pair<bench::Form, std::string_view>> seen;
  std::set<std::string_view> options;
  for (const bench::Word& word : bench::words()) {
    EXPECT_TRUE(seen.emplace(word.form, word.key).second) << word.key;
    if (!word.option.name.empty()) {
      EXPECT_TRUE(options.insert(word.option.name).second) << word.option.name;
      EXPECT_FALSE(word.option.help.empty()) << word.option.name;
    }
    EXPECT_TRUE(has(help, word.key));
    EXPECT_EQ(word.example.empty(), word.help.empty()) << word.key;
  }
  for (const char* value : {"hq32", "bf16", "q8_0", "q4_0", "e4m3", "alibi=given", "alibi=times-mask", "h2qk",
                            "sequences=queries", "scores, softcap, masked or probabilities",
                            "bhsd (the default), bshd or packed"}) {
    EXPECT_TRUE(has(help, value)) << value;
  }
  for (const std::string& line : lines_of(help)) EXPECT_LE(line.size(), 80U) << line;
}

}  // namespace
}  // namespace vkattn::tests
