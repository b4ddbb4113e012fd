// The words of problem strings for masks, windows, caches and the other features.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "harness/row_map.hpp"
#include "problem/problem.hpp"
#include "support/problem_text.hpp"

namespace {

namespace harness = vkattn::harness;

using vkattn::Alibi;
using vkattn::Align;
using vkattn::DataType;
using vkattn::KeyMapping;
using vkattn::Lengths;
using vkattn::MaskType;
using vkattn::Result;
using vkattn::RotaryStyle;
using vkattn::SlidingWindow;
using vkattn::Strides;
using vkattn::WeightsStage;
using vkattn::bench::parse_problem;
using vkattn::bench::Problem;
using vkattn::bench::ScoreKind;
using vkattn::tests::error_of;
using vkattn::tests::parsed;

TEST(ProblemFeatures, Scores) {
  const Problem problem = parsed(
      "h3 4x5 d8 window=3,-1 align=bottom-right softcap=50 alibi=given sinks dropout=0.25 dropout_seed=9 "
      "dropout_offset=4 weights=softcap");
  EXPECT_EQ(problem.desc.window, (SlidingWindow{3, -1}));
  EXPECT_FALSE(problem.desc.causal);
  EXPECT_EQ(problem.desc.align, Align::kBottomRight);
  EXPECT_EQ(problem.desc.softcap, 50.0F);
  EXPECT_EQ(problem.desc.alibi, Alibi::kGiven);
  EXPECT_TRUE(problem.desc.has_sinks);
  EXPECT_EQ(problem.desc.dropout, 0.25F);
  EXPECT_EQ(problem.dropout_seed, 9U);
  EXPECT_EQ(problem.dropout_offset, 4U);
  EXPECT_EQ(problem.desc.weights, WeightsStage::kSoftcap);
  EXPECT_EQ(problem.desc.weights_strides, (Strides{60, 20, 5, 1}));
  EXPECT_EQ(parsed("4x5 d8 alibi").desc.alibi, Alibi::kStandard);
}

TEST(ProblemFeatures, Appends) {
  const Problem problem = parsed("q3 kv40 d8 append=3 rotary=half-split page=16");
  EXPECT_EQ(problem.appended, 3);
  EXPECT_EQ(problem.rotary, RotaryStyle::kHalfSplit);
  EXPECT_EQ(to_string(problem), "3x40 d8 page=16 append=3 rotary=half-split");
  EXPECT_EQ(problem.desc, parsed("q3 kv40 d8 page=16").desc) << "attention itself is the same";
  EXPECT_EQ(parsed("q3 kv40 d8 append=3 rotary=interleaved").rotary, RotaryStyle::kInterleaved);
  EXPECT_NE(error_of("q3 kv40 d8 append=-1").find("must be from 0 to 40"), std::string::npos);
  EXPECT_NE(error_of("q3 kv40 d8 append=41").find("must be from 0 to 40"), std::string::npos);
  EXPECT_NE(error_of("q3 kv40 d8 append=2 rotary=half-split").find("needs append=3"), std::string::npos);
  EXPECT_NE(error_of("q3 kv40 d7 append=3 rotary=half-split").find("d is 7"), std::string::npos);
  EXPECT_NE(
      error_of("q3 kv40 d8 append=3 sequences query_lengths=3 kv_lengths=40").find("leave out sequences"),
      std::string::npos);
}

TEST(ProblemFeatures, AppendsOfPackedRows) {
  const Problem problem =
      parsed("b3 q3 kv40 d8 sequences=queries query_lengths=3,0,2 append=3 rotary=half-split");
  EXPECT_EQ(problem.rotary, RotaryStyle::kHalfSplit);
  EXPECT_TRUE(harness::is_appended(problem, 0, 37) && !harness::is_appended(problem, 0, 36));
  EXPECT_FALSE(harness::is_appended(problem, 1, 39));
  EXPECT_TRUE(harness::is_appended(problem, 2, 38) && !harness::is_appended(problem, 2, 37));
  const Problem few = parsed("b2 q3 kv40 d8 sequences=queries query_lengths=3,1 append=2 kv_lengths=9,40");
  EXPECT_EQ(harness::new_rows(few, 0), 2);
  EXPECT_EQ(harness::new_rows(few, 1), 1);
  EXPECT_TRUE(harness::is_appended(few, 0, 7) && !harness::is_appended(few, 0, 9));
  EXPECT_EQ(harness::new_rows(parsed("b2 q3 kv40 d8 query_lengths=3,1 append=2"), 1), 2) << "padded";
}

TEST(ProblemFeatures, MasksVaryAlongWhatIsNamed) {
  const Problem whole = parsed("b2 h3 4x50 d8 mask=f16:bhqk hidden=0.5 block=16");
  EXPECT_EQ(whole.desc.mask.type, MaskType::kFloat16);
  EXPECT_EQ(whole.desc.mask.strides, (Strides{600, 200, 50, 1}));
  EXPECT_EQ(whole.hidden_share, 0.5);
  EXPECT_EQ(whole.hidden_block, 16);
  EXPECT_EQ(parsed("b2 h3 4x50 d8 mask=bytes").desc.mask.strides, (Strides{0, 0, 50, 1}));
  EXPECT_EQ(parsed("b2 h3 4x50 d8 mask=bits").desc.mask.strides, (Strides{0, 0, 64, 1}));
  EXPECT_EQ(parsed("b2 h3 4x50 d8 mask=bits:bk").desc.mask.strides, (Strides{64, 0, 0, 1}));
  EXPECT_EQ(parsed("b2 h3 4x50 d8 mask=bits:hq").desc.mask.strides, (Strides{0, 128, 32, 0}))
      << "a word a row";
  EXPECT_EQ(parsed("b2 h3 4x50 d8 mask=bits:bh").desc.mask.strides, (Strides{96, 32, 0, 0}));
  EXPECT_EQ(parsed("b2 h3 4x50 d8 mask=f32:hq").desc.mask.strides, (Strides{0, 4, 1, 0}));
  EXPECT_EQ(parsed("b2 h3 4x50 d8 mask=f32:").desc.mask.strides, (Strides{0, 0, 0, 0}));
}

TEST(ProblemFeatures, Lengths) {
  const Problem problem = parsed("b2 4x50 d8 query_lengths=4,-1 kv_lengths=50,60");
  EXPECT_EQ(problem.desc.query_lengths, Lengths::kPerEntry);
  EXPECT_EQ(problem.desc.kv_lengths, Lengths::kPerEntry);
  EXPECT_EQ(problem.query_lengths, (std::vector<std::int32_t>{4, -1}));
}

TEST(ProblemFeatures, PackedSequences) {
  const Problem problem = parsed("b3 hq4 hkv2 9x12 d8 sequences query_lengths=9,0,4 kv_lengths=3,7,12 pad=2");
  EXPECT_TRUE(problem.desc.has_packed_keys());
  EXPECT_NE(problem.desc.query_lengths, Lengths::kPerEntry);
  EXPECT_NE(problem.desc.kv_lengths, Lengths::kPerEntry);
  EXPECT_EQ(problem.desc.total_query_length, 13);
  EXPECT_EQ(problem.desc.total_kv_length, 22);
  EXPECT_EQ(problem.desc.query.strides, (Strides{4 * 13 * 10, 13 * 10, 10, 1}));
  EXPECT_EQ(problem.desc.key.strides, (Strides{2 * 22 * 10, 22 * 10, 10, 1}));
  const Problem one_tensor = parsed("b2 h2 9x9 d8 sequences query_lengths=9,4 kv_lengths=9,4 layout=packed");
  EXPECT_EQ(one_tensor.desc.key.strides, (Strides{13 * 48, 8, 48, 1}));
}

TEST(ProblemFeatures, PackedQueries) {
  const Problem problem =
      parsed("b3 hq4 hkv2 9x12 d8 sequences=queries query_lengths=9,0,4 kv_lengths=3,7,-1 page=4 pad=2");
  EXPECT_TRUE(problem.desc.has_packed_queries());
  EXPECT_FALSE(problem.desc.has_packed_keys());
  EXPECT_NE(problem.desc.query_lengths, Lengths::kPerEntry);
  EXPECT_EQ(problem.desc.kv_lengths, Lengths::kPerEntry);
  EXPECT_EQ(problem.desc.total_query_length, 13);
  EXPECT_EQ(problem.desc.query.strides, (Strides{4 * 13 * 10, 13 * 10, 10, 1}));
  EXPECT_EQ(problem.desc.key.strides, (Strides{2 * 4 * 10, 4 * 10, 10, 1}));
}

TEST(ProblemFeatures, Caches) {
  const Problem ring = parsed("b2 h2 1x50 d8 ring=16 pad=1");
  EXPECT_EQ(ring.desc.cache.mapping, KeyMapping::kRing);
  EXPECT_EQ(ring.desc.key.strides, (Strides{2 * 16 * 9, 16 * 9, 9, 1}));
  const Problem pages = parsed("b2 h2 1x50 d8 page=16 layout=bshd");
  EXPECT_EQ(pages.desc.cache.mapping, KeyMapping::kPaged);
  EXPECT_EQ(pages.desc.cache.page_table_stride, 4);
  EXPECT_EQ(pages.desc.cache.page_count, 8 + vkattn::bench::kSparePages);
  EXPECT_EQ(pages.desc.key.strides, (Strides{16 * 16, 8, 16, 1}));
  EXPECT_EQ(parsed("1x0 d8 page=16").desc.cache.page_table_stride, 0);
  EXPECT_EQ(parsed("1x32 d8 page=16").desc.cache.page_table_stride, 2);
}

TEST(ProblemFeatures, QuantisedStorage) {
  const Problem both = parsed("4x4 d64 f16 cache=q8_0");
  EXPECT_EQ(both.desc.query.type, DataType::kFloat16);
  EXPECT_EQ(both.desc.key.type, DataType::kQ8_0);
  EXPECT_EQ(both.desc.value.type, DataType::kQ8_0);
  const Problem each = parsed("4x4 d64 key=q4_0 value=e4m3");
  EXPECT_EQ(each.desc.key.type, DataType::kQ4_0);
  EXPECT_EQ(each.desc.value.type, DataType::kFloat8E4m3);
}

TEST(ProblemFeatures, ScoreFunctions) {
  EXPECT_EQ(parsed("4x4 d8").score, ScoreKind::kNone);
  EXPECT_EQ(parsed("4x4 d8 score=alibi").score, ScoreKind::kAlibi);
  EXPECT_EQ(parsed("4x4 d8 score=prefix").score, ScoreKind::kPrefix);
  EXPECT_EQ(parsed("4x4 d8 score=bias").score, ScoreKind::kBias);
  EXPECT_EQ(to_string(parsed("score=documents 4x4 d8 causal")), "4x4 d8 causal score=documents");
  EXPECT_EQ(parsed("4x4 d8 score=alibi").desc, parsed("4x4 d8").desc) << "a matter of PlanOptions";
}

TEST(ProblemFeatures, LayOutFollowsTheSizes) {
  Problem problem = parsed("b4 h2 8x64 d8 page=16 mask=bytes:bqk pad=3 query_lengths=1,2,3,4");
  problem.desc.batch = 1;
  problem.desc.kv_length = 20;
  problem.query_lengths = {3};
  problem.lay_out();
  const Problem expected = parsed("h2 8x20 d8 page=16 mask=bytes:bqk pad=3 query_lengths=3");
  EXPECT_EQ(problem.desc, expected.desc);
}

TEST(ProblemFeatures, NamesWhatWasMeant) {
  const auto hints = [](const char* word, const char* hint) {
    const std::string message = error_of(std::string("4x4 d32 ") + word);
    EXPECT_NE(message.find(hint), std::string::npos) << message;
  };
  hints("windows=1,2", "did you mean 'window=…'");
  hints("softcaps=3", "did you mean 'softcap=…'");
  hints("mask=byte", "did you mean 'bytes'");
  hints("sink", "did you mean 'sinks'");
  hints("alibbi", "did you mean 'alibi'");
  hints("alibi=give", "did you mean 'given'");
  hints("sequence", "did you mean 'sequences'");
  hints("sequences=query", "did you mean 'queries'");
  hints("cache=q8", "f32, f16, bf16, q8_0, q4_0, e4m3");
  hints("query=q8_0", "f32, f16, bf16");
  hints("weights=probs", "scores, softcap, masked, probabilities");
  hints("drop_out=0.1", "did you mean 'dropout=…'");
  hints("window=5", "window=512,0");
  hints("score=document", "did you mean 'documents'");
  hints("mask=f32:kq", "b, h, q and k in this order");
  hints("mask=f32:qq", "b, h, q and k in this order");
  hints("mask=f32:qx", "mask=f32:hqk");
}

TEST(ProblemFeatures, RefusesMalformedNumbers) {
  for (const char* word : {"window=",
                           "window=,",
                           "window=1,",
                           "window=1,2,3",
                           "window=-2,0",
                           "window=1.5,0",
                           "softcap=",
                           "softcap=-1",
                           "softcap=nan",
                           "softcap=inf",
                           "hidden=2",
                           "hidden=-0.1",
                           "hidden=nan",
                           "block=0",
                           "block=-4",
                           "ring=0",
                           "ring=-1",
                           "ring=x",
                           "page=0",
                           "page=-5",
                           "page=9223372036854775808",
                           "dropout=1",
                           "dropout=-0.1",
                           "dropout=nan",
                           "dropout_seed=-1",
                           "dropout_offset=4294967296",
                           "query_lengths=1,2",
                           "query_lengths=a",
                           "weights=",
                           "cache=",
                           "mask=",
                           "mask=:qk"}) {
    EXPECT_FALSE(error_of(std::string("4x4 d8 mask=f32 dropout=0.5 ") + word).empty()) << word;
    EXPECT_FALSE(error_of(std::string("4x4 d8 ") + word).empty()) << word;
  }
}

TEST(ProblemFeatures, RefusesWordsThatContradict) {
  const auto says = [](const char* text, const char* part) {
    const std::string message = error_of(text);
    EXPECT_NE(message.find(part), std::string::npos) << message;
  };
  says("4x4 d8 align=3 softcap=2", "causal, window=… or alibi");
  says("4x4 d8 hidden=0.5", "mask=bytes");
  says("4x4 d8 block=2", "mask=bytes");
  says("4x4 d8 dropout_seed=2", "dropout=0.1");
  says("4x4 d8 ring=4 page=4", "'ring=4'");
  says("4x4 d8 alibi alibi=given", "'alibi'");
  says("4x4 d32 cache=q8_0 key=f16", "'cache=q8_0'");
  says("b2 4x4 d8 query_lengths=4", "batch is 2");
  says("b2 4x4 d8 sequences kv_lengths=4,4", "query_lengths=…");
  says("b2 4x4 d8 sequences kv_lengths=4,4 query_lengths=4,-1", "-1");
  says("b2 4x4 d8 sequences kv_lengths=4,4 query_lengths=4,1 ring=4", "kv_lengths is kPacked");
  says("b2 4x4 d8 sequences kv_lengths=4,4 query_lengths=4,1 layout=packed", "5 and 8");
  says("b2 4x4 d8 sequences=queries kv_lengths=4,4", "query_lengths=…");
  says("b2 4x4 d8 sequences=queries query_lengths=4,-1", "-1");
  says("b2 4x4 d8 sequences=queries query_lengths=4,4 layout=packed", "'sequences=queries'");
  says("b2 4x4 d8 sequences=queries sequences query_lengths=4,4 kv_lengths=4,4", "'sequences'");
  says("4x4 d8 layout=packed page=4", "'page=4'");
  says("4x4 d40 cache=q8_0", "blocks of 32");
  says("4x4 d32 cache=q8_0 pad=3", "q8_0");
  says("4x4 d32 cache=q8_0 layout=packed", "one type");
  says("1x9223372036854775807 d8 page=1", "kv_length");
  says("b2 h4 4x4 d8 page=9223372036854775807", "page_size");
}

TEST(ProblemFeatures, ShiftsOfQuantisedTensorsCountTheirElements) {
  const Problem problem = parsed("4x4 d32 cache=q8_0 shift=1");
  EXPECT_EQ(problem.desc.key.alignment_bytes, 0U);
  EXPECT_NE(error_of("4x4 d32 cache=q8_0 shift=4 aligned=16").find("byte 8"), std::string::npos);
}

TEST(ProblemFeatures, HelpNamesEveryWord) {
  const std::string help(vkattn::bench::problem_help());
  for (const char* word : {"cache=",      "q8_0",           "q4_0",
                           "e4m3",        "window=",        "alibi",
                           "alibi=given", "softcap=",       "mask=",
                           "hidden=",     "block=",         "sinks",
                           "dropout=",    "dropout_seed=",  "dropout_offset=",
                           "weights=",    "query_lengths=", "sequences",
                           "ring=",       "page=",          "sequences=queries"}) {
    EXPECT_NE(help.find(word), std::string::npos) << word;
  }
  for (std::size_t begin = 0, end = 0; begin < help.size(); begin = end + 1) {
    end = help.find('\n', begin);
    EXPECT_LE(end - begin, 80U) << help.substr(begin, end - begin);
  }
}

}  // namespace
