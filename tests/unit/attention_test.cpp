// The descriptor: layouts, extents, and every rule of validate().
#include <vkattn/attention.hpp>

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>
#include <string>
#include <vector>

#include "support/rule.hpp"

namespace {

using vkattn::Align;
using vkattn::AttentionDesc;
using vkattn::DataType;
using vkattn::kUnset;
using vkattn::Layout;
using vkattn::Lengths;
using vkattn::Strides;
using vkattn::TensorDesc;

constexpr std::int64_t kMaxInt64 = std::numeric_limits<std::int64_t>::max();

AttentionDesc valid_desc() {
  AttentionDesc desc;
  desc.batch = 2;
  desc.query_heads = 6;
  desc.kv_heads = 3;
  desc.query_length = 5;
  desc.kv_length = 7;
  desc.head_dim = 8;
  desc.value_dim = 4;
  return desc.resolved();
}

TEST(AttentionDesc, LayoutBhsd) {
  const AttentionDesc desc = valid_desc();
  EXPECT_EQ(desc.query.strides, (Strides{240, 40, 8, 1}));
  EXPECT_EQ(desc.key.strides, (Strides{168, 56, 8, 1}));
  EXPECT_EQ(desc.value.strides, (Strides{84, 28, 4, 1}));
  EXPECT_EQ(desc.output.strides, (Strides{120, 20, 4, 1}));
  EXPECT_EQ(desc.lse_strides, (Strides{30, 5, 1, 1}));
}

TEST(AttentionDesc, LayoutBshd) {
  AttentionDesc desc = valid_desc();
  desc.set_layout(Layout::kBshd);
  desc = desc.resolved();
  EXPECT_EQ(desc.query.strides, (Strides{240, 8, 48, 1}));
  EXPECT_EQ(desc.key.strides, (Strides{168, 8, 24, 1}));
  EXPECT_EQ(desc.value.strides, (Strides{84, 4, 12, 1}));
  EXPECT_EQ(desc.output.strides, (Strides{120, 4, 24, 1}));
  EXPECT_EQ(desc.lse_strides, (Strides{30, 5, 1, 1}));
}

TEST(AttentionDesc, LayoutPackedQkv) {
  AttentionDesc desc = valid_desc();
  desc.kv_length = 5;
  desc.value_dim = 8;
  desc.set_layout(Layout::kPackedQkv);
  desc = desc.resolved();
  const Strides packed{5 * 12 * 8, 8, 12 * 8, 1};
  EXPECT_EQ(desc.query.strides, packed);
  EXPECT_EQ(desc.key.strides, packed);
  EXPECT_EQ(desc.value.strides, packed);
  EXPECT_EQ(desc.output.strides, (Strides{240, 8, 48, 1}));
}

/// What is not given follows from what is, in whatever order it was set.
TEST(AttentionDesc, SizesThatAreNotGivenFollow) {
  AttentionDesc desc;
  desc.layout = Layout::kBshd;
  desc.query_heads = 6;
  desc.head_dim = 8;
  desc.kv_length = 7;
  desc.query_length = 5;
  EXPECT_TRUE(vkattn::validate(desc).ok()) << vkattn::validate(desc).error().message;
  const AttentionDesc full = desc.resolved();
  EXPECT_EQ(full.kv_heads, 6);
  EXPECT_EQ(full.value_dim, 8);
  EXPECT_EQ(full.query.strides, (Strides{240, 8, 48, 1}));
  EXPECT_EQ(full.value.strides, (Strides{336, 8, 48, 1}));
  EXPECT_EQ(key_extents(desc, 8), (vkattn::TensorExtents{1, 6, 7, 8}));
  EXPECT_EQ(full.resolved(), full);
  desc.key.strides = Strides{1, 2, 3, 4};
  EXPECT_EQ(desc.resolved().key.strides, (Strides{1, 2, 3, 4}));
  desc.set_layout(Layout::kBshd);
  EXPECT_EQ(desc.resolved(), full);
}

TEST(AttentionDesc, ScaleDefaultsToTheRootOfHeadDim) {
  AttentionDesc desc;
  desc.head_dim = 64;
  EXPECT_EQ(desc.effective_scale(), 0.125F);
  desc.head_dim = 80;
  EXPECT_EQ(desc.effective_scale(), static_cast<float>(1.0 / std::sqrt(80.0)));
  desc.scale = -3.0F;
  EXPECT_EQ(desc.effective_scale(), -3.0F);
}

TEST(TensorBytes, ReachesToTheEndOfTheLastElement) {
  TensorDesc tensor;
  tensor.strides = Strides{1000, 100, 10, 1};
  EXPECT_EQ(*vkattn::tensor_bytes(tensor, 1, 1, 1, 1), 4);
  EXPECT_EQ(*vkattn::tensor_bytes(tensor, 2, 3, 4, 5), 4 * (1000 + 200 + 30 + 4 + 1));
  tensor.type = DataType::kBfloat16;
  EXPECT_EQ(*vkattn::tensor_bytes(tensor, 2, 3, 4, 5), 2 * 1235);
  tensor.strides = Strides{};
  tensor.strides->dim = 0;
  EXPECT_EQ(*vkattn::tensor_bytes(tensor, 9, 9, 9, 9), 2);
}

TEST(TensorBytes, NoElementsAreNoBytes) {
  TensorDesc tensor;
  tensor.strides = Strides{1000, 100, 10, 1};
  EXPECT_EQ(*vkattn::tensor_bytes(tensor, 0, 3, 4, 5), 0);
  EXPECT_EQ(*vkattn::tensor_bytes(tensor, 2, 3, 0, 5), 0);
}

TEST(TensorBytes, Beyond32BitsAndUpTo63) {
  TensorDesc tensor;
  tensor.strides = Strides{0, std::int64_t{1} << 40, 1 << 20, 1};
  EXPECT_EQ(*vkattn::tensor_bytes(tensor, 1, 5, 1 << 20, 16),
            4 * ((std::int64_t{4} << 40) + ((std::int64_t{1} << 20) - 1) * (1 << 20) + 16));
  tensor.strides = Strides{kMaxInt64 / 2, 0, 0, 1};
  EXPECT_FALSE(vkattn::tensor_bytes(tensor, 2, 1, 1, 1).ok());  // elements fit, bytes do not
  EXPECT_FALSE(vkattn::tensor_bytes(tensor, 4, 1, 1, 1).ok());
  tensor.strides = Strides{kMaxInt64, kMaxInt64, 0, 1};
  EXPECT_FALSE(vkattn::tensor_bytes(tensor, 2, 2, 1, 1).ok());
  tensor.type = DataType::kFloat16;
  tensor.strides = Strides{kMaxInt64 / 2 - 1, 0, 0, 1};
  EXPECT_EQ(*vkattn::tensor_bytes(tensor, 2, 1, 1, 1), kMaxInt64 - 1);
}

TEST(TensorBytes, RefusesNegativeNumbers) {
  TensorDesc tensor;
  EXPECT_FALSE(vkattn::tensor_bytes(tensor, 1, 1, 1, 1).ok()) << "no strides";
  tensor.strides = Strides{};
  EXPECT_FALSE(vkattn::tensor_bytes(tensor, -1, 1, 1, 1).ok());
  tensor.strides->row = -8;
  EXPECT_FALSE(vkattn::tensor_bytes(tensor, 1, 1, 1, 1).ok());
}

TEST(Validate, AcceptsWhatIsValid) {
  EXPECT_TRUE(vkattn::validate(valid_desc()).ok());
  for (const Layout layout : {Layout::kBhsd, Layout::kBshd, Layout::kPackedQkv}) {
    AttentionDesc desc = valid_desc();
    desc.has_lse = true;
    desc.causal = true;
    desc.align = Align::kOffset;
    desc.offset = -(std::int64_t{1} << 30);
    desc.scale = -2.358e38F;
    desc.query.alignment_bytes = 16;
    desc.set_layout(layout);
    EXPECT_TRUE(vkattn::validate(desc).ok());
  }
}

TEST(Validate, AcceptsEmptyProblems) {
  for (std::int64_t AttentionDesc::*size : {&AttentionDesc::batch, &AttentionDesc::query_heads,
                                            &AttentionDesc::query_length, &AttentionDesc::kv_length}) {
    AttentionDesc desc = valid_desc();
    desc.*size = 0;
    desc.has_lse = true;
    desc.set_layout(Layout::kBhsd);
    const vkattn::Status status = vkattn::validate(desc);
    EXPECT_TRUE(status.ok()) << status.error().message;
    EXPECT_EQ(desc.is_empty(), size != &AttentionDesc::kv_length);
  }
  AttentionDesc desc = valid_desc();
  desc.query_heads = 0;
  desc.kv_heads = 0;
  desc.set_layout(Layout::kBshd);
  EXPECT_TRUE(vkattn::validate(desc).ok());
  AttentionDesc packed = valid_desc();
  packed.query_lengths = packed.kv_lengths = Lengths::kPacked;
  packed.total_query_length = 0;
  packed.total_kv_length = 5;
  packed.set_layout(Layout::kBshd);
  EXPECT_TRUE(vkattn::validate(packed).ok());
  EXPECT_TRUE(packed.is_empty());
  packed.total_query_length = 1;
  EXPECT_FALSE(packed.is_empty());
}

TEST(Validate, InputsMayRepeatAndOverlap) {
  AttentionDesc desc = valid_desc();
  desc.key.strides->batch = 0;
  desc.value.strides->head = 0;
  desc.query.strides->row = 1;
  EXPECT_TRUE(vkattn::validate(desc).ok());
}

TEST(Validate, StridesOfDimensionsWithOneElementDoNotMatter) {
  AttentionDesc desc = valid_desc();
  desc.batch = 1;
  desc.output.strides->batch = 0;
  EXPECT_TRUE(vkattn::validate(desc).ok());
  desc.output.strides->batch = kMaxInt64;
  EXPECT_TRUE(vkattn::validate(desc).ok());
}

/// A way to break a valid descriptor, and what the error must speak of.
using Rule = vkattn::tests::Rule<AttentionDesc>;

class BrokenRule : public testing::TestWithParam<Rule> {};

TEST_P(BrokenRule, IsNamedWithItsNumbers) {
  expect_refused_by_name(GetParam(), valid_desc());
}

constexpr std::int64_t kTwo30 = std::int64_t{1} << 30;

const Rule kSizeRules[] = {
    {"NegativeBatch", [](AttentionDesc& d) { d.batch = -1; }, {"batch", "-1"}},
    {"HugeBatch", [](AttentionDesc& d) { d.batch = 2 * kTwo30; }, {"batch", "2147483648", "2147483647"}},
    {"NegativeHeads", [](AttentionDesc& d) { d.query_heads = -6; }, {"query_heads", "-6"}},
    {"NegativeKvHeads", [](AttentionDesc& d) { d.kv_heads = -3; }, {"kv_heads", "-3"}},
    {"ManyHeads",
     [](AttentionDesc& d) {
       d.batch = 1 << 20;
       d.query_heads = 3 << 10;
     },
     {"batch", "query_heads", "3221225472"}},
    {"NegativeQueryLength", [](AttentionDesc& d) { d.query_length = -5; }, {"query_length", "-5"}},
    {"HugeQueryLength",
     [](AttentionDesc& d) { d.query_length = kTwo30 + 1; },
     {"query_length", "1073741825"}},
    {"NegativeKvLength", [](AttentionDesc& d) { d.kv_length = -7; }, {"kv_length", "-7"}},
    {"HugeKvLength", [](AttentionDesc& d) { d.kv_length = kMaxInt64; }, {"kv_length", "9223372036854775807"}},
    {"NoQueryLength", [](AttentionDesc& d) { d.query_length = kUnset; }, {"query_length is not set"}},
    {"NoKvLength", [](AttentionDesc& d) { d.kv_length = kUnset; }, {"kv_length is not set"}},
    {"NoHeadDim", [](AttentionDesc& d) { d.head_dim = kUnset; }, {"head_dim is not set"}},
    {"UnknownLayout", [](AttentionDesc& d) { d.layout = static_cast<Layout>(3); }, {"layout", "3"}},
    {"ZeroHeadDim", [](AttentionDesc& d) { d.head_dim = 0; }, {"head_dim", "0", "576"}},
    {"WideHeadDim", [](AttentionDesc& d) { d.head_dim = 577; }, {"head_dim", "577", "576"}},
    {"ZeroValueDim", [](AttentionDesc& d) { d.value_dim = 0; }, {"value_dim", "0"}},
    {"WideValueDim", [](AttentionDesc& d) { d.value_dim = 1024; }, {"value_dim", "1024"}},
    {"HeadsNoMultiple", [](AttentionDesc& d) { d.kv_heads = 4; }, {"query_heads", "6", "kv_heads", "4"}},
    {"MoreKvHeads", [](AttentionDesc& d) { d.kv_heads = 12; }, {"query_heads", "6", "kv_heads", "12"}},
    {"NoKvHeads", [](AttentionDesc& d) { d.kv_heads = 0; }, {"kv_heads is 0", "6"}},
    {"ScaleBeyondLog2Units",
     [](AttentionDesc& d) { d.scale = 2.36e38F; },
     {"scale", "2.36e+38", "2.358e+38"}},
    {"ScaleBeyondLog2UnitsBelowZero",
     [](AttentionDesc& d) { d.scale = -3e38F; },
     {"scale", "-3e+38", "2.358e+38"}},
    {"InfiniteScale",
     [](AttentionDesc& d) { d.scale = std::numeric_limits<float>::infinity(); },
     {"scale", "inf"}},
    {"NanScale",
     [](AttentionDesc& d) { d.scale = std::numeric_limits<float>::quiet_NaN(); },
     {"scale", "nan"}},
    {"HugeOffset", [](AttentionDesc& d) { d.offset = kTwo30 + 1; }, {"offset", "1073741825"}},
    {"LowOffset", [](AttentionDesc& d) { d.offset = -kTwo30 - 1; }, {"offset", "-1073741825"}},
    {"UnknownAlign", [](AttentionDesc& d) { d.align = static_cast<Align>(9); }, {"align", "9"}},
};

const Rule kTensorRules[] = {
    {"UnknownType", [](AttentionDesc& d) { d.value.type = static_cast<DataType>(7); }, {"value", "7"}},
    {"OddAlignment", [](AttentionDesc& d) { d.key.alignment_bytes = 12; }, {"alignment_bytes", "key", "12"}},
    {"SmallAlignment", [](AttentionDesc& d) { d.query.alignment_bytes = 2; }, {"query", "2", "4"}},
    {"NegativeQueryStride", [](AttentionDesc& d) { d.query.strides->row = -8; }, {"query", "row", "-8"}},
    {"NegativeKeyStride", [](AttentionDesc& d) { d.key.strides->batch = -1; }, {"key", "batch", "-1"}},
    {"NegativeValueStride", [](AttentionDesc& d) { d.value.strides->dim = -1; }, {"value", "dim", "-1"}},
    {"NegativeOutputStride",
     [](AttentionDesc& d) { d.output.strides->head = -20; },
     {"output", "head", "-20"}},
    {"TooLargeForCounting", [](AttentionDesc& d) { d.key.strides->batch = kMaxInt64; }, {"key", "63 bits"}},
    {"BytesTooLarge", [](AttentionDesc& d) { d.key.strides->batch = kMaxInt64 / 4; }, {"key", "63 bits"}},
    {"OutputRepeats",
     [](AttentionDesc& d) { d.output.strides->batch = 0; },
     {"output", "overlap", "batch", "0"}},
    {"OutputRowsOverlap", [](AttentionDesc& d) { d.output.strides->row = 3; }, {"output", "row", "3"}},
    {"OutputHeadsOverlap", [](AttentionDesc& d) { d.output.strides->head = 19; }, {"output", "head", "19"}},
    {"OutputDimsRepeat", [](AttentionDesc& d) { d.output.strides->dim = 0; }, {"output", "dim", "0"}},
    {"LseOverlaps",
     [](AttentionDesc& d) {
       d.has_lse = true;
       d.lse_strides->head = 4;
     },
     {"lse", "head", "4"}},
    {"LseNegative",
     [](AttentionDesc& d) {
       d.has_lse = true;
       d.lse_strides->row = -1;
     },
     {"lse", "row", "-1"}},
};

INSTANTIATE_TEST_SUITE_P(Sizes, BrokenRule, testing::ValuesIn(kSizeRules),
                         vkattn::tests::rule_name<AttentionDesc>);
INSTANTIATE_TEST_SUITE_P(Tensors, BrokenRule, testing::ValuesIn(kTensorRules),
                         vkattn::tests::rule_name<AttentionDesc>);

TEST(Validate, LseStridesCountOnlyWhereLseIsWritten) {
  AttentionDesc desc = valid_desc();
  desc.lse_strides = Strides{0, 0, -1, -1};
  EXPECT_TRUE(vkattn::validate(desc).ok());
  desc.has_lse = true;
  desc.lse_strides = Strides{30, 5, 1, -9};
  EXPECT_TRUE(vkattn::validate(desc).ok()) << "lse has no dim";
}

TEST(Validate, LayoutsOfSizesThatOverflowAreRefused) {
  AttentionDesc desc = valid_desc();
  desc.query_length = kTwo30;
  desc.query_heads = 3 << 20;
  desc.batch = 512;
  desc.head_dim = 576;
  for (const Layout layout : {Layout::kBhsd, Layout::kBshd, Layout::kPackedQkv}) {
    desc.set_layout(layout);
    const vkattn::Status status = vkattn::validate(desc);
    ASSERT_FALSE(status.ok());
    EXPECT_NE(status.error().message.find("63 bits"), std::string::npos) << status.error().message;
  }
}

}  // namespace
