// Extreme appends: copied bits, quantisation, lengths, positions and page tables with any contents, many
// entries, many rows. cache_pairs_test.cpp varies the cache, rotary_test.cpp tests rotation.
#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <limits>
#include <numeric>
#include <span>

#include "gpu/cache_run.hpp"
#include "gpu/support.hpp"
#include "harness/data.hpp"
#include "support/special_numbers.hpp"

namespace vkattn::tests {
namespace {

using Numbers = std::vector<std::int32_t>;
constexpr std::array kMappings{KeyMapping::kContiguous, KeyMapping::kRing, KeyMapping::kPaged};

using CacheTest = AppendTest;

TEST_F(CacheTest, BitsAreCopiedWhereTheTypeStays) {
  for (const DataType type : {DataType::kFloat32, DataType::kFloat16, DataType::kBfloat16}) {
    AppendCase test = small_append(type, type);
    test.any_bits = true;  // contains NaN, infinities and subnormal numbers
    expect_right(test, name(type).data());
  }
}

/// Four elements are stored at once wherever tensors are aligned.
TEST_F(CacheTest, FourElementsAreStoredAtOnce) {
  for (const DataType type :
       {DataType::kFloat32, DataType::kFloat16, DataType::kBfloat16, DataType::kFloat8E4m3}) {
    AppendCase test = small_append(DataType::kFloat32, type);
    promise_alignment(test.desc, 16);
    expect_right(test, name(type).data());
  }
}

/// Writes the lengths that a decode loop reads next, also into the buffer of the positions.
TEST_F(CacheTest, LengthsAreWritten) {
  AppendCase test = small_append();
  test.desc.writes_kv_lengths = true;
  test.desc.position = 7;
  expect_right(test, "position 7");
  test.desc.new_lengths = Lengths::kPerEntry;
  for (const auto& [position, length] :
       {std::pair{0, 5}, {11, 5}, {12, 0}, {-3, 5}, {kLeast, 5}, {kMost, 5}, {3, kLeast}, {3, kMost}}) {
    use_positions(test, {position, 2, 2});
    test.new_lengths = {length, 1, 0};
    expect_right(test, std::to_string(position) + " + " + std::to_string(length));
  }
  use_ring(test, 3);
  use_positions(test, {kMost - 2, 100, 2'000'000'001});
  test.new_lengths = {5, 5, 5};
  expect_right(test, "a ring has no end but int32's");
}

/// Whatever the buffers of positions, lengths and pages contain, nothing outside of the cache changes.
TEST_F(CacheTest, GarbageStaysInside) {
  const Numbers garbage{-1, kLeast, kMost, 1 << 30, -4, 11, 12, kMost - 4};
  for (const KeyMapping mapping : kMappings) {
    for (const DataType cache : {DataType::kFloat16, DataType::kQ8_0}) {
      AppendCase test = small_append(DataType::kFloat16, cache);
      test.desc.batch = static_cast<std::int64_t>(garbage.size());
      test.desc.writes_kv_lengths = true;
      if (mapping == KeyMapping::kRing) use_ring(test, 12);
      if (mapping == KeyMapping::kPaged) {
        use_pages(test, 4, 3);
        // Skips the numbers of pages that belong to other entries. Otherwise two rows would race for one
        // place.
        for (std::size_t i = 0; i < garbage.size(); ++i) {
          const bool exists = garbage[i] >= 0 && garbage[i] < test.desc.cache.page_count;
          test.page_table[3 * i + i % 3] = exists ? -garbage[i] : garbage[i];
        }
        // An entry of batch entry 2, which has rows.
        test.page_table[7] = static_cast<std::int32_t>(test.desc.cache.page_count);
      }
      use_positions(test, garbage);
      expect_right(test, "positions");
      test.desc.new_lengths = Lengths::kPerEntry;
      test.new_lengths = garbage;
      std::iota(test.positions.begin(), test.positions.end(), 2);
      expect_right(test, "lengths");
    }
  }
}

/// Each entry has the rows that its clamped cumulative lengths give it. Nothing else changes.
TEST_F(CacheTest, GarbageInCumulativeLengthsStaysInside) {
  // No two entries share a row.
  const Numbers garbage[] = {
      {kLeast, 2, 2, kMost}, {-7, 1 << 30, kMost, kMost}, {kMost, 3, 3, 4},      {1, kLeast, 1, 3},
      {9, 12, 0, 12},        {kMost, kMost, kLeast, 5},   {11, 3, kMost, kMost}, {11, 10, kMost, -1},
      {0, 5, 8, 6},          {6, 8, -1, kLeast}};
  for (const KeyMapping mapping : kMappings) {
    AppendCase test = small_append(DataType::kFloat16, DataType::kQ8_0);
    test.desc.query_heads = 2;
    test.desc.query.type = test.desc.query_output.type = DataType::kFloat16;
    test.desc.writes_kv_lengths = true;
    use_positions(test, {3, 4, 5});
    if (mapping == KeyMapping::kRing) use_ring(test, 4);
    if (mapping == KeyMapping::kPaged) use_pages(test, 3, 5);
    for (const Numbers& numbers : garbage) {
      use_packed(test, numbers, 12);
      expect_right(test, testing::PrintToString(numbers));
    }
    use_positions(test, {kMost - 1, kLeast, -2});
    expect_right(test, "garbage positions too");
  }
}

/// Lengths above an entry's maximum and above the total number of rows are cut off.
TEST_F(CacheTest, LongPackedLengthsAreCutOff) {
  AppendCase test = small_append();
  test.desc.cache_length = 40;
  test.desc.writes_kv_lengths = true;
  use_packed(test, {0, 9, 10, 30}, 13);
  use_positions(test, {3, 4, 5});
  expect_right(test, "cut off");
  test.desc.new_length = 40;
  use_positions(test, {37, 0, 27});  // only the position of the last entry fits
  expect_right(test, "beyond the cache");
  use_packed(test, {0, 0, 0, 0}, 13);
  expect_right(test, "no rows");
}

/// A row that belongs to several entries is appended for one of them.
TEST_F(CacheTest, SharedRowsStayInside) {
  AppendCase test = small_append(DataType::kFloat16, DataType::kFloat16);
  test.desc.writes_kv_lengths = true;
  use_positions(test, {3, 4, 5, 6, 7});
  for (const Numbers& numbers :
       {Numbers{0, 4, 2, 7, 3, 12}, {0, 5, 0, 5, 0, 5}, {0, kMost, 0, kMost, kLeast, kMost}}) {
    use_packed(test, numbers, 12);
    expect_right(test, testing::PrintToString(numbers));
  }
}

TEST_F(CacheTest, ManyPackedEntries) {
  Numbers cumulative{0}, positions;
  for (int b = 0; b < 131; ++b) {
    cumulative.push_back(cumulative.back() + (b % 3 == 1 ? 0 : b % 4));
    positions.push_back(b % 9);
  }
  AppendCase test = small_append();
  use_packed(test, cumulative, cumulative.back());
  use_positions(test, positions);
  test.desc.kv_heads = 1;
  test.desc.new_length = 3;
  expect_right(test, "131 entries");
}

/// A whole tensor of float32 rows that are quantised.
AppendCase quantisation(DataType cache, std::int64_t rows, std::int64_t dims) {
  AppendCase test;
  const Strides strides{0, 0, dims, 1};
  test.desc = quantise_desc({1, 1, rows, dims}, {DataType::kFloat32, strides, 0}, {cache, strides, 0});
  test.key_scales = {0.3F};
  return test;
}

/// Values for which quantisation has special rules, in blocks of their own.
TEST_F(CacheTest, QuantisedExtremes) {
  constexpr float kInf = std::numeric_limits<float>::infinity();
  const std::vector<std::vector<float>> rows{{0.0F},
                                             {-0.0F},
                                             std::vector<float>(32, 1.0F),
                                             std::vector<float>(32, -448.0F),
                                             {1e-37F, -2e-38F},
                                             {-3e-36F, 1.5e-36F},
                                             {1e30F, -1e30F, 1.0F},
                                             {-8.0F, 8.0F, 7.5F, -7.5F, 0.5F, -0.5F, 0.49999997F},
                                             {8.0F, -8.0F, 7.5F, -7.5F, 0.5F, -0.5F, 0.49999997F},
                                             {127.0F, 0.5F, -0.5F, 1.5F, -1.5F, 126.5F, -126.5F, 0.49999997F},
                                             {464.0F, 465.0F, 448.1F, -1e9F, kInf, -kInf},
                                             {0.0009765625F, 0.0029296875F, 0.00146484375F, 0.0156F},
                                             {8e6F, -8.4e6F},
                                             {1.0F, kInf}};
  for (const DataType cache : {DataType::kQ8_0, DataType::kQ4_0, DataType::kFloat8E4m3}) {
    AppendCase test = quantisation(cache, static_cast<std::int64_t>(rows.size()), 32);
    test.key_scales = {1.0F};
    for (std::vector<float> row : rows) {
      row.resize(32);
      test.key_elements.insert(test.key_elements.end(), row.begin(), row.end());
    }
    expect_right(test, name(cache).data());
  }
  for (const DataType cache : {DataType::kQ8_0, DataType::kQ4_0}) {
    AppendCase test = quantisation(cache, 2, 32);
    test.key_elements.resize(64, 1.0F);
    test.key_elements[9] = std::numeric_limits<float>::quiet_NaN();
    expect_right(test, "a NaN");
  }
}

/// Many random elements of all magnitudes, and elements at and near the middle between two codes.
TEST_F(CacheTest, QuantisedBitForBit) {
  for (const DataType cache : {DataType::kQ8_0, DataType::kQ4_0, DataType::kFloat8E4m3}) {
    AppendCase test = quantisation(cache, 1024, 256);
    test.key_elements.resize(1024 * 256);
    for (std::size_t i = 0; i < test.key_elements.size(); ++i) {
      const std::size_t block = i / 32;
      const double magnitude = std::exp2(40 * harness::random_uniform(3, block) - 20);
      const double uniform = 2 * harness::random_uniform(5, i) - 1;
      float& element = test.key_elements[i];
      element = static_cast<float>(uniform * magnitude);
      if (block % 2 == 0) continue;
      // A block whose largest element is `magnitude`. The others are halves of its codes, some a little less.
      const double codes = cache == DataType::kQ8_0 ? 127 : 8;
      const double half = std::round(uniform * (codes - 1)) + 0.5;
      element = static_cast<float>(i % 32 == 7 ? -magnitude : half * magnitude / codes);
      if (i % 3 == 1) element = std::nextafter(element, 0.0F);
    }
    expect_right(test, name(cache).data());
  }
}

TEST_F(CacheTest, NothingToWriteRecordsNothing) {
  for (const auto& empty : std::vector<std::function<void(AppendDesc&)>>{
           [](AppendDesc& d) { d.batch = 0; }, [](AppendDesc& d) { d.new_length = 0; },
           [](AppendDesc& d) { d.kv_heads = 0; },
           [](AppendDesc& d) {
             d.new_lengths = Lengths::kPacked;
             d.total_new_length = 0;
           }}) {
    AppendDesc desc = small_append(DataType::kFloat32, DataType::kQ8_0).desc;
    empty(desc);
    EXPECT_TRUE(desc.is_empty());
    const auto plan = must(AppendPlan::create(runtime().device(), desc));
    EXPECT_EQ(plan.requirements().dispatches, 0U);
    bind_and_execute(runtime(), plan, AppendTensors{});
  }
}

TEST_F(CacheTest, SeveralDispatchesAndFoldedGrids) {
  AppendRunOptions options;
  options.device = device_with([](Capabilities& c) { c.max_workgroup_count = {3, 65535, 65535}; });
  const AppendCase test = small_append(DataType::kFloat32, DataType::kFloat16);
  EXPECT_TRUE(appends_right(runtime(), test, options));
  // More than 2^22 invocations: rows of one element that are all equal.
  AppendDesc desc =
      quantise_desc({1, 1, (std::int64_t{1} << 22) + 100, 1}, {DataType::kFloat32, Strides{0, 0, 0, 1}, 0},
                    {DataType::kFloat16, Strides{0, 0, 1, 1}, 0});
  const auto plan = must(AppendPlan::create(runtime().device(), desc));
  EXPECT_EQ(plan.requirements().dispatches, 2U);
  EXPECT_TRUE(has(plan.describe(), "dispatch: keys"));
  const auto count = static_cast<std::size_t>(desc.new_length);
  const Buffer source = filled_buffer(runtime(), std::vector<float>{0.75F});
  const Buffer target = filled_buffer(runtime(), std::vector<std::uint16_t>(count, 0xffffU));
  AppendTensors tensors;
  tensors.key = source.range();
  tensors.cache_key = target.range();
  bind_and_execute(runtime(), plan, tensors);
  const auto result = elements_of<std::uint16_t>(runtime(), target, count);
  EXPECT_EQ(std::count(result.begin(), result.end(), float_to_half(0.75F)), desc.new_length);
}

}  // namespace
}  // namespace vkattn::tests
