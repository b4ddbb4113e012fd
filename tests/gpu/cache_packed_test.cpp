// Appends of packed new rows: ragged lengths, garbage in cumulative lengths, and the one buffer that serves
// attention as well.
#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <numeric>
#include <span>

#include "gpu/cache_run.hpp"
#include "gpu/support.hpp"
#include "vulkan/device_state.hpp"

namespace vkattn::tests {
namespace {

using Numbers = std::vector<std::int32_t>;
constexpr std::int32_t kLeast = std::numeric_limits<std::int32_t>::min();
constexpr std::int32_t kMost = std::numeric_limits<std::int32_t>::max();

/// Room for 40 keys of each batch entry, contiguous.
AppendCase packed_case(DataType type, DataType cache, const Numbers& cumulative, std::int64_t total) {
  AppendCase test;
  AppendDesc& desc = test.desc;
  desc.batch = static_cast<std::int64_t>(cumulative.size()) - 1;
  desc.kv_heads = 3;
  desc.new_length = 5;
  desc.head_dim = 64;
  desc.value_dim = 0;
  desc.cache_length = 40;
  desc.key.type = desc.value.type = type;
  desc.cache_key.type = desc.cache_value.type = cache;
  desc.new_lengths = Lengths::kPacked;
  desc.total_new_length = total;
  desc.has_positions = true;
  promise_alignment(desc, 0);
  test.cumulative_new_lengths = cumulative;
  test.positions.resize(static_cast<std::size_t>(desc.batch));
  std::iota(test.positions.begin(), test.positions.end(), 3);
  test.key_scales = {1.0F, 0.3F, 0.001F};
  test.value_scales = {0.0625F, 7.0F, 0.02F};
  return test;
}

/// Lengths 3, 0, 5, 1 and 0, and a row that is no entry's before them and after them.
AppendCase ragged_case(DataType type, DataType cache) {
  return packed_case(type, cache, {1, 4, 4, 9, 10, 10}, 11);
}

void use_ring(AppendCase& test, std::int64_t rows) {
  test.desc.cache.mapping = KeyMapping::kRing;
  test.desc.cache.ring_length = rows;
}

/// Pages in order from the last one down, two of which are no entry's.
void use_pages(AppendCase& test, std::int64_t page_size, std::int64_t pages_per_entry) {
  CacheLayout& cache = test.desc.cache;
  cache.mapping = KeyMapping::kPaged;
  cache.page_size = page_size;
  cache.page_table_stride = pages_per_entry;
  cache.page_count = test.desc.batch * pages_per_entry + 2;
  test.page_table.resize(static_cast<std::size_t>(test.desc.batch * pages_per_entry));
  for (std::size_t i = 0; i < test.page_table.size(); ++i) {
    test.page_table[i] = static_cast<std::int32_t>(cache.page_count - 1 - static_cast<std::int64_t>(i));
  }
}

using CachePackedTest = AppendTest;

TEST_F(CachePackedTest, RaggedRowsOfEveryMapping) {
  const std::vector<std::function<void(AppendCase&)>> mappings{
      [](AppendCase&) {}, [](AppendCase& test) { use_ring(test, 4); },
      [](AppendCase& test) { use_pages(test, 3, 4); }};
  for (std::size_t i = 0; i < mappings.size(); ++i) {
    AppendCase test = ragged_case(DataType::kFloat16, i == 1 ? DataType::kQ8_0 : DataType::kFloat16);
    test.desc.writes_kv_lengths = true;
    mappings[i](test);
    expect_right(test, "mapping " + std::to_string(i));
    test.cumulative_new_lengths = {0, 5, 7, 7, 9, 11};
    expect_right(test, "other lengths, mapping " + std::to_string(i));
    test.cumulative_new_lengths = {0, 0, 0, 0, 0, 0};
    expect_right(test, "no rows, mapping " + std::to_string(i));
  }
  AppendCase test = ragged_case(DataType::kFloat32, DataType::kQ4_0);
  test.desc.has_positions = false;  // one for all
  test.positions.clear();
  test.desc.position = 35;
  expect_right(test, "one position");
}

TEST_F(CachePackedTest, TurnedQueriesKeysAndValues) {
  for (const bool in_place : {false, true}) {
    AppendCase test = ragged_case(DataType::kFloat16, DataType::kFloat8E4m3);
    test.desc.query_heads = 6;
    test.desc.value_dim = 32;
    test.desc.rotary.style = RotaryStyle::kHalfSplit;
    test.desc.rotary.dims = 48;
    test.desc.query.type = test.desc.query_output.type = DataType::kFloat16;
    test.desc.set_layout(Layout::kBshd);
    test.shift = in_place ? 0 : 1;
    test.in_place = in_place;
    test.key_scales = {0.5F, 0.03F, 0.004F};  // nothing is beyond 448
    AppendReport report;
    expect_right(test, in_place ? "in place" : "to another tensor", &report);
    EXPECT_GT(report.rotated_elements, 9 * 6 * 48);  // of queries, and of keys too
  }
}

/// Batch strides mean nothing; new rows, queries between them, may lie in one tensor.
TEST_F(CachePackedTest, LayoutsAndOddDims) {
  AppendCase test = ragged_case(DataType::kBfloat16, DataType::kFloat16);
  test.desc.head_dim = 7;
  test.desc.value_dim = 13;
  test.desc.query_heads = 2;
  test.desc.query.type = DataType::kBfloat16;
  test.desc.set_layout(Layout::kPackedQkv);
  test.desc = test.desc.resolved();
  test.desc.key.strides->batch = 0;
  test.desc.query_output.strides->batch = 1;
  test.shift = 3;
  expect_right(test, "packed QKV");
}

/// More rows than the most of one entry, and more than there are: what is beyond is cut off.
TEST_F(CachePackedTest, LongLengthsAreCutOff) {
  AppendCase test = packed_case(DataType::kFloat32, DataType::kFloat32, {0, 9, 10, 30}, 13);
  test.desc.writes_kv_lengths = true;
  expect_right(test, "cut off");
  test.desc.new_length = 40;
  test.positions = {37, 0, 27};  // only the last entry's fit
  expect_right(test, "beyond the cache");
}

TEST_F(CachePackedTest, ManyEntries) {
  Numbers cumulative{0};
  for (int b = 0; b < 131; ++b) cumulative.push_back(cumulative.back() + (b % 3 == 1 ? 0 : b % 4));
  AppendCase test = packed_case(DataType::kFloat32, DataType::kFloat32, cumulative, cumulative.back());
  test.desc.kv_heads = 1;
  test.desc.head_dim = 8;
  test.desc.new_length = 3;
  for (std::int32_t& position : test.positions) position %= 37;
  expect_right(test, "131 entries");
}

/// Whatever the numbers are, each entry has the rows that the clamped ones give it, and nothing else changes.
TEST_F(CachePackedTest, GarbageStaysInside) {
  // No two entries share a row.
  const Numbers garbage[] = {
      {kLeast, 2, 2, kMost}, {-7, 1 << 30, kMost, kMost}, {kMost, 3, 3, 4},      {1, kLeast, 1, 3},
      {9, 12, 0, 12},        {kMost, kMost, kLeast, 5},   {11, 3, kMost, kMost}, {11, 10, kMost, -1},
      {0, 5, 8, 6},          {6, 8, -1, kLeast}};
  for (const KeyMapping mapping : {KeyMapping::kContiguous, KeyMapping::kRing, KeyMapping::kPaged}) {
    AppendCase test = packed_case(DataType::kFloat16, DataType::kQ8_0, garbage[0], 12);
    test.desc.query_heads = 2;
    test.desc.query.type = test.desc.query_output.type = DataType::kFloat16;
    test.desc.writes_kv_lengths = true;
    if (mapping == KeyMapping::kRing) use_ring(test, 4);
    if (mapping == KeyMapping::kPaged) use_pages(test, 3, 5);
    for (const Numbers& numbers : garbage) {
      test.cumulative_new_lengths = numbers;
      expect_right(test, testing::PrintToString(numbers));
    }
    test.positions = {kMost - 1, kLeast, -2};
    expect_right(test, "garbage positions too");
  }
}

/// A row of several entries is appended for one of them.
TEST_F(CachePackedTest, SharedRowsStayInside) {
  AppendCase test = packed_case(DataType::kFloat16, DataType::kFloat16, {0, 4, 2, 7, 3, 12}, 12);
  test.desc.writes_kv_lengths = true;
  for (const Numbers& numbers :
       {test.cumulative_new_lengths, {0, 5, 0, 5, 0, 5}, {0, kMost, 0, kMost, kLeast, kMost}}) {
    test.cumulative_new_lengths = numbers;
    expect_right(test, testing::PrintToString(numbers));
  }
}

TEST_F(CachePackedTest, NothingToWriteRecordsNothing) {
  for (const auto& [length, total] : {std::pair{5, 0}, {0, 5}}) {
    AppendDesc desc = ragged_case(DataType::kFloat32, DataType::kFloat32).desc;
    desc.new_length = length;
    desc.total_new_length = total;
    EXPECT_TRUE(desc.is_empty());
    const auto plan = AppendPlan::create(runtime().device(), desc);
    ASSERT_TRUE(plan.ok()) << plan.error().message;
    EXPECT_EQ(plan->dispatch_count(), 0U);
    EXPECT_TRUE(plan->make_bindings({}).ok());
  }
}

TEST_F(CachePackedTest, ShortBuffersOfLengthsAreRefused) {
  const AppendDesc desc = ragged_case(DataType::kFloat32, DataType::kFloat32).desc;
  const auto plan = AppendPlan::create(runtime().device(), desc);
  ASSERT_TRUE(plan.ok()) << plan.error().message;
  EXPECT_NE(plan->describe().find("11 packed rows"), std::string::npos) << plan->describe();
  const auto buffer = runtime().create_buffer(1 << 20);
  ASSERT_TRUE(buffer.ok());
  AppendTensors tensors;
  tensors.key = tensors.cache_key = tensors.positions = buffer->range();
  tensors.cumulative_new_lengths = {buffer->handle(), 0, 20};
  const auto refused = plan->make_bindings(tensors);
  ASSERT_FALSE(refused.ok());
  EXPECT_TRUE(names(refused.error(), ErrorCode::kInvalidArgument, {"cumulative_new_lengths", "24", "20"}));
  tensors.cumulative_new_lengths.size = 24;
  EXPECT_TRUE(plan->make_bindings(tensors).ok());
}

constexpr std::size_t kEntries = 3, kTotal = 9, kDim = 8, kRoom = 16;

/// Causal attention of the packed queries over what the caches hold, one head.
std::vector<double> attended(const std::vector<float>& query, const std::vector<float>& key,
                             const std::vector<float>& value, const Numbers& cumulative,
                             const Numbers& lengths) {
  std::vector<double> output(kTotal * kDim);
  for (std::size_t b = 0; b < kEntries; ++b) {
    const auto end = static_cast<std::size_t>(cumulative[b + 1]);
    for (auto row = static_cast<std::size_t>(cumulative[b]); row < end; ++row) {
      const std::size_t keys = static_cast<std::size_t>(lengths[b]) - (end - 1 - row);
      double sum = 0;
      for (std::size_t j = 0; j < keys; ++j) {
        double score = 0;
        for (std::size_t d = 0; d < kDim; ++d) {
          score += static_cast<double>(query[row * kDim + d] * key[(b * kRoom + j) * kDim + d]);
        }
        const double weight = std::exp(score / std::sqrt(double{kDim}));
        sum += weight;
        for (std::size_t d = 0; d < kDim; ++d) {
          output[row * kDim + d] += weight * static_cast<double>(value[(b * kRoom + j) * kDim + d]);
        }
      }
      for (std::size_t d = 0; d < kDim; ++d) output[row * kDim + d] /= sum;
    }
  }
  return output;
}

/// Prefill and decode in one batch: append and attention in one recording, with one buffer of cumulative
/// lengths and one of key lengths. It is submitted twice, and the second step finds the keys of the first.
class CachePackedStep : public GpuTest {
 protected:
  template <class T>
  [[nodiscard]] static Buffer upload(const std::vector<T>& values) {
    const auto bytes = std::as_bytes(std::span(values));
    Buffer buffer = runtime().create_buffer(bytes.size()).value();
    EXPECT_TRUE(runtime().write(buffer, 0, bytes).ok());
    return buffer;
  }
  template <class T>
  [[nodiscard]] static std::vector<T> download(const Buffer& buffer, std::size_t count) {
    std::vector<T> values(count);
    EXPECT_TRUE(runtime().read(buffer, 0, std::as_writable_bytes(std::span(values))).ok());
    return values;
  }
  [[nodiscard]] static std::vector<float> rows(double seed, std::size_t count) {
    std::vector<float> values(count * kDim);
    for (float& value : values) value = static_cast<float>(std::sin(seed += 1.7));
    return values;
  }

