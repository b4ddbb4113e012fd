// Attention in float64, one row at a time, as docs/semantics.md states it.
#include "reference/reference.hpp"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <cstring>
#include <limits>

namespace vkattn::reference {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

/// Key positions begin <= j < end.
struct KeyRange {
  std::int64_t begin = 0;
  std::int64_t end = 0;
};

/// One vector of a tensor: `count` elements `stride` apart.
struct Vector {
  const void* tensor = nullptr;
  DataType type = DataType::kFloat32;
  std::int64_t first = 0;
  std::int64_t stride = 1;
  std::int64_t count = 0;
};

Vector vector_at(const void* tensor, const TensorDesc& desc, std::int64_t batch, std::int64_t head,
                 std::int64_t row, std::int64_t count) {
  const std::int64_t first = batch * desc.strides.batch + head * desc.strides.head + row * desc.strides.row;
  return {tensor, desc.type, first, desc.strides.dim, count};
}

/// Element by element through memcpy, because a tensor may begin at any address that suits its elements.
template <class Storage, class Convert>
void decode_as(const Vector& vector, std::vector<double>& out, Convert convert) {
  const auto* bytes = static_cast<const std::byte*>(vector.tensor);
  for (std::int64_t i = 0; i < vector.count; ++i) {
    Storage stored;
    std::memcpy(&stored,
                bytes + (vector.first + i * vector.stride) * static_cast<std::int64_t>(sizeof(Storage)),
                sizeof(Storage));
    out[static_cast<std::size_t>(i)] = static_cast<double>(convert(stored));
  }
}

/// The vector's elements as doubles, exactly.
void decode(const Vector& vector, std::vector<double>& out) {
  out.resize(static_cast<std::size_t>(vector.count));
  switch (vector.type) {
    case DataType::kFloat32:
      return decode_as<float>(vector, out, [](float value) { return value; });
    case DataType::kFloat16:
      return decode_as<std::uint16_t>(vector, out, half_to_float);
    case DataType::kBfloat16:
      return decode_as<std::uint16_t>(vector, out, bfloat16_to_float);
  }
}

/// The keys of a batch entry that exist at all.
std::int64_t key_length(const AttentionDesc& desc, const Inputs& inputs, std::int64_t batch) {
  if (!desc.has_kv_lengths) return desc.kv_length;
  const std::int64_t given = inputs.kv_lengths[static_cast<std::size_t>(batch)];
  return std::clamp<std::int64_t>(given, 0, desc.kv_length);
}

/// The key position that lines up with query 0.
std::int64_t position_offset(const AttentionDesc& desc, std::int64_t key_length) {
  switch (desc.align) {
    case Align::kTopLeft:
      return 0;
    case Align::kBottomRight:
      return key_length - desc.query_length;
    case Align::kOffset:
      break;
  }
  return desc.offset;
}

/// The keys that lengths and causality leave to query position `row.query`.
KeyRange visible_range(const AttentionDesc& desc, const Inputs& inputs, RowIndex row) {
  const std::int64_t length = key_length(desc, inputs, row.batch);
  KeyRange range{0, length};
  if (desc.causal) {
    const std::int64_t last = row.query + position_offset(desc, length);
    range.end = std::clamp<std::int64_t>(last + 1, 0, length);
  }
  return range;
}

/// The scores of one row over a range of keys.
struct Scores {
  std::vector<double> value;  ///< for j from range.begin on; -inf hides
  double largest = -kInfinity;
  double magnitude = 0;  ///< A_i over the visible ones
  std::int64_t visible = 0;
};

Scores compute_scores(const AttentionDesc& desc, const Inputs& inputs, RowIndex row, KeyRange range) {
  const std::int64_t kv_head = row.head / (desc.query_heads / desc.kv_heads);
  const auto scale = static_cast<double>(desc.effective_scale());
  std::vector<double> query;
  std::vector<double> key;
  decode(vector_at(inputs.query, desc.query, row.batch, row.head, row.query, desc.head_dim), query);
  Scores scores;
  scores.value.reserve(static_cast<std::size_t>(range.end - range.begin));
  for (std::int64_t j = range.begin; j < range.end; ++j) {
    decode(vector_at(inputs.key, desc.key, row.batch, kv_head, j, desc.head_dim), key);
    double dot = 0;
    double magnitude = 0;
    for (std::size_t d = 0; d < query.size(); ++d) {
      const double product = query[d] * key[d];
      dot += product;
      magnitude += std::abs(product);
    }
    const double score = scale * dot;
    scores.value.push_back(score);
    if (score == -kInfinity) continue;
    ++scores.visible;
    scores.largest = std::max(scores.largest, score);
    scores.magnitude = std::max(scores.magnitude, std::abs(scale) * magnitude);
  }
  return scores;
}

}  // namespace

