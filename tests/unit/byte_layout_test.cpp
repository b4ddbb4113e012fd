// Whether two strided tensors share a byte, compared with a walk over all their bytes.
#include "common/byte_layout.hpp"

#include <gtest/gtest.h>

#include <random>
#include <set>
#include <string>

#include "attention/tensor_rules.hpp"

namespace vkattn {
namespace {

using detail::ByteLayout;
using Sizes = std::array<std::uint64_t, ByteLayout::kMostDimensions>;

std::set<std::uint64_t> bytes_of(std::uint64_t element_bytes, const Sizes& places, const Sizes& strides) {
  std::set<std::uint64_t> all;
  for (std::uint64_t a = 0; a < places[0]; ++a) {
    for (std::uint64_t b = 0; b < places[1]; ++b) {
      for (std::uint64_t c = 0; c < places[2]; ++c) {
        for (std::uint64_t d = 0; d < places[3]; ++d) {
          const std::uint64_t first = a * strides[0] + b * strides[1] + c * strides[2] + d * strides[3];
          for (std::uint64_t byte = 0; byte < element_bytes; ++byte) all.insert(first + byte);
        }
      }
    }
  }
  return all;
}

TEST(ByteLayout, MeetsWhereAByteIsInBoth) {
  std::mt19937 random(7);
  const auto draw = [&](std::uint64_t most) { return random() % (most + 1); };
  int met = 0, between = 0;
  for (int i = 0; i < 3000; ++i) {
    struct Tensor {
      std::uint64_t element_bytes = 0, first = 0;
      Sizes places{}, strides{};
    };
    std::array<Tensor, 2> both;
    for (Tensor& tensor : both) {
      tensor.element_bytes = 1 + draw(3);
      for (std::uint64_t& count : tensor.places) count = 1 + draw(3);
      for (std::uint64_t& stride : tensor.strides) stride = draw(2) == 0 ? draw(12) : draw(40);
      tensor.first = draw(60);
    }
    const auto& [a, b] = both;
    const ByteLayout x(a.element_bytes, a.places, a.strides), y(b.element_bytes, b.places, b.strides);
    const std::set<std::uint64_t> in_x = bytes_of(a.element_bytes, a.places, a.strides);
    bool expected = false;
    for (const std::uint64_t byte : bytes_of(b.element_bytes, b.places, b.strides)) {
      expected = expected || (b.first + byte >= a.first && in_x.contains(b.first + byte - a.first));
    }
    EXPECT_EQ(x.span_bytes(), *in_x.rbegin() + 1);
    EXPECT_EQ(meet(x, a.first, y, b.first), expected) << i;
    EXPECT_EQ(meet(y, b.first, x, a.first), expected) << i;
    const bool spans_meet = a.first < b.first + y.span_bytes() && b.first < a.first + x.span_bytes();
    met += expected ? 1 : 0;
    between += spans_meet && !expected ? 1 : 0;
  }
  EXPECT_GT(met, 500);
  EXPECT_GT(between, 20) << "tensors that lie between one another";
}

TEST(ByteLayout, HeadsOfOneTensorDoNotMeet) {
  // 1000 rows of 12 heads of 64 float16. Each head is a tensor of its own.
  const TensorDesc head{DataType::kFloat16, Strides{1000 * 12 * 64, 64, 12 * 64, 1}, 0};
  const ByteLayout layout = detail::byte_layout(head, {8, 1, 1000, 64});
  EXPECT_EQ(layout.run_bytes(), 128U);
  EXPECT_FALSE(layout.is_one_run());
  for (std::uint64_t other = 1; other < 12; ++other) EXPECT_FALSE(meet(layout, 0, layout, other * 128));
  EXPECT_TRUE(meet(layout, 0, layout, 127));
  EXPECT_TRUE(meet(layout, 0, layout, 12 * 128));
  EXPECT_FALSE(meet(layout, 0, layout, 8 * 1000 * 12 * 128)) << "behind it";
  const ByteLayout all = detail::byte_layout({DataType::kFloat16, Strides{1000 * 12 * 64, 64, 12 * 64, 1}, 0},
                                             {8, 12, 1000, 64});
  EXPECT_TRUE(all.is_one_run());
  EXPECT_EQ(all.span_bytes(), 8U * 1000 * 12 * 128);
  EXPECT_TRUE(meet(all, 0, layout, 5 * 128));
}

TEST(ByteLayout, BlocksAndNothing) {
  const ByteLayout blocks = detail::byte_layout({DataType::kQ8_0, Strides{0, 0, 128, 1}, 0}, {1, 1, 3, 64});
  EXPECT_EQ(blocks.run_bytes(), 2 * 34U);
  EXPECT_EQ(blocks.span_bytes(), (2 * 4 + 2) * 34U);
  EXPECT_FALSE(meet(blocks, 0, blocks, 2 * 34U));
  EXPECT_TRUE(meet(blocks, 0, blocks, 2 * 34U - 1));
  const ByteLayout nothing = detail::byte_layout({}, {1, 0, 3, 64});
  EXPECT_TRUE(nothing.is_empty());
  EXPECT_FALSE(meet(nothing, 0, blocks, 0));
}

}  // namespace
}  // namespace vkattn