  [[nodiscard]] static AppendDesc append_desc() {
    AppendDesc desc;
    desc.batch = kEntries;
    desc.kv_heads = 1;
    desc.new_length = 5;
    desc.head_dim = desc.value_dim = kDim;
    desc.cache_length = kRoom;
    desc.has_positions = desc.writes_kv_lengths = true;
    desc.new_lengths = Lengths::kPacked;
    desc.total_new_length = kTotal;
    return desc;
  }
  [[nodiscard]] static AttentionDesc attention_desc() {
    AttentionDesc desc;
    desc.batch = kEntries;
    desc.query_length = 5;
    desc.kv_length = kRoom;
    desc.head_dim = desc.value_dim = kDim;
    desc.query_lengths = Lengths::kPacked;
    desc.kv_lengths = Lengths::kPerEntry;
    desc.total_query_length = kTotal;
    desc.causal = true;
    desc.align = Align::kBottomRight;
    return desc;
  }
};

TEST_F(CachePackedStep, OneBufferOfLengthsServesAppendAndAttention) {
  const Numbers cumulative{0, 5, 6, 9};
  const std::vector<float> query_rows = rows(0.1, kTotal);
  const Buffer query = upload(query_rows), key = upload(rows(0.2, kTotal)), value = upload(rows(0.3, kTotal));
  const Buffer cache_key = upload(rows(0.4, kEntries * kRoom));
  const Buffer cache_value = upload(rows(0.5, kEntries * kRoom));
  const Buffer sums = upload(cumulative), lengths = upload(Numbers{0, 6, 2});
  const Buffer output = upload(std::vector<float>(kTotal * kDim));

  const auto append = AppendPlan::create(runtime().device(), append_desc());
  const auto attention = make_plan(runtime(), attention_desc(), {"lane"});
  ASSERT_TRUE(append.ok() && attention.ok());
  AppendTensors new_rows;
  new_rows.key = key.range();
  new_rows.value = value.range();
  new_rows.cache_key = cache_key.range();
  new_rows.cache_value = cache_value.range();
  new_rows.positions = new_rows.kv_lengths = lengths.range();
  new_rows.cumulative_new_lengths = sums.range();
  AttentionTensors tensors;
  tensors.query = query.range();
  tensors.key = cache_key.range();
  tensors.value = cache_value.range();
  tensors.output = output.range();
  tensors.kv_lengths = lengths.range();
  tensors.cumulative_query_lengths = sums.range();
  const Buffer workspace = runtime().create_buffer(attention->workspace_bytes() + 4).value();
  const auto append_bindings = append->make_bindings(new_rows);
  const auto bindings = attention->make_bindings(tensors, workspace.range());
  ASSERT_TRUE(append_bindings.ok() && bindings.ok());
  const auto record = [&](VkCommandBuffer commands) {
    append->record(commands, *append_bindings);
    VkMemoryBarrier barrier{VK_STRUCTURE_TYPE_MEMORY_BARRIER};
    barrier.srcAccessMask = VK_ACCESS_SHADER_WRITE_BIT;
    barrier.dstAccessMask = VK_ACCESS_SHADER_READ_BIT;
    runtime().device().state().vk.vkCmdPipelineBarrier(commands, VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT,
                                                       VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT, 0, 1, &barrier,
                                                       0, nullptr, 0, nullptr);
    attention->record(commands, *bindings);
  };
  ASSERT_TRUE(runtime().execute(record, 2).ok());

  const auto held = download<std::int32_t>(lengths, kEntries);
  EXPECT_EQ(held, (Numbers{10, 8, 8}));
  const auto keys = download<float>(cache_key, kEntries * kRoom * kDim);
  const auto new_keys = download<float>(key, kTotal * kDim);
  // Entry 2's second step begins at position 5 with the packed row 6.
  EXPECT_TRUE(std::equal(&new_keys[6 * kDim], &new_keys[9 * kDim], &keys[(2 * kRoom + 5) * kDim]));
  const auto values = download<float>(cache_value, kEntries * kRoom * kDim);
  const auto got = download<float>(output, kTotal * kDim);
  const auto expected = attended(query_rows, keys, values, cumulative, held);
  for (std::size_t i = 0; i < got.size(); ++i)
    EXPECT_NEAR(static_cast<double>(got[i]), expected[i], 1e-5) << i;
}

}  // namespace
}  // namespace vkattn::tests