Row compute_row(const AttentionDesc& desc, const Inputs& inputs, RowIndex row) {
  assert(row.batch >= 0 && row.batch < desc.batch && row.head >= 0 && row.head < desc.query_heads);
  assert(row.query >= 0 && row.query < desc.query_length);
  const std::int64_t kv_head = row.head / (desc.query_heads / desc.kv_heads);
  const auto dims = static_cast<std::size_t>(desc.value_dim);
  const KeyRange range = visible_range(desc, inputs, row);
  const Scores scores = compute_scores(desc, inputs, row, range);

  Row result;
  result.output.assign(dims, 0.0);
  result.value_magnitude.assign(dims, 0.0);
  result.visible_keys = scores.visible;
  result.score_magnitude = scores.magnitude;
  result.lse = -kInfinity;
  if (scores.visible == 0) return result;

  double sum = 0;
  std::vector<double> value;
  for (std::int64_t j = range.begin; j < range.end; ++j) {
    const double score = scores.value[static_cast<std::size_t>(j - range.begin)];
    if (score == -kInfinity) continue;
    const double weight = std::exp(score - scores.largest);
    sum += weight;
    decode(vector_at(inputs.value, desc.value, row.batch, kv_head, j, desc.value_dim), value);
    for (std::size_t d = 0; d < dims; ++d) {
      result.output[d] += weight * value[d];
      result.value_magnitude[d] += weight * std::abs(value[d]);
    }
  }
  for (std::size_t d = 0; d < dims; ++d) {
    result.output[d] /= sum;
    result.value_magnitude[d] /= sum;
  }
  result.lse = scores.largest + std::log(sum);
  return result;
}

namespace {

/// The distance of neighbouring numbers of a 16-bit type at |value|, as far down as its subnormals.
double unit_in_last_place(DataType type, double magnitude) {
  const bool half = type == DataType::kFloat16;
  const int mantissa_bits = half ? 10 : 7;
  const int least_exponent = half ? -14 : -126;
  int exponent = least_exponent;
  if (magnitude > 0 && std::isfinite(magnitude)) exponent = std::max(std::ilogb(magnitude), least_exponent);
  return std::ldexp(1.0, exponent - mantissa_bits);
}

/// What storing a result may add to its error.
double storage_tolerance(DataType type, double magnitude) {
  if (type == DataType::kFloat32) return 0;
  const double unit = unit_in_last_place(type, magnitude);
  // Vulkan lets a device flush float16 subnormals to zero unless it promises to keep them, so below 2^-14 the
  // whole number may be lost. (float32 and bfloat16 subnormals are too small to occur here.)
  if (type == DataType::kFloat16 && magnitude < 0x1p-14 + unit) return std::max(unit, magnitude);
  return unit;
}

/// What rounding the probabilities to nearest may add, as a share of sum p |v|.
double probability_tolerance(DataType type) {
  return type == DataType::kFloat32 ? 0 : type == DataType::kFloat16 ? 0x1p-11 : 0x1p-8;
}

double arithmetic_tolerance(const AttentionDesc& desc, const Row& row) {
  const double factor = 16.0 + std::sqrt(static_cast<double>(desc.kv_length));
  return factor * 0x1p-24 * (1.0 + row.score_magnitude);
}

}  // namespace

double output_tolerance(const AttentionDesc& desc, const Row& row, std::int64_t dim,
                        DataType probability_type) {
  const auto d = static_cast<std::size_t>(dim);
  return (arithmetic_tolerance(desc, row) + probability_tolerance(probability_type)) *
             row.value_magnitude[d] +
         storage_tolerance(desc.output.type, std::abs(row.output[d]));
}

double lse_tolerance(const AttentionDesc& desc, const Row& row) {
  return arithmetic_tolerance(desc, row) + 0x1p-22 * std::abs(row.lse);
}

}  // namespace vkattn::reference
