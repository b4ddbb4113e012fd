// The append problems that tests start from: see cache_run.hpp.
#include <algorithm>
#include <numeric>

#include "gpu/cache_run.hpp"

namespace vkattn::tests {

AppendCase small_append(DataType source, DataType cache) {
  AppendCase test;
  AppendDesc& desc = test.desc;
  desc.batch = desc.kv_heads = 3;
  desc.new_length = 5;
  desc.head_dim = 64;
  desc.value_dim = 32;
  desc.cache_length = 12;
  desc.key.type = desc.value.type = source;
  desc.cache_key.type = desc.cache_value.type = cache;
  promise_alignment(desc, 0);
  test.key_scales = {0.5F, 0.03F, 0.004F};
  test.value_scales = {0.0625F, 7.0F, 0.001F};
  return test;
}

void use_ring(AppendCase& test, std::int64_t rows) {
  test.desc.cache.mapping = KeyMapping::kRing;
  test.desc.cache.ring_length = rows;
}

void use_pages(AppendCase& test, std::int64_t page_size, std::int64_t pages_per_entry) {
  CacheLayout& cache = test.desc.cache;
  cache.mapping = KeyMapping::kPaged;
  cache.page_size = page_size;
  cache.page_table_stride = pages_per_entry;
  cache.page_count = test.desc.batch * pages_per_entry + 2;
  test.page_table.resize(static_cast<std::size_t>(test.desc.batch * pages_per_entry));
  std::iota(test.page_table.rbegin(), test.page_table.rend(), 2);
  std::rotate(test.page_table.begin(), test.page_table.begin() + 1, test.page_table.end());
}

void use_packed(AppendCase& test, const std::vector<std::int32_t>& cumulative_lengths, std::int64_t total) {
  test.desc.batch = static_cast<std::int64_t>(cumulative_lengths.size()) - 1;
  test.desc.new_lengths = Lengths::kPacked;
  test.desc.total_new_length = total;
  test.cumulative_new_lengths = cumulative_lengths;
}

void use_positions(AppendCase& test, const std::vector<std::int32_t>& positions) {
  test.desc.has_positions = true;
  test.positions = positions;
}

void promise_alignment(AppendDesc& desc, std::uint32_t bytes) {
  for (TensorDesc* tensor :
       {&desc.query, &desc.key, &desc.value, &desc.query_output, &desc.cache_key, &desc.cache_value}) {
    tensor->alignment_bytes = bytes;
  }
}

}  // namespace vkattn::tests
