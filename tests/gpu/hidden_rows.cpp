// See hidden_rows.hpp.
#include "gpu/hidden_rows.hpp"

#include <algorithm>
#include <cmath>
#include <vector>

#include "reference/positions.hpp"
#include "support/cache_reference.hpp"
#include "support/special_numbers.hpp"

namespace vkattn::tests {
namespace {

/// Blocks of 32 become NaN by their scale, which comes first. Blocks and float8 have no infinity.
harness::Pattern pattern_of(DataType type, Bad bad) {
  const harness::Pattern nan = harness::input_filler(type);
  if (bad == Bad::kNotANumber || is_quantised(type)) return nan;
  const std::uint32_t bits = encoded(type, bad == Bad::kPlusInfinity ? kInfinity : -kInfinity);
  return harness::pattern_of(type == DataType::kFloat32 ? bits : bits << 16 | bits);
}

}  // namespace

SeenRows seen_rows(const AttentionDesc& desc, const reference::Inputs& inputs) {
  AttentionDesc with_weights = desc;
  with_weights.weights = WeightsStage::kMasked;  // shows hidden keys as -inf
  const std::int64_t group = desc.query_heads / desc.kv_heads;
  SeenRows seen;
  for (std::int64_t b = 0; b < desc.batch; ++b) {
    for (std::int64_t h = 0; h < desc.query_heads; ++h) {
      for (std::int64_t i = 0; i < reference::query_length(desc, inputs, b); ++i) {
        const reference::Row row = reference::compute_row(with_weights, inputs, {b, h, i});
        for (std::int64_t j = 0; j < desc.kv_length; ++j) {
          if (std::isinf(row.weights[static_cast<std::size_t>(j)])) continue;
          const reference::KeyPlace key = reference::stored_key(desc, inputs, b, j);
          seen.keys.insert({key.batch, h / group, key.row});
          const reference::RowIndex query = reference::stored_row(desc, inputs, {b, h, i});
          seen.queries.insert({query.batch, query.head, query.query});
        }
      }
    }
  }
  return seen;
}

std::size_t poison_unseen(const Runtime& runtime, const harness::TensorBuffer& tensor,
                          const harness::TensorShape& shape, const StoredRows& seen, Bad bad) {
  const harness::Pattern pattern = pattern_of(shape.desc.type, bad);
  const harness::TensorShape blocks = harness::in_blocks(shape);
  const std::size_t size = block_bytes(shape.desc.type);
  std::vector<std::byte> bytes = read_back(runtime, tensor);
  std::size_t poisoned = 0;
  harness::AddressOrder(blocks).for_each([&](std::int64_t offset, const harness::Position& p) {
    if (seen.count({p.batch, p.head, p.row}) != 0) return;
    std::byte* const element = bytes.data() + tensor.offset + static_cast<std::size_t>(offset) * size;
    for (std::size_t i = 0; i < std::min(size, pattern.size()); ++i) element[i] = pattern[i];
    ++poisoned;
  });
  must(runtime.write(tensor.buffer, 0, bytes));
  return poisoned;
}

std::size_t poison_hidden_keys(const Runtime& runtime, const harness::ProblemRun& run, bool in_values,
                               Bad bad) {
  const AttentionDesc& desc = run.problem().desc;
  StoredRows seen;
  must(run.visit_inputs([&](const reference::Inputs& inputs) { seen = seen_rows(desc, inputs).keys; }));
  if (in_values) (void)poison_unseen(runtime, run.value(), harness::value_shape(desc), seen, bad);
  return poison_unseen(runtime, run.key(), harness::key_shape(desc), seen, bad);
}

}  // namespace vkattn::tests
