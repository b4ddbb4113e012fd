// The descriptor's features: slopes, extents of caches and packed sequences, and every rule about them.
#include <vkattn/attention.hpp>

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>
#include <string>
#include <vector>

#include "support/rule.hpp"

namespace {

using vkattn::Alibi;
using vkattn::AttentionDesc;
using vkattn::DataType;
using vkattn::KeyMapping;
using vkattn::Layout;
using vkattn::Lengths;
using vkattn::MaskType;
using vkattn::Strides;
using vkattn::TensorExtents;
using vkattn::WeightsStage;

AttentionDesc valid_desc() {
  AttentionDesc desc;
  desc.batch = 2;
  desc.query_heads = 6;
  desc.kv_heads = 3;
  desc.query_length = 5;
  desc.kv_length = 70;
  desc.head_dim = 64;
  desc.value_dim = 32;
  return desc.resolved();
}

TEST(AlibiSlopes, OfAPowerOfTwoOfHeads) {
  for (std::int64_t h = 0; h < 8; ++h) {
    EXPECT_EQ(vkattn::standard_alibi_slope(h, 8), std::ldexp(1.0F, static_cast<int>(-h - 1)));
  }
  EXPECT_EQ(vkattn::standard_alibi_slope(0, 1), 0x1p-8F);
  EXPECT_EQ(vkattn::standard_alibi_slope(0, 2), 0x1p-4F);
  EXPECT_EQ(vkattn::standard_alibi_slope(15, 16), 0x1p-8F);
  EXPECT_FLOAT_EQ(vkattn::standard_alibi_slope(0, 16), 0.70710678F);
}

/// The rule of the paper's authors for other numbers: those of 8 heads, then every second one of 16.
TEST(AlibiSlopes, OfTwelveHeads) {
  const float expected[12] = {0.5F,       0.25F,       0.125F,      0.0625F,     0.03125F,    0.015625F,
                              0.0078125F, 0.00390625F, 0.70710678F, 0.35355339F, 0.17677670F, 0.08838835F};
  for (std::int64_t h = 0; h < 12; ++h)
    EXPECT_FLOAT_EQ(vkattn::standard_alibi_slope(h, 12), expected[h]) << h;
}

TEST(Extents, OfPackedSequences) {
  AttentionDesc desc = valid_desc();
  desc.query_lengths = desc.kv_lengths = Lengths::kPacked;
  desc.total_query_length = 8;
  desc.total_kv_length = 90;
  desc.set_layout(Layout::kBhsd);
  desc = desc.resolved();
  EXPECT_EQ(query_extents(desc, 64), (TensorExtents{1, 6, 8, 64}));
  EXPECT_EQ(key_extents(desc, 32), (TensorExtents{1, 3, 90, 32}));
  EXPECT_EQ(score_extents(desc), (TensorExtents{2, 6, 5, 70}));
  EXPECT_EQ(desc.query.strides, (Strides{6 * 8 * 64, 8 * 64, 64, 1}));
  EXPECT_EQ(desc.lse_strides->head, 8);
  EXPECT_EQ(desc.weights_strides, (Strides{6 * 5 * 70, 5 * 70, 70, 1}));
  EXPECT_TRUE(vkattn::validate(desc).ok());
}

TEST(Extents, OfPackedQueries) {
  AttentionDesc desc = valid_desc();
  desc.query_lengths = Lengths::kPacked;
  desc.kv_lengths = Lengths::kPerEntry;
  desc.total_query_length = 8;
  desc.set_layout(Layout::kBhsd);
  EXPECT_EQ(query_extents(desc, 64), (TensorExtents{1, 6, 8, 64}));
  EXPECT_EQ(key_extents(desc, 32), (TensorExtents{2, 3, 70, 32}));
  EXPECT_EQ(score_extents(desc), (TensorExtents{2, 6, 5, 70}));
  EXPECT_TRUE(vkattn::validate(desc).ok());
  desc.cache.mapping = KeyMapping::kRing;
  desc.cache.ring_length = 16;
  desc.set_layout(Layout::kBshd);
  EXPECT_EQ(key_extents(desc, 32), (TensorExtents{2, 3, 16, 32}));
  EXPECT_TRUE(vkattn::validate(desc).ok());
  EXPECT_FALSE(desc.is_empty());
  desc.total_query_length = 0;
  EXPECT_TRUE(desc.is_empty());
}

TEST(Extents, OfCaches) {
  AttentionDesc desc = valid_desc();
  desc.cache.mapping = KeyMapping::kRing;
  desc.cache.ring_length = 16;
  EXPECT_EQ(key_extents(desc, 64), (TensorExtents{2, 3, 16, 64}));
  EXPECT_TRUE(vkattn::validate(desc).ok());
  desc.cache.mapping = KeyMapping::kPaged;
  desc.cache.page_size = 8;
  desc.cache.page_count = 20;
  desc.cache.page_table_stride = 9;
  EXPECT_EQ(key_extents(desc, 64), (TensorExtents{20, 3, 8, 64}));
  EXPECT_TRUE(vkattn::validate(desc).ok());
  desc.set_layout(Layout::kBshd);
  desc = desc.resolved();
  EXPECT_EQ(desc.key.strides, (Strides{8 * 3 * 64, 64, 3 * 64, 1}));
  EXPECT_EQ(desc.query.strides, (Strides{5 * 6 * 64, 64, 6 * 64, 1})) << "queries are in no cache";
}

TEST(MaskBytes, ReachToTheLastElement) {
  AttentionDesc desc = valid_desc();
  desc.mask.type = MaskType::kFloat32;
  desc.set_layout(Layout::kBhsd);
  EXPECT_EQ(*mask_bytes(desc), 2 * 6 * 5 * 70 * 4);
  desc.mask.type = MaskType::kFloat16;
  EXPECT_EQ(*mask_bytes(desc), 2 * 6 * 5 * 70 * 2);
  desc.mask.type = MaskType::kBytes;
  EXPECT_EQ(*mask_bytes(desc), 2 * 6 * 5 * 70);
  desc.mask.strides = Strides{0, 0, 0, 1};
  EXPECT_EQ(*mask_bytes(desc), 70);
  desc.mask.type = MaskType::kBits;
  EXPECT_EQ(*mask_bytes(desc), 3 * 4);
  desc.mask.strides = Strides{0, 160, 32, 0};
  EXPECT_EQ(*mask_bytes(desc), 6 * 5 * 4) << "one bit a row, in a word of its own";
  EXPECT_TRUE(vkattn::validate(desc).ok());
  desc.set_layout(Layout::kBhsd);
  EXPECT_EQ(desc.resolved().mask.strides, (Strides{6 * 5 * 96, 5 * 96, 96, 1})) << "whole words";
  EXPECT_EQ(*mask_bytes(desc), 2 * 6 * 5 * 3 * 4);
  EXPECT_TRUE(vkattn::validate(desc).ok());
}

TEST(TensorBytes, OfBlocks) {
  AttentionDesc desc = valid_desc();
  desc.key.type = DataType::kQ8_0;
  desc.value.type = DataType::kQ4_0;
  EXPECT_TRUE(vkattn::validate(desc).ok());
  EXPECT_EQ(*tensor_bytes(desc.key, 2, 3, 70, 64), 2 * 3 * 70 * 2 * 34);
  EXPECT_EQ(*tensor_bytes(desc.value, 2, 3, 70, 32), 2 * 3 * 70 * 18);
  desc.key.strides->row = 96;  // a free block after each row, but the last
  desc.key.strides->head = 70 * 96;
  desc.key.strides->batch = 3 * 70 * 96;
  EXPECT_EQ(*tensor_bytes(desc.key, 2, 3, 70, 64), (2 * 3 * 70 * 3 - 1) * 34);
}

/// A way to break a valid descriptor, and what the error must speak of.
using Rule = vkattn::tests::Rule<AttentionDesc>;

class BrokenFeature : public testing::TestWithParam<Rule> {};

TEST_P(BrokenFeature, IsNamedWithItsNumbers) {
  expect_refused_by_name(GetParam(), valid_desc());
}

constexpr std::int64_t kTwo30 = std::int64_t{1} << 30;

AttentionDesc& paged(AttentionDesc& desc) {
  desc.cache.mapping = KeyMapping::kPaged;
  desc.cache.page_size = 8;
  desc.cache.page_count = 20;
  desc.cache.page_table_stride = 9;
  return desc;
}

AttentionDesc& packed(AttentionDesc& desc) {
  desc.query_lengths = desc.kv_lengths = Lengths::kPacked;
  desc.total_query_length = 8;
  desc.total_kv_length = 90;
  return desc;
}

const Rule kScoreRules[] = {
    {"NegativeSoftcap", [](AttentionDesc& d) { d.softcap = -1; }, {"softcap", "-1"}},
    {"NanSoftcap",
     [](AttentionDesc& d) { d.softcap = std::numeric_limits<float>::quiet_NaN(); },
     {"softcap", "nan"}},
    {"TinySoftcap", [](AttentionDesc& d) { d.softcap = 1e-35F; }, {"softcap", "1e-30"}},
    {"FullDropout", [](AttentionDesc& d) { d.dropout = 1; }, {"dropout", "1"}},
    {"NegativeDropout", [](AttentionDesc& d) { d.dropout = -0.5F; }, {"dropout", "-0.5"}},
    {"NanDropout",
     [](AttentionDesc& d) { d.dropout = std::numeric_limits<float>::quiet_NaN(); },
     {"dropout", "nan"}},
    {"UnknownAlibi", [](AttentionDesc& d) { d.alibi = static_cast<Alibi>(3); }, {"alibi", "3"}},
    {"UnknownStage", [](AttentionDesc& d) { d.weights = static_cast<WeightsStage>(5); }, {"weights", "5"}},
    {"UnknownMask", [](AttentionDesc& d) { d.mask.type = static_cast<MaskType>(5); }, {"mask.type", "5"}},
    {"LowWindow", [](AttentionDesc& d) { d.window.left = -2; }, {"window.left", "-2", "-1"}},
    {"HugeWindow", [](AttentionDesc& d) { d.window.right = kTwo30 + 1; }, {"window.right", "1073741825"}},
    {"MaskStride",
     [](AttentionDesc& d) {
       d.mask.type = MaskType::kFloat16;
       d.mask.strides = Strides{0, 0, -70, 1};
     },
     {"mask", "row", "-70"}},
    {"BitsBetweenWords",
     [](AttentionDesc& d) {
       d.mask.type = MaskType::kBits;
       d.mask.strides = Strides{0, 0, 70, 1};
     },
     {"mask", "70", "32"}},
    {"BitsApart",
     [](AttentionDesc& d) {
       d.mask.type = MaskType::kBits;
       d.mask.strides = Strides{0, 0, 96, 2};
     },
     {"mask", "2", "last 1"}},
    {"WeightsOverlap",
     [](AttentionDesc& d) {
       d.weights = WeightsStage::kScores;
       d.weights_strides->row = 69;
     },
     {"weights", "row", "69"}},
};

const Rule kLengthRules[] = {
    {"PackedKeysAlone",
     [](AttentionDesc& d) { d.kv_lengths = Lengths::kPacked; },
     {"kv_lengths is kPacked", "query_lengths is kUniform"}},
    {"UnknownQueryLengths",
     [](AttentionDesc& d) { d.query_lengths = static_cast<Lengths>(3); },
     {"query_lengths", "3"}},
    {"UnknownKeyLengths",
     [](AttentionDesc& d) { d.kv_lengths = static_cast<Lengths>(4); },
     {"kv_lengths", "4"}},
    {"NoTotalOfQueries",
     [](AttentionDesc& d) { d.query_lengths = Lengths::kPacked; },
     {"total_query_length is not set"}},
    {"NoTotalOfKeys",
     [](AttentionDesc& d) {
       d.query_lengths = d.kv_lengths = Lengths::kPacked;
       d.total_query_length = 8;
     },
     {"total_kv_length is not set"}},
    {"PackedRing",
     [](AttentionDesc& d) {
       packed(d);
       d.cache.mapping = KeyMapping::kRing;
       d.cache.ring_length = 8;
     },
     {"kv_lengths is kPacked", "kRing", "kPerEntry"}},
    {"PackedPages", [](AttentionDesc& d) { packed(paged(d)); }, {"kv_lengths is kPacked", "kPaged"}},
    {"NegativeTotalOfQueries",
     [](AttentionDesc& d) {
       paged(d).query_lengths = Lengths::kPacked;
       d.total_query_length = -1;
     },
     {"total_query_length", "-1"}},
    {"NegativeTotal",
     [](AttentionDesc& d) { packed(d).total_query_length = -1; },
     {"total_query_length", "-1"}},
    {"HugeTotal",
     [](AttentionDesc& d) { packed(d).total_kv_length = 2 * kTwo30; },
     {"total_kv_length", "2147483648"}},
    {"NoRing", [](AttentionDesc& d) { d.cache.mapping = KeyMapping::kRing; }, {"ring_length", "0"}},
    {"UnknownMapping",
     [](AttentionDesc& d) { d.cache.mapping = static_cast<KeyMapping>(3); },
     {"cache.mapping", "3"}},
    {"NoPageSize", [](AttentionDesc& d) { paged(d).cache.page_size = 0; }, {"page_size", "0"}},
    {"NoPages", [](AttentionDesc& d) { paged(d).cache.page_count = 0; }, {"page_count", "0"}},
    {"ShortTable",
     [](AttentionDesc& d) { paged(d).cache.page_table_stride = 8; },
     {"kv_length is 70", "8 pages of 8", "64"}},
    {"NegativeTable",
     [](AttentionDesc& d) { paged(d).cache.page_table_stride = -1; },
     {"page_table_stride", "-1"}},
};

const Rule kStorageRules[] = {
    {"QuantisedQuery", [](AttentionDesc& d) { d.query.type = DataType::kQ8_0; }, {"query", "q8_0"}},
    {"QuantisedOutput", [](AttentionDesc& d) { d.output.type = DataType::kFloat8E4m3; }, {"output", "e4m3"}},
    {"HalfABlock",
     [](AttentionDesc& d) {
       d.head_dim = 48;
       d.set_layout(Layout::kBhsd);
       d.key.type = DataType::kQ4_0;
     },
     {"key", "q4_0", "blocks of 32", "48"}},
    {"RowsBetweenBlocks",
     [](AttentionDesc& d) {
       d.value.type = DataType::kQ8_0;
       d.value.strides->row = 40;
     },
     {"value", "q8_0", "row", "40"}},
    {"BlocksApart",
     [](AttentionDesc& d) {
       d.key.type = DataType::kQ8_0;
       d.key.strides->dim = 2;
     },
     {"key", "q8_0", "stride 1"}},
    {"AlignmentBelowTheScale",
     [](AttentionDesc& d) {
       d.key.type = DataType::kQ8_0;
       d.key.alignment_bytes = 1;
     },
     {"alignment_bytes", "key", "1"}},
};

INSTANTIATE_TEST_SUITE_P(Scores, BrokenFeature, testing::ValuesIn(kScoreRules),
                         vkattn::tests::rule_name<AttentionDesc>);
INSTANTIATE_TEST_SUITE_P(Lengths, BrokenFeature, testing::ValuesIn(kLengthRules),
                         vkattn::tests::rule_name<AttentionDesc>);
INSTANTIATE_TEST_SUITE_P(Storage, BrokenFeature, testing::ValuesIn(kStorageRules),
                         vkattn::tests::rule_name<AttentionDesc>);

}  // namespace
