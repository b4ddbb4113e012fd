// Host problem: see host_problem.hpp.
#include "support/host_problem.hpp"

#include <algorithm>
#include <span>

#include "harness/fill.hpp"
#include "support/problem_text.hpp"

namespace vkattn::tests {
namespace {

/// Memory of a tensor. It holds the pattern wherever `fill` writes nothing. It is exactly as long as the
/// tensor, so the address sanitizer sees a read beyond its end.
template <class Fill>
std::vector<std::byte> filled(const harness::TensorShape& shape, harness::Pattern around, Fill fill) {
  std::vector<std::byte> bytes(static_cast<std::size_t>(*shape.bytes()));
  for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] = around[i % around.size()];
  fill([&](std::int64_t at, std::span<const std::byte> element) {
    std::copy(element.begin(), element.end(), bytes.begin() + at);
  });
  return bytes;
}

}  // namespace

HostProblem::HostProblem(std::string_view text) : HostProblem(parsed(text)) {}

HostProblem::HostProblem(const Problem& given) : problem(given), small(harness::make_small_inputs(given)) {
  const AttentionDesc& desc = problem.desc;
  const auto tensor = [&](const harness::TensorShape& shape, harness::TensorRole role) {
    return filled(shape, harness::input_filler(shape.desc.type),
                  [&](const harness::PutElement& put) { harness::fill_tensor(problem, role, small, put); });
  };
  query = tensor(harness::query_shape(desc), harness::TensorRole::kQuery);
  key = tensor(harness::key_shape(desc), harness::TensorRole::kKey);
  value = tensor(harness::value_shape(desc), harness::TensorRole::kValue);
  if (desc.mask.type == MaskType::kNone) return;
  mask = filled(harness::mask_shape(desc), harness::mask_filler(desc.mask.type),
                [&](const harness::PutElement& put) { harness::fill_mask(problem, put); });
}

reference::Inputs HostProblem::inputs() const {
  reference::Inputs result;
  result.query = query;
  result.key = key;
  result.value = value;
  result.mask = mask;
  result.kv_lengths = small.kv_lengths;
  result.query_lengths = small.query_lengths;
  result.cumulative_query_lengths = small.cumulative_query_lengths;
  result.cumulative_kv_lengths = small.cumulative_kv_lengths;
  result.page_table = small.page_table;
  result.key_scales = small.key_scales;
  result.value_scales = small.value_scales;
  result.alibi_slopes = small.per_head[&AttentionTensors::alibi_slopes];
  result.sinks = small.per_head[&AttentionTensors::sinks];
  result.dropout_seed = problem.dropout_seed;
  result.dropout_offset = problem.dropout_offset;
  return result;
}

}  // namespace vkattn::tests
