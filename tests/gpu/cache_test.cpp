// Appending to caches: every storage type, layout and mapping; lengths, positions and page tables of any
// content; bindings and limits. Rotation has tests of its own (rotary_test.cpp).
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

namespace vkattn::tests {
namespace {

constexpr std::array kSourceTypes{DataType::kFloat32, DataType::kFloat16, DataType::kBfloat16};
constexpr std::array kCacheTypes{DataType::kFloat32, DataType::kFloat16, DataType::kBfloat16,
                                 DataType::kQ8_0,    DataType::kQ4_0,    DataType::kFloat8E4m3};

/// Batch 2, 3 KV heads, 5 new rows for a cache of 12.
AppendCase small_case(DataType source, DataType cache, std::int64_t head_dim = 64,
                      std::int64_t value_dim = 32) {
  AppendCase test;
  AppendDesc& desc = test.desc;
  desc.batch = 2;
  desc.kv_heads = 3;
  desc.new_length = 5;
  desc.head_dim = head_dim;
  desc.value_dim = value_dim;
  desc.cache_length = 12;
  desc.key.type = desc.value.type = source;
  desc.cache_key.type = desc.cache_value.type = cache;
  promise_alignment(desc, 0);
  test.key_scales = {1.0F, 0.3F, 0.001F};
  test.value_scales = {0.0625F, 7.0F, 0.02F};
  return test;
}

void use_pages(AppendCase& test, std::int64_t page_size, std::int64_t pages_per_entry) {
  AppendDesc& desc = test.desc;
  desc.cache.mapping = KeyMapping::kPaged;
  desc.cache.page_size = page_size;
  desc.cache.page_table_stride = pages_per_entry;
  desc.cache.page_count = desc.batch * pages_per_entry + 2;
  const auto entries = static_cast<std::size_t>(desc.batch * pages_per_entry);
  test.page_table.resize(entries);
  // Neighbours in the table lie apart.
  for (std::size_t i = 0; i < entries; ++i) {
    test.page_table[i] = static_cast<std::int32_t>(desc.cache.page_count - 1 - static_cast<std::int64_t>(i));
  }
  std::rotate(test.page_table.begin(), test.page_table.begin() + 1, test.page_table.end());
}

using CacheTest = AppendTest;

TEST_F(CacheTest, EveryStorageTypeIsExact) {
  for (const DataType source : kSourceTypes) {
    for (const DataType cache : kCacheTypes) {
      AppendCase test = small_case(source, cache, 64, 0);
      test.desc.position = 4;
      expect_right(test, std::string(name(source)) + " to " + std::string(name(cache)));
    }
  }
}

TEST_F(CacheTest, KeysAndValuesOfDifferentTypes) {
  AppendCase test = small_case(DataType::kFloat16, DataType::kQ8_0);
  test.desc.value.type = DataType::kFloat32;
  test.desc.cache_value.type = DataType::kQ4_0;
  expect_right(test, "q8_0 keys, q4_0 values");
  test.desc.cache_key.type = DataType::kFloat8E4m3;
  test.desc.cache_value.type = DataType::kFloat16;
  expect_right(test, "e4m3 keys, f16 values");
}

TEST_F(CacheTest, OddDimsAndUnalignedTensors) {
  for (const DataType cache : {DataType::kFloat32, DataType::kFloat16, DataType::kFloat8E4m3}) {
    for (const std::int64_t shift : {0, 1, 3}) {
      AppendCase test = small_case(DataType::kBfloat16, cache, 7, 13);
      test.shift = shift;
      expect_right(test, std::string(name(cache)) + ", shift " + std::to_string(shift));
    }
  }
  for (const DataType cache : {DataType::kQ8_0, DataType::kQ4_0}) {
    AppendCase test = small_case(DataType::kFloat32, cache, 96, 32);
    test.shift = 1;  // blocks begin at odd and even halves of words
    expect_right(test, name(cache).data());
  }
  expect_right(small_case(DataType::kFloat32, DataType::kBfloat16, 1, 576), "dims 1 and 576");
}

TEST_F(CacheTest, AlignedTensorsAreMovedFourElementsAtATime) {
  for (const DataType source : kSourceTypes) {
    for (const DataType cache : {DataType::kFloat32, DataType::kFloat16, DataType::kFloat8E4m3}) {
      AppendCase test = small_case(source, cache, 64, 44);
      promise_alignment(test.desc, 16);
      expect_right(test, std::string(name(source)) + " to " + std::string(name(cache)));
    }
  }
}

TEST_F(CacheTest, LayoutsAndPadding) {
  for (const DataType cache : {DataType::kFloat16, DataType::kQ8_0, DataType::kFloat8E4m3}) {
    for (const Layout layout : {Layout::kBshd, Layout::kPackedQkv}) {
      AppendCase test = small_case(DataType::kFloat16, cache);
      test.desc.set_layout(layout);
      expect_right(test, name(cache).data());
    }
    AppendCase test = small_case(DataType::kFloat16, cache);
    test.desc.key.strides = {10'000, 1'234, 131, 2};
    test.desc.cache_key.strides = {4'800, 1'600, 96, 1};
    expect_right(test, "padded");
  }
  AppendCase test = small_case(DataType::kFloat32, DataType::kBfloat16, 20, 6);
  test.desc.cache_key.strides = {2'400, 800, 41, 2};
  test.desc.cache_value.strides = {1'001, 6, 18, 1};
  test.desc.value.strides = {0, 0, 6, 1};  // one head for all
  EXPECT_TRUE(validate(test.desc).ok());
  test.desc.value.strides->head = 30;
  test.desc.value.strides->batch = 90;
  expect_right(test, "strided");
}

TEST_F(CacheTest, BitsAreCopiedWhereTheTypeStays) {
  for (const DataType type : kSourceTypes) {
    AppendCase test = small_case(type, type, 40, 24);
    test.any_bits = true;  // NaN, infinities and subnormals among them
    expect_right(test, name(type).data());
  }
}

TEST_F(CacheTest, PositionsOfEachEntry) {
  AppendCase test = small_case(DataType::kFloat16, DataType::kFloat16);
  test.desc.has_positions = true;
  test.positions = {0, 7};
  expect_right(test, "positions");
  test.desc.new_lengths = Lengths::kPerEntry;
  test.new_lengths = {3, 0};
  expect_right(test, "ragged");
  test.desc.position = -99;  // has no meaning here
  expect_right(test, "ragged");
}

TEST_F(CacheTest, Rings) {
  for (const DataType cache : {DataType::kFloat32, DataType::kQ8_0}) {
    for (const std::int64_t ring : {1, 4, 7}) {
      AppendCase test = small_case(DataType::kFloat32, cache, 64, 0);
      test.desc.cache.mapping = KeyMapping::kRing;
      test.desc.cache.ring_length = ring;
      test.desc.has_positions = true;
      test.positions = {3, 2'000'000'001};
      test.desc.new_lengths = Lengths::kPerEntry;
      for (const std::int32_t length : {5, 2}) {
        test.new_lengths = {length, 5};
        expect_right(test, std::string(name(cache)) + ", ring of " + std::to_string(ring));
      }
    }
  }
}

TEST_F(CacheTest, PagesOfEverySize) {
  for (const std::int64_t page_size : {1, 16, 17}) {
    for (const Layout layout : {Layout::kBhsd, Layout::kBshd}) {
      const bool inside = layout == Layout::kBshd;  // heads are inside of rows
      AppendCase test = small_case(DataType::kFloat16, inside ? DataType::kQ8_0 : DataType::kFloat16);
      test.desc.cache_value.type = inside ? DataType::kFloat8E4m3 : DataType::kQ4_0;
      test.desc.new_length = 40;
      use_pages(test, page_size, page_size == 1 ? 60 : 4);
      test.desc.set_layout(layout);
      test.desc.has_positions = true;
      test.positions = {0, 15};
      expect_right(test, "pages of " + std::to_string(page_size));
    }
  }
}

/// Lengths that a decode loop would read next, also where they replace the positions.
TEST_F(CacheTest, LengthsAreWritten) {
  AppendCase test = small_case(DataType::kFloat32, DataType::kFloat32, 8, 8);
  test.desc.writes_kv_lengths = true;
  test.desc.position = 7;
  expect_right(test, "position 7");
  test.desc.has_positions = true;
  test.desc.new_lengths = Lengths::kPerEntry;
  constexpr std::int32_t kLeast = std::numeric_limits<std::int32_t>::min();
  constexpr std::int32_t kMost = std::numeric_limits<std::int32_t>::max();
  for (const auto& [position, length] :
       {std::pair{0, 5}, {11, 5}, {12, 0}, {-3, 5}, {kLeast, 5}, {kMost, 5}, {3, kLeast}, {3, kMost}}) {
    test.positions = {position, 2};
    test.new_lengths = {length, 1};
    expect_right(test, std::to_string(position) + " + " + std::to_string(length));
  }
  test.desc.cache.mapping = KeyMapping::kRing;
  test.desc.cache.ring_length = 3;
  test.positions = {kMost - 2, 100};
  test.new_lengths = {5, 5};
  expect_right(test, "a ring has no end but int32's");
}

/// Whatever is in the buffers of positions, lengths and pages, nothing outside of the cache changes.
TEST_F(CacheTest, GarbageStaysInside) {
  const std::vector<std::int32_t> garbage{-1,
                                          std::numeric_limits<std::int32_t>::min(),
                                          std::numeric_limits<std::int32_t>::max(),
                                          1 << 30,
                                          -4,
                                          11,
                                          12,
                                          std::numeric_limits<std::int32_t>::max() - 4};
  for (const KeyMapping mapping : {KeyMapping::kContiguous, KeyMapping::kRing, KeyMapping::kPaged}) {
    for (const DataType cache : {DataType::kFloat16, DataType::kQ8_0}) {
      AppendCase test = small_case(DataType::kFloat16, cache, 64, 0);
      test.desc.batch = static_cast<std::int64_t>(garbage.size());
      test.desc.cache.mapping = mapping;
      test.desc.cache.ring_length = 12;
      if (mapping == KeyMapping::kPaged) {
        use_pages(test, 4, 3);
        // Not the numbers of pages that other entries have: two rows in one place would race.
        for (std::size_t i = 0; i < garbage.size(); ++i) {
          const bool exists = garbage[i] >= 0 && garbage[i] < test.desc.cache.page_count;
          test.page_table[3 * i + i % 3] = exists ? -garbage[i] : garbage[i];
        }
        // Of entry 2, which has rows.
        test.page_table[7] = static_cast<std::int32_t>(test.desc.cache.page_count);
      }
      test.desc.writes_kv_lengths = true;
      test.desc.has_positions = true;
      test.positions = garbage;
      expect_right(test, "positions");
      test.desc.new_lengths = Lengths::kPerEntry;
      test.new_lengths = garbage;
      std::iota(test.positions.begin(), test.positions.end(), 2);
      expect_right(test, "lengths");
    }
  }
}

/// A whole tensor of rows of float32.
AppendCase quantisation(DataType cache, std::int64_t rows, std::int64_t dims) {
  AppendCase test;
  const Strides strides{0, 0, dims, 1};
  test.desc = quantise_desc({1, 1, rows, dims}, {DataType::kFloat32, strides, 0}, {cache, strides, 0});
  test.key_scales = {0.3F};
  return test;
}

/// Values that quantisation has special rules for, in blocks of their own.
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

/// Many random elements of all magnitudes, and elements at and beside the halves between two codes.
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
      // A block whose largest element is `magnitude`, and halves of its codes, some a little less.
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
           [](AppendDesc& d) { d.kv_heads = 0; }}) {
    AppendDesc desc = small_case(DataType::kFloat32, DataType::kQ8_0).desc;
    empty(desc);
    EXPECT_TRUE(desc.is_empty());
    const auto plan = AppendPlan::create(runtime().device(), desc);
    ASSERT_TRUE(plan.ok()) << plan.error().message;
    EXPECT_EQ(plan->dispatch_count(), 0U);
    const auto bindings = plan->make_bindings({});
    ASSERT_TRUE(bindings.ok()) << bindings.error().message;
    EXPECT_TRUE(runtime().execute([&](VkCommandBuffer c) { plan->record(c, *bindings); }).ok());
  }
}

TEST_F(CacheTest, SeveralDispatchesAndFoldedGrids) {
  AppendRunOptions options;
  options.device = device_with([](Capabilities& c) { c.max_workgroup_count = {3, 65535, 65535}; });
  AppendCase test = small_case(DataType::kFloat32, DataType::kFloat16, 96, 72);
  EXPECT_TRUE(appends_right(runtime(), test, options));
  // Above 2^22 invocations: rows of one element, all of them the same.
  AppendDesc desc =
      quantise_desc({1, 1, (std::int64_t{1} << 22) + 100, 1}, {DataType::kFloat32, Strides{0, 0, 0, 1}, 0},
                    {DataType::kFloat16, Strides{0, 0, 1, 1}, 0});
  const auto plan = AppendPlan::create(runtime().device(), desc);
  ASSERT_TRUE(plan.ok()) << plan.error().message;
  EXPECT_EQ(plan->dispatch_count(), 2U);
  EXPECT_NE(plan->describe().find("dispatch: keys"), std::string::npos) << plan->describe();
  const std::vector<float> element{0.75F};
  std::vector<std::uint16_t> result(static_cast<std::size_t>(desc.new_length), 0xffffU);
  const auto source = runtime().create_buffer(4);
  const auto target = runtime().create_buffer(result.size() * 2);
  ASSERT_TRUE(source.ok() && target.ok());
  ASSERT_TRUE(runtime().write(*source, 0, std::as_bytes(std::span(element))).ok());
  ASSERT_TRUE(runtime().write(*target, 0, std::as_bytes(std::span(result))).ok());
  AppendTensors tensors;
  tensors.key = source->range();
  tensors.cache_key = target->range();
  const auto bindings = plan->make_bindings(tensors);
  ASSERT_TRUE(bindings.ok()) << bindings.error().message;
  ASSERT_TRUE(runtime().execute([&](VkCommandBuffer c) { plan->record(c, *bindings); }).ok());
  ASSERT_TRUE(runtime().read(*target, 0, std::as_writable_bytes(std::span(result))).ok());
  EXPECT_EQ(std::count(result.begin(), result.end(), float_to_half(0.75F)), desc.new_length);
}

}  // namespace
}  // namespace vkattn::tests
