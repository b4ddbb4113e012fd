#include "float64.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

namespace vkattn::ggml {

namespace {

AttentionDesc plain_problem(const Shape& shape) {
  AttentionDesc desc;
  desc.batch = shape.batch;
  desc.query_heads = shape.query_heads;
  desc.kv_heads = shape.kv_heads;
  desc.query_length = shape.queries;
  desc.kv_length = shape.keys;
  desc.head_dim = shape.head_dim;
  desc.value_dim = shape.value_dim;
  desc.softcap = shape.softcap;
  desc.has_sinks = shape.has_sinks;
  if (shape.mask != Mask::kNone) desc.mask.type = MaskType::kFloat32;
  return desc.resolved();
}

void widen(Error& error, const Error& other) {
  error.error = std::max(error.error, other.error);
  error.share = std::max(error.share, other.share);
}

}  // namespace

Float64::Float64(const Shape& shape, const Graph& graph)
    : desc_(plain_problem(shape)), query_(graph.query()), key_(graph.key()), value_(graph.value()) {
  if (shape.mask != Mask::kNone) bias_ = graph.bias();
  if (shape.has_sinks) sinks_ = graph.sinks();
  inputs_.query = query_;
  inputs_.key = key_;
  inputs_.value = value_;
  inputs_.mask = bias_;
  inputs_.sinks = sinks_;
}

Error Float64::compare(const std::vector<float>& output, const reference::RowIndex& row) const {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  const reference::Row expected = reference::compute_row(desc_, inputs_, row);
  const std::int64_t first =
      ((row.batch * desc_.query_length + row.query) * desc_.query_heads + row.head) * desc_.value_dim;
  Error largest;
  for (std::int64_t dim = 0; dim < desc_.value_dim; ++dim) {
    const double got = output[static_cast<std::size_t>(first + dim)];
    const double error = std::abs(got - expected.output[static_cast<std::size_t>(dim)]);
    const double allowed = reference::output_tolerance(desc_, expected, dim);
    if (error == 0) continue;
    widen(largest, std::isnan(error) ? Error{kInfinity, kInfinity} : Error{error, error / allowed});
  }
  return largest;
}

Error Float64::compare(const std::vector<float>& output) const {
  Error largest;
  for (reference::RowIndex row; row.batch < desc_.batch; ++row.batch) {
    for (row.head = 0; row.head < desc_.query_heads; ++row.head) {
      for (row.query = 0; row.query < desc_.query_length; ++row.query) widen(largest, compare(output, row));
    }
  }
  return largest;
}

Error Float64::compare_some(const std::vector<float>& output) const {
  Error largest;
  for (const std::int64_t head : {std::int64_t{0}, desc_.query_heads - 1}) {
    for (const std::int64_t query : {std::int64_t{0}, desc_.query_length / 2, desc_.query_length - 1}) {
      widen(largest, compare(output, {desc_.batch - 1, head, query}));
    }
  }
  return largest;
}

}  // namespace vkattn::ggml
