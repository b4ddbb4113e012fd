// The descriptor: layouts, extents, bytes, slopes, and every rule of validate().
#include <vkattn/attention.hpp>

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>
#include <string>
#include <type_traits>

#include "common/message.hpp"
#include "support/must.hpp"
#include "support/problem_text.hpp"
#include "support/rule.hpp"
#include "support/special_numbers.hpp"

namespace vkattn::tests {
namespace {

using detail::message;

constexpr std::int64_t kMaxInt64 = std::numeric_limits<std::int64_t>::max();

AttentionDesc valid_desc() {
  return desc_of("b2 hq6 hkv3 5x70 d64 dv32");
}

template <class Member>
std::function<void(AttentionDesc&)> with(Member AttentionDesc::*member,
                                         const std::type_identity_t<Member>& value) {
  return [=](AttentionDesc& desc) { desc.*member = value; };
}

std::string text_of(const TensorExtents& e) {
  return message(e.batch, " ", e.heads, " ", e.rows);
}
/// Batch, heads and rows of queries and keys, and the strides of Q, K, V and O.
TEST(AttentionDesc, ExtentsAndLayouts) {
  struct Case {
    std::string words;
    const char *extents, *strides;
  };
  const std::string packed = "sequences query_lengths=5,3 kv_lengths=7,2";
  const std::string queries = "sequences=queries query_lengths=5,3";
  for (const Case& one : {
           Case{"", "2 6 5, 2 3 7", "240 40 8 1, 168 56 8 1, 84 28 4 1, 120 20 4 1"},
           Case{"layout=bshd", "2 6 5, 2 3 7", "240 8 48 1, 168 8 24 1, 84 4 12 1, 120 4 24 1"},
           Case{packed, "1 6 8, 1 3 9", "384 64 8 1, 216 72 8 1, 108 36 4 1, 192 32 4 1"},
           Case{queries, "1 6 8, 2 3 7", "384 64 8 1, 168 56 8 1, 84 28 4 1, 192 32 4 1"},
           Case{"ring=4", "2 6 5, 2 3 4", "240 40 8 1, 96 32 8 1, 48 16 4 1, 120 20 4 1"},
           Case{"page=2 layout=bshd", "2 6 5, 11 3 2", "240 8 48 1, 48 8 24 1, 24 4 12 1, 120 4 24 1"},
           Case{queries + " ring=4 layout=bshd", "1 6 8, 2 3 4",
                "384 8 48 1, 96 8 24 1, 48 4 12 1, 192 4 24 1"},
       }) {
    const AttentionDesc desc = desc_of("b2 hq6 hkv3 5x7 d8 dv4 " + one.words);
    EXPECT_EQ(message(text_of(query_extents(desc, 8)), ", ", text_of(key_extents(desc, 8))), one.extents);
    EXPECT_EQ(strides_text({desc.query, desc.key, desc.value, desc.output}), one.strides) << one.words;
    EXPECT_EQ(score_extents(desc), (TensorExtents{2, 6, 5, 7}));
    EXPECT_EQ(desc.weights_strides, (Strides{210, 35, 7, 1}));
    const std::int64_t rows = query_extents(desc, 1).rows;
    EXPECT_EQ(desc.lse_strides, (Strides{6 * rows, rows, 1, 1})) << one.words;
  }
  const AttentionDesc one_tensor = desc_of("b2 hq6 hkv3 5x5 d8 layout=packed");
  EXPECT_EQ(strides_text({one_tensor.query, one_tensor.key, one_tensor.value, one_tensor.output}),
            "480 8 96 1, 480 8 96 1, 480 8 96 1, 240 8 48 1");
}

/// Sizes that are not given follow from those that are, in whatever order these were set.
TEST(AttentionDesc, SizesThatAreNotGivenFollow) {
  AttentionDesc desc;
  desc.layout = Layout::kBshd;
  desc.query_heads = 6;
  desc.head_dim = 8;
  desc.kv_length = 7;
  desc.query_length = 5;
  EXPECT_TRUE(validate(desc).ok()) << validate(desc).error().message;
  const AttentionDesc full = desc.resolved();
  EXPECT_EQ(full.kv_heads, 6);
  EXPECT_EQ(full.value_dim, 8);
  EXPECT_EQ(strides_text({full.query, full.value}), "240 8 48 1, 336 8 48 1");
  EXPECT_EQ(key_extents(desc, 8), (TensorExtents{1, 6, 7, 8}));
  EXPECT_EQ(full.resolved(), full);
  desc.key.strides = Strides{1, 2, 3, 4};
  EXPECT_EQ(desc.resolved().key.strides, (Strides{1, 2, 3, 4}));
  desc.set_layout(Layout::kBshd);
  EXPECT_EQ(desc.resolved(), full);
}

TEST(AttentionDesc, ScaleDefaultsToTheRootOfHeadDim) {
  EXPECT_EQ(desc_of("1x1 d64").effective_scale(), 0.125F);
  EXPECT_EQ(desc_of("1x1 d80").effective_scale(), static_cast<float>(1.0 / std::sqrt(80.0)));
  EXPECT_EQ(desc_of("1x1 d80 scale=-3").effective_scale(), -3.0F);
}

/// For a power of two of heads. For other numbers of heads the rule of the paper's authors: the slopes of 8
/// heads, then every second slope of 16 heads.
TEST(AlibiSlopes, AreThoseOfThePaper) {
  for (std::int64_t h = 0; h < 8; ++h) {
    EXPECT_EQ(standard_alibi_slope(h, 8), std::ldexp(1.0F, static_cast<int>(-h - 1)));
    EXPECT_EQ(standard_alibi_slope(h, 12), standard_alibi_slope(h, 8));
  }
  for (std::int64_t h = 8; h < 12; ++h) {
    EXPECT_FLOAT_EQ(standard_alibi_slope(h, 12), 0.70710678F * std::ldexp(1.0F, static_cast<int>(8 - h)));
  }
  EXPECT_EQ(standard_alibi_slope(0, 1), 0x1p-8F);
  EXPECT_EQ(standard_alibi_slope(0, 2), 0x1p-4F);
  EXPECT_FLOAT_EQ(standard_alibi_slope(0, 16), 0.70710678F);
}

TEST(TensorBytes, ReachToTheEndOfTheLastElement) {
  const auto bytes = [](DataType type, const Strides& strides, const TensorExtents& e) {
    const auto result = tensor_bytes({type, strides}, e.batch, e.heads, e.rows, e.dims);
    return result ? *result : -1;
  };
  using enum DataType;
  EXPECT_EQ(bytes(kFloat32, {1000, 100, 10, 1}, {1, 1, 1, 1}), 4);
  EXPECT_EQ(bytes(kFloat32, {1000, 100, 10, 1}, {2, 3, 4, 5}), 4 * (1000 + 200 + 30 + 4 + 1));
  EXPECT_EQ(bytes(kBfloat16, {1000, 100, 10, 1}, {2, 3, 4, 5}), 2 * 1235);
  EXPECT_EQ(bytes(kBfloat16, {0, 0, 0, 0}, {9, 9, 9, 9}), 2);
  EXPECT_EQ(bytes(kFloat32, {1000, 100, 10, 1}, {0, 3, 4, 5}), 0);
  EXPECT_EQ(bytes(kFloat32, {1000, 100, 10, 1}, {2, 3, 0, 5}), 0);
  EXPECT_EQ(bytes(kQ8_0, {13440, 4480, 64, 1}, {2, 3, 70, 64}), 2 * 3 * 70 * 2 * 34);
  EXPECT_EQ(bytes(kQ4_0, {6720, 2240, 32, 1}, {2, 3, 70, 32}), 2 * 3 * 70 * 18);
  EXPECT_EQ(bytes(kQ8_0, {20160, 6720, 96, 1}, {2, 3, 70, 64}), (2 * 3 * 70 * 3 - 1) * 34) << "a free block";
  // More than 32 bits, up to 63 bits.
  EXPECT_EQ(bytes(kFloat32, {0, std::int64_t{1} << 40, 1 << 20, 1}, {1, 5, 1 << 20, 16}),
            4 * ((std::int64_t{4} << 40) + ((std::int64_t{1} << 20) - 1) * (1 << 20) + 16));
  EXPECT_EQ(bytes(kFloat16, {kMaxInt64 / 2 - 1, 0, 0, 1}, {2, 1, 1, 1}), kMaxInt64 - 1);
  EXPECT_EQ(bytes(kFloat32, {kMaxInt64 / 2, 0, 0, 1}, {2, 1, 1, 1}), -1) << "elements fit, bytes do not";
  EXPECT_EQ(bytes(kFloat32, {kMaxInt64 / 2, 0, 0, 1}, {4, 1, 1, 1}), -1);
  EXPECT_EQ(bytes(kFloat32, {kMaxInt64, kMaxInt64, 0, 1}, {2, 2, 1, 1}), -1);
  EXPECT_EQ(bytes(kFloat32, {}, {-1, 1, 1, 1}), -1);
  EXPECT_EQ(bytes(kFloat32, {0, 0, -8, 1}, {1, 1, 1, 1}), -1);
  EXPECT_FALSE(tensor_bytes({}, 1, 1, 1, 1).ok()) << "no strides";
}

TEST(MaskBytes, ReachToTheLastElement) {
  AttentionDesc desc = valid_desc();
  const auto bytes = [&](MaskType type, std::optional<Strides> strides) {
    desc.mask = {type, strides};
    EXPECT_TRUE(validate(desc).ok());
    return *mask_bytes(desc);
  };
  EXPECT_EQ(bytes(MaskType::kFloat32, {}), 2 * 6 * 5 * 70 * 4);
  EXPECT_EQ(bytes(MaskType::kFloat16, {}), 2 * 6 * 5 * 70 * 2);
  EXPECT_EQ(bytes(MaskType::kBytes, {}), 2 * 6 * 5 * 70);
  EXPECT_EQ(bytes(MaskType::kBytes, Strides{0, 0, 0, 1}), 70);
  EXPECT_EQ(bytes(MaskType::kBits, Strides{0, 0, 0, 1}), 3 * 4);
  EXPECT_EQ(bytes(MaskType::kBits, Strides{0, 160, 32, 0}), 6 * 5 * 4)
      << "one bit a row, in a word of its own";
  EXPECT_EQ(bytes(MaskType::kBits, {}), 2 * 6 * 5 * 3 * 4);
  EXPECT_EQ(desc.resolved().mask.strides, (Strides{6 * 5 * 96, 5 * 96, 96, 1})) << "whole words";
}

TEST(Validate, TakesWhatIsValid) {
  const std::function<void(AttentionDesc&)> changes[] = {
      [](auto& d) { d.offset = -kTwo30; },
      [](auto& d) { d.scale = -2.358e38F; },
      [](auto& d) { d.key.strides->batch = d.value.strides->head = 0; },  // inputs may repeat and overlap
      [](auto& d) { d.query.strides->row = 1; },
      // Strides that are not used.
      [](auto& d) { d.batch = 1, d.output.strides->batch = 0; },
      [](auto& d) { d.batch = 1, d.output.strides->batch = kMaxInt64; },
      with(&AttentionDesc::lse_strides, Strides{0, 0, -1, -1}),
      [](auto& d) { d.has_lse = true, d.lse_strides->dim = -9; },
  };
  for (const auto& change : changes) {
    AttentionDesc desc = valid_desc();
    change(desc);
    EXPECT_TRUE(validate(desc).ok()) << validate(desc).error().message;
  }
}

TEST(Validate, TakesEmptyProblems) {
  for (const char* problem : {"b0 hq6 hkv3 5x7 d8", "hq0 hkv3 5x7 d8", "hq0 hkv0 5x7 d8 layout=bshd",
                              "0x7 d8", "b2 5x7 d8 sequences query_lengths=0,0 kv_lengths=5,0",
                              "b2 5x7 d8 sequences=queries query_lengths=0,0"}) {
    EXPECT_TRUE(desc_of(std::string(problem) + " lse").is_empty()) << problem;
  }
  EXPECT_FALSE(desc_of("5x0 d8 lse").is_empty());
  EXPECT_FALSE(desc_of("b2 5x7 d8 sequences query_lengths=0,1 kv_lengths=5,0").is_empty());
}

TEST(Validate, RefusesSizesByName) {
  expect_refused_by_name<AttentionDesc>(
      valid_desc(),
      {{"batch -1", [](auto& d) { d.batch = -1; }},
       {"batch 2147483648 2147483647", [](auto& d) { d.batch = 2 * kTwo30; }},
       {"query_heads -6", [](auto& d) { d.query_heads = -6; }},
       {"kv_heads -3", [](auto& d) { d.kv_heads = -3; }},
       {"batch query_heads 3221225472", [](auto& d) { d.batch = 1 << 20, d.query_heads = 3 << 10; }},
       {"query_length -5", [](auto& d) { d.query_length = -5; }},
       {"query_length 1073741825", [](auto& d) { d.query_length = kTwo30 + 1; }},
       {"kv_length -7", [](auto& d) { d.kv_length = -7; }},
       {"kv_length 9223372036854775807", [](auto& d) { d.kv_length = kMaxInt64; }},
       {"query_length not set", [](auto& d) { d.query_length = kUnset; }},
       {"kv_length not set", [](auto& d) { d.kv_length = kUnset; }},
       {"head_dim not set", [](auto& d) { d.head_dim = kUnset; }},
       {"head_dim 0 576", [](auto& d) { d.head_dim = 0; }},
       {"head_dim 577 576", [](auto& d) { d.head_dim = 577; }},
       {"value_dim 0", [](auto& d) { d.value_dim = 0; }},
       {"value_dim 1024", [](auto& d) { d.value_dim = 1024; }},
       {"query_heads 6 multiple kv_heads 4", [](auto& d) { d.kv_heads = 4; }},
       {"query_heads 6 multiple kv_heads 12", [](auto& d) { d.kv_heads = 12; }},
       {"kv_heads 0 6", [](auto& d) { d.kv_heads = 0; }},
       {"scale 2.36e+38 2.358e+38", [](auto& d) { d.scale = 2.36e38F; }},
       {"scale -3e+38 2.358e+38", [](auto& d) { d.scale = -3e38F; }},
       {"scale inf", [](auto& d) { d.scale = kInfinity; }},
       {"offset 1073741825", [](auto& d) { d.offset = kTwo30 + 1; }},
       {"offset -1073741825", [](auto& d) { d.offset = -kTwo30 - 1; }},
       {"softcap -1", [](auto& d) { d.softcap = -1; }},
       {"softcap nan", [](auto& d) { d.softcap = kNan; }},
       {"softcap 1e-30", [](auto& d) { d.softcap = 1e-35F; }},
       {"dropout 1.5", [](auto& d) { d.dropout = 1.5F; }},
       {"dropout -0.5", [](auto& d) { d.dropout = -0.5F; }},
       {"dropout nan", [](auto& d) { d.dropout = kNan; }},
       {"window.left -2 -1", [](auto& d) { d.window.left = -2; }},
       {"window.right -3 -1", [](auto& d) { d.window.right = -3; }}});
  AttentionDesc no_number = valid_desc();
  no_number.scale = kNan;
  EXPECT_TRUE(has(message_of(validate(no_number)), "scale is nan")) << "which C reads as not given";
}

TEST(Validate, DropoutMayKeepAllOrNothing) {
  for (const float dropout : {0.0F, 1.0F}) {
    AttentionDesc desc = valid_desc();
    desc.dropout = dropout;
    EXPECT_TRUE(validate(desc).ok()) << dropout;
  }
}

TEST(Validate, ASideBeyondAllKeysIsUnlimited) {
  AttentionDesc desc = valid_desc();
  desc.window = {kMaxInt64, INT32_MAX};
  EXPECT_TRUE(validate(desc).ok());
  EXPECT_EQ(desc.resolved().window, SlidingWindow{});
  desc.window = {INT32_MAX - 1, 0};
  EXPECT_TRUE(validate(desc).ok());
  EXPECT_EQ(desc.resolved().window, desc.window);
}

TEST(Validate, RefusesUnknownNumbersOfEnumerations) {
  expect_refused_by_name<AttentionDesc>(
      valid_desc(), {{"layout 3", [](auto& d) { d.layout = static_cast<Layout>(3); }},
                     {"align 9", [](auto& d) { d.align = static_cast<Align>(9); }},
                     {"alibi 4", [](auto& d) { d.alibi = static_cast<Alibi>(4); }},
                     {"weights 5", [](auto& d) { d.weights = static_cast<WeightsStage>(5); }},
                     {"mask.type 5", [](auto& d) { d.mask.type = static_cast<MaskType>(5); }},
                     {"query_lengths 3", [](auto& d) { d.query_lengths = static_cast<Lengths>(3); }},
                     {"kv_lengths 4", [](auto& d) { d.kv_lengths = static_cast<Lengths>(4); }},
                     {"cache.mapping 3", [](auto& d) { d.cache.mapping = static_cast<KeyMapping>(3); }},
                     {"value 7", [](auto& d) { d.value.type = static_cast<DataType>(7); }}});
}

TEST(Validate, RefusesMasksByName) {
  AttentionDesc desc = valid_desc();
  desc.mask.type = MaskType::kFloat16;
  expect_refused_by_name<AttentionDesc>(desc,
                                        {{"mask.heads 4 query_heads 6", [](auto& d) { d.mask.heads = 4; }},
                                         {"mask.heads 12", [](auto& d) { d.mask.heads = 12; }},
                                         {"mask.heads 0", [](auto& d) { d.mask.heads = 0; }},
                                         {"mask.heads -2", [](auto& d) { d.mask.heads = -2; }},
                                         {"kTimesMask boolean",
                                          [](auto& d) {
                                            d.alibi = Alibi::kTimesMask;
                                            d.mask.type = MaskType::kBytes;
                                          }},
                                         {"kTimesMask not there", [](auto& d) {
                                            d.alibi = Alibi::kTimesMask;
                                            d.mask.type = MaskType::kNone;
                                          }}});
}

TEST(AttentionDesc, HeadsOfAMaskAreGivenWhereTheyRepeat) {
  AttentionDesc desc = valid_desc();
  desc.mask = {MaskType::kFloat32};
  for (const std::int64_t heads : {std::int64_t{6}, kUnset}) {
    desc.mask.heads = heads;
    EXPECT_EQ(desc.resolved().mask.heads, kUnset);
    EXPECT_EQ(mask_extents(desc), score_extents(desc));
  }
  desc.mask.heads = 1;
  EXPECT_EQ(desc.resolved().mask.heads, kUnset);
  EXPECT_EQ(desc.resolved().mask.strides, (Strides{5 * 70, 0, 70, 1})) << "one head for all";
  desc.mask.heads = 3;
  EXPECT_EQ(desc.resolved().mask.strides, (Strides{3 * 5 * 70, 5 * 70, 70, 1}));
  EXPECT_EQ(mask_extents(desc), (TensorExtents{2, 3, 5, 70}));
  EXPECT_EQ(desc.resolved().resolved(), desc.resolved());
  EXPECT_EQ(*mask_bytes(desc), 2 * 3 * 5 * 70 * 4);
  desc.query_heads = desc.kv_heads = 0;
  desc.mask.heads = kUnset;
  EXPECT_TRUE(validate(desc).ok());
}

TEST(Validate, RefusesTensorsByName) {
  expect_refused_by_name<AttentionDesc>(
      valid_desc(),
      {{"alignment_bytes key 12", [](auto& d) { d.key.alignment_bytes = 12; }},
       {"query 2 4", [](auto& d) { d.query.alignment_bytes = 2; }},
       {"query row -8", [](auto& d) { d.query.strides->row = -8; }},
       {"key batch -1", [](auto& d) { d.key.strides->batch = -1; }},
       {"value dim -1", [](auto& d) { d.value.strides->dim = -1; }},
       {"output head -20", [](auto& d) { d.output.strides->head = -20; }},
       {"key 63 bits", [](auto& d) { d.key.strides->batch = kMaxInt64; }},
       {"key 63 bits", [](auto& d) { d.key.strides->batch = kMaxInt64 / 4; }},
       {"output overlap batch 0", [](auto& d) { d.output.strides->batch = 0; }},
       {"output row 31", [](auto& d) { d.output.strides->row = 31; }},
       {"output head 159", [](auto& d) { d.output.strides->head = 159; }},
       {"output dim 0", [](auto& d) { d.output.strides->dim = 0; }},
       {"lse head 4", [](auto& d) { d.has_lse = true, d.lse_strides->head = 4; }},
       {"lse row -1", [](auto& d) { d.has_lse = true, d.lse_strides->row = -1; }},
       {"weights row 69", [](auto& d) { d.weights = WeightsStage::kScores, d.weights_strides->row = 69; }},
       {"mask row -70", with(&AttentionDesc::mask, {MaskType::kFloat16, Strides{0, 0, -70, 1}})},
       {"mask 70 32", with(&AttentionDesc::mask, {MaskType::kBits, Strides{0, 0, 70, 1}})},
       {"mask 2 last 1", with(&AttentionDesc::mask, {MaskType::kBits, Strides{0, 0, 96, 2}})},
       {"query q8_0", [](auto& d) { d.query.type = DataType::kQ8_0; }},
       {"output e4m3", [](auto& d) { d.output.type = DataType::kFloat8E4m3; }},
       {"value q8_0 row 40", with(&AttentionDesc::value, {DataType::kQ8_0, Strides{6720, 2240, 40, 1}})},
       {"key q8_0 stride 1", with(&AttentionDesc::key, {DataType::kQ8_0, Strides{13440, 4480, 64, 2}})},
       {"key alignment_bytes 1",
        with(&AttentionDesc::key, {DataType::kQ8_0, desc_of("5x70 d64").key.strides, 1})}});
  expect_refused_by_name<AttentionDesc>(
      desc_of("b2 hq6 hkv3 5x70 d48"),
      {{"key q4_0 blocks 32 48", [](auto& d) { d.key.type = DataType::kQ4_0; }}});
  AttentionDesc large = valid_desc();
  for (const Layout layout : {Layout::kBhsd, Layout::kBshd, Layout::kPackedQkv}) {
    large.set_layout(layout);
    expect_refused_by_name<AttentionDesc>(large, {{"63 bits", [](auto& d) {
                                                     d.query_length = kTwo30;
                                                     d.query_heads = 3 << 20;
                                                     d.batch = 512;
                                                     d.head_dim = 576;
                                                   }}});
  }
}

TEST(Validate, RefusesLengthsAndCachesByName) {
  expect_refused_by_name<AttentionDesc>(
      valid_desc(),
      {{"kv_lengths kPacked query_lengths kUniform", [](auto& d) { d.kv_lengths = Lengths::kPacked; }},
       {"total_query_length not set", [](auto& d) { d.query_lengths = Lengths::kPacked; }},
       {"cache.ring_length 0", [](auto& d) { d.cache.mapping = KeyMapping::kRing; }}});
  expect_refused_by_name<AttentionDesc>(
      desc_of("b2 hq6 hkv3 5x70 d64 sequences query_lengths=5,3 kv_lengths=70,20"),
      {{"total_kv_length not set", [](auto& d) { d.total_kv_length = kUnset; }},
       {"total_query_length -1", [](auto& d) { d.total_query_length = -1; }},
       {"total_kv_length 2147483648", [](auto& d) { d.total_kv_length = 2 * kTwo30; }},
       {"kv_lengths kPacked kRing kPerEntry", with(&AttentionDesc::cache, {KeyMapping::kRing, 8})},
       {"kv_lengths kPacked kPaged", with(&AttentionDesc::cache, {KeyMapping::kPaged, 0, 8, 20, 9})}});
  expect_refused_by_name<AttentionDesc>(
      desc_of("b2 hq6 hkv3 5x70 d64 page=8 sequences=queries query_lengths=5,3"),
      {{"total_query_length -1", [](auto& d) { d.total_query_length = -1; }},
       {"page_size 0", [](auto& d) { d.cache.page_size = 0; }},
       {"page_count 0", [](auto& d) { d.cache.page_count = 0; }},
       {"kv_length 70 pages 8 64", [](auto& d) { d.cache.page_table_stride = 8; }},
       {"page_table_stride -1", [](auto& d) { d.cache.page_table_stride = -1; }}});
}

TEST(MergeDesc, RefusesByName) {
  expect_refused_by_name<MergeDesc>({3, 5, 2},
                                    {{"rows -1", [](auto& d) { d.rows = -1; }},
                                     {"parts 0", [](auto& d) { d.parts = 0; }},
                                     {"q8_0", [](auto& d) { d.part_type = DataType::kQ8_0; }},
                                     {"15 elements", [](auto& d) { d.output_type = DataType::kFloat16; }}});
}

}  // namespace
}  // namespace vkattn::tests
