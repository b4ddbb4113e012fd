// Appends to a problem's cache: see append_problem.hpp.
#include "harness/append_problem.hpp"

#include <vkattn/cache.hpp>

#include <algorithm>
#include <bit>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

#include "harness/host_view.hpp"
#include "harness/row_map.hpp"
#include "problem/word_table.hpp"

namespace vkattn::harness {
namespace {

/// New rows have the type that the cache stores, or float32 if the cache is quantised.
DataType source_type(DataType stored) {
  return is_quantised(stored) ? DataType::kFloat32 : stored;
}

AppendDesc append_desc(const Problem& problem) {
  const AttentionDesc& attention = problem.desc;
  AppendDesc desc;
  desc.batch = attention.batch;
  desc.kv_heads = attention.kv_heads;
  desc.new_length = problem.appended;
  if (attention.has_packed_queries()) {
    // Rows are packed like the queries: the first problem.appended queries of each batch entry have one each.
    desc.new_lengths = Lengths::kPacked;
    desc.total_new_length = attention.total_query_length;
    desc.new_length = std::min(problem.appended, attention.query_length);
  }
  desc.head_dim = attention.head_dim;
  desc.value_dim = attention.value_dim;
  desc.cache = attention.cache;
  desc.cache_length = attention.cache.mapping == KeyMapping::kContiguous ? attention.kv_length : 0;
  desc.has_positions = true;
  desc.key.type = source_type(attention.key.type);
  desc.value.type = source_type(attention.value.type);
  desc.key.alignment_bytes = desc.value.alignment_bytes = bench::default_alignment(problem);
  desc.cache_key = attention.key;
  desc.cache_value = attention.value;
  if (problem.rotary == RotaryStyle::kNone) return desc.resolved();
  desc.query_heads = attention.query_heads;
  desc.query = desc.query_output = attention.query;
  desc.rotary.style = problem.rotary;
  desc.rotary.dims = attention.head_dim;
  return desc.resolved();
}

/// Makes the new rows of K or V.
void fill_new_rows(const Problem& problem, TensorRole role, const SmallInputs& inputs,
                   const TensorShape& shape, const PutElement& put) {
  TensorData data(problem, role);
  const RowMap queries(problem, inputs, TensorRole::kQuery);
  const bool packed = problem.desc.has_packed_queries();
  const DataType stored = role == TensorRole::kKey ? problem.desc.key.type : problem.desc.value.type;
  const std::size_t size = element_bytes(shape.desc.type);
  AddressOrder(shape).for_each([&](std::int64_t offset, const Position& p) {
    const auto row = packed ? queries.at(p.batch, p.row) : RowMap::Place{p.batch, p.row};
    if (!row.has_value()) return;
    const std::int64_t count = new_rows(problem, row->batch);
    const std::int64_t key = key_length(problem, row->batch) - count + row->row;
    if (row->row >= count || key < 0) return;
    const Position position{row->batch, p.head, key, p.dim};
    const std::uint32_t bits = is_quantised(stored)
                                   ? std::bit_cast<std::uint32_t>(static_cast<float>(data.element(position)))
                                   : data.stored(position);
    std::byte bytes[4];
    std::memcpy(bytes, &bits, sizeof(bits));  // little-endian: the low half comes first
    put(offset * static_cast<std::int64_t>(size), std::span(bytes, size));
  });
}

Result<void> expect_bytes(std::string_view name, const TensorBuffer& tensor,
                          std::span<const std::byte> expected, std::span<const std::byte> got) {
  const auto [at, other] = std::mismatch(expected.begin(), expected.end(), got.begin());
  if (at == expected.end()) return {};
  const auto byte = (at - expected.begin()) - static_cast<std::ptrdiff_t>(tensor.offset);
  return Error{ErrorCode::kVulkan,
               {},
               "the append left " + std::to_string(std::to_integer<int>(*other)) + " in byte " +
                   std::to_string(byte) + " of " + std::string(name) + ", where filling it left " +
                   std::to_string(std::to_integer<int>(*at))};
}

/// K or V during an append: what it held, and the rows that will be appended.
struct Cached {
  std::string_view name;
  TensorRole role;
  const TensorBuffer& tensor;
  const TensorDesc& desc;
  TensorShape new_shape;
  std::vector<std::byte> expected;
  TensorBuffer new_rows;
};

Result<void> take_out(const Runtime& runtime, const Problem& problem, const SmallInputs& inputs,
                      Cached& cached) {
  const auto held = HostView::of(runtime, cached.tensor);
  if (!held.ok()) return held.error();
  cached.expected.assign(held->bytes().begin(), held->bytes().end());
  const auto keep = [&](const PutElement& put) {
    fill_tensor(problem, cached.role, inputs, put, Keys::kBeforeAppend);
  };
  Result<void> status = fill_with(runtime, cached.tensor, input_filler(cached.desc.type), keep);
  if (!status.ok()) return status;
  if (status = place(runtime, cached.new_shape, problem.shift, cached.new_rows); !status.ok()) return status;
  const auto fill = [&](const PutElement& put) {
    fill_new_rows(problem, cached.role, inputs, cached.new_shape, put);
  };
  return fill_with(runtime, cached.new_rows, input_filler(cached.new_shape.desc.type), fill);
}

Result<void> run_append(const Runtime& runtime, const AppendDesc& desc, const AppendTensors& tensors) {
  const auto plan = runtime.make_plan(desc);
  if (!plan.ok()) return plan.error();
  const auto bindings = plan->make_bindings(tensors);
  if (!bindings.ok()) return bindings.error();
  const auto time = runtime.execute([&](VkCommandBuffer commands) { plan->record(commands, *bindings); });
  return time.ok() ? Result<void>() : Result<void>(time.error());
}

}  // namespace

Result<void> append_keys(const Runtime& runtime, const Problem& problem, const SmallInputs& inputs,
                         const detail::PerTensor<TensorBuffer>& tensors) {
  const AppendDesc desc = append_desc(problem);
  if (desc.is_empty()) return {};
  const auto new_shape = [&](const TensorDesc& rows, std::int64_t dims) {
    const TensorExtents e = new_row_extents(desc, desc.kv_heads, dims);
    return TensorShape{rows, e.batch, e.heads, e.rows, e.dims};
  };
  Cached caches[] = {{"K",
                      TensorRole::kKey,
                      tensors[&AttentionTensors::key],
                      desc.cache_key,
                      new_shape(desc.key, desc.head_dim),
                      {},
                      {}},
                     {"V",
                      TensorRole::kValue,
                      tensors[&AttentionTensors::value],
                      desc.cache_value,
                      new_shape(desc.value, desc.value_dim),
                      {},
                      {}}};
  for (Cached& cached : caches) {
    if (Result<void> s = take_out(runtime, problem, inputs, cached); !s.ok()) return s;
  }
  std::vector<std::int32_t> positions;
  for (std::int64_t b = 0; b < desc.batch; ++b) {
    positions.push_back(static_cast<std::int32_t>(key_length(problem, b) - new_rows(problem, b)));
  }
  TensorBuffer position_buffer;
  const auto numbers = std::as_bytes(std::span(positions));
  Result<void> status = place(runtime, static_cast<std::int64_t>(numbers.size()), 0, position_buffer);
  if (!status.ok()) return status;
  status =
      fill_with(runtime, position_buffer, pattern_of(0), [&](const PutElement& put) { put(0, numbers); });
  if (!status.ok()) return status;

  AppendTensors all;
  all.key = range_of(caches[0].new_rows);
  all.value = range_of(caches[1].new_rows);
  all.cache_key = range_of(tensors[&AttentionTensors::key]);
  all.cache_value = range_of(tensors[&AttentionTensors::value]);
  all.positions = range_of(position_buffer);
  if (desc.new_lengths == Lengths::kPacked) {
    all.cumulative_new_lengths = range_of(tensors[&AttentionTensors::cumulative_query_lengths]);
  }
  all.page_table = range_of(tensors[&AttentionTensors::page_table]);
  all.key_scales = range_of(tensors[&AttentionTensors::key_scales]);
  all.value_scales = range_of(tensors[&AttentionTensors::value_scales]);
  if (desc.query_heads > 0) all.query = all.query_output = range_of(tensors[&AttentionTensors::query]);
  if (status = run_append(runtime, desc, all); !status.ok()) return status;

  for (const Cached& cached : caches) {
    if (problem.rotary != RotaryStyle::kNone && cached.role == TensorRole::kKey) continue;
    const auto got = HostView::of(runtime, cached.tensor);
    if (!got.ok()) return got.error();
    status = expect_bytes(cached.name, cached.tensor, cached.expected, got->bytes());
    if (!status.ok()) return status;
  }
  return {};
}

}  // namespace vkattn::harness
