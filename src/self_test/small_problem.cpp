// Small problems of self-tests: see small_problem.hpp.
#include "self_test/small_problem.hpp"

#include <algorithm>
#include <cstring>
#include <limits>

#include "attention/features.hpp"
#include "common/integers.hpp"
#include "reference/reference.hpp"
#include "self_test/small_numbers.hpp"

namespace vkattn::detail {

namespace {

// Several tiles of rows and keys, the last ones not full.
constexpr std::int64_t kQueryLength = 37;
constexpr std::int64_t kKvLength = 75;

constexpr std::int64_t kTimedLength = 512;  // queries and keys
// About a workgroup's, and enough where another has twice as many.
constexpr std::int64_t kTimedRowsOfUnit = 128;
constexpr std::int64_t kMostTimedHeads = 64;

// A mask that hides a quarter of the keys; in a mask of bits the generator's bits decide. Whole words, as
// shaders read masks.
std::vector<std::byte> random_mask(const AttentionDesc& desc, std::uint64_t seed) {
  const auto size = static_cast<std::size_t>((mask_bytes(desc).value() + 3) / 4 * 4);
  std::vector<std::byte> bytes;
  Random random(seed);
  while (bytes.size() < size) {
    const float value = random.next();
    const bool hidden = value < -1;
    if (desc.mask.type == MaskType::kBytes) {
      bytes.push_back(std::byte{hidden ? std::uint8_t{0} : std::uint8_t{1}});
    } else if (desc.mask.type == MaskType::kBits) {
      bytes.push_back(static_cast<std::byte>(static_cast<int>((value + 2) * 64)));
    } else {
      append(bytes, hidden ? -std::numeric_limits<float>::infinity() : value,
             desc.mask.type == MaskType::kFloat16 ? DataType::kFloat16 : DataType::kFloat32);
    }
  }
  return bytes;
}

std::vector<std::byte> host_tensor(const TensorRow& row, const AttentionDesc& desc, std::uint64_t seed) {
  const TensorDesc storage = row.storage(desc);
  const TensorExtents e = row.extents(desc);
  if (row.use.written) return unwritten(static_cast<std::int64_t>(row.bytes(desc)));
  switch (row.cut) {
    case TensorCut::kMask:
      return random_mask(desc, seed);
    case TensorCut::kEntries: {
      std::vector<std::byte> length(4);
      const auto all = static_cast<std::int32_t>(desc.kv_length);
      std::memcpy(length.data(), &all, 4);
      return length;
    }
    case TensorCut::kKvHeads: {
      std::vector<std::byte> scales;
      for (std::int64_t head = 0; head < e.heads; ++head) append(scales, 1.0F / 128, DataType::kFloat32);
      return scales;
    }
    default:
      return random_rows(e.heads * e.rows, e.dims, storage.type, seed);
  }
}

// Query heads of a KV head; 1 if the problem has no heads.
std::int64_t query_heads_of_one(const AttentionDesc& desc) {
  return desc.kv_heads == 0 ? 1 : std::max<std::int64_t>(desc.query_heads / desc.kv_heads, 1);
}

}  // namespace

// Keeps what the plan's problem does to its scores. The places of keys do not matter to matrices.
AttentionDesc small_problem(const AttentionDesc& desc, TestRows rows) {
  AttentionDesc small = desc;
  small.batch = 1;
  small.query_heads = query_heads_of_one(desc);
  small.kv_heads = 1;
  if (rows == TestRows::kOfProblem) {
    small.query_length = std::max<std::int64_t>(desc.query_length, 1);
  } else {
    small.query_heads = std::min<std::int64_t>(small.query_heads, 8);
    small.query_length = kQueryLength;
  }
  small.kv_length = kKvLength;
  small.offset = small.align == Align::kOffset ? kKvLength - small.query_length : 0;
  small.scale.reset();  // one of 0 would hide wrong scores
  if (small.alibi == Alibi::kGiven) small.alibi = Alibi::kStandard;
  small.query_lengths = Lengths::kUniform;
  if (small.has_packed_keys()) small.kv_lengths = Lengths::kUniform;
  small.cache = {};
  small.weights = WeightsStage::kNone;
  small.score_function = nullptr;  // the reference cannot run it
  // Features that were left out need the shader with features; softcap needs it as well.
  const bool left_out = desc.query_lengths != Lengths::kUniform || desc.cache != small.cache ||
                        desc.weights != small.weights || desc.score_function;
  if (left_out && small.softcap == 0) small.softcap = 30;
  for (TensorDesc* const tensor : {&small.query, &small.key, &small.value, &small.output}) {
    tensor->alignment_bytes = std::min(tensor->alignment_bytes, kSmallAlignment);
  }
  small.has_lse = true;
  small.mask.heads = kUnset;  // which head of the mask a head reads does not matter to matrices
  small.set_layout(Layout::kBhsd);
  return small.resolved();
}

AttentionDesc timed_problem(const AttentionDesc& desc, std::int64_t compute_units, TestRows rows) {
  AttentionDesc timed = small_problem(desc, rows);
  const std::int64_t group = timed.query_heads;
  if (rows == TestRows::kMany) timed.query_length = kTimedLength;
  timed.kv_length = kTimedLength;
  timed.offset = timed.align == Align::kOffset ? kTimedLength - timed.query_length : 0;
  timed.kv_heads = std::clamp<std::int64_t>(
      divide_up(compute_units * kTimedRowsOfUnit, group * timed.query_length), 1, kMostTimedHeads);
  timed.query_heads = timed.kv_heads * group;
  timed.mask.heads = kUnset;
  // The right side is causality to a kernel, and how far a side reaches a parameter.
  timed.causal = desc.causal || desc.window.right != kUnlimited;
  timed.window.right = kUnlimited;
  if (timed.window.left != kUnlimited) timed.window.left = kTimedLength / 4;
  if (has_features(desc) && !has_features(timed)) timed.softcap = 30;
  timed.set_layout(Layout::kBhsd);
  timed = timed.resolved();
  // Scores of every head would be most of the memory.
  if (timed.mask.type != MaskType::kNone) timed.mask.strides->batch = timed.mask.strides->head = 0;
  return timed;
}

PerTensor<std::vector<std::byte>> small_tensors(const AttentionDesc& desc) {
  PerTensor<std::vector<std::byte>> host;
  std::uint64_t seed = 1;
  for (const TensorRow& row : tensor_table()) {
    if (row.is_used(desc)) host[row.range] = host_tensor(row, desc, seed++);
  }
  return host;
}

std::string first_difference(const AttentionDesc& desc, const HostTensors& host, DataType probability_type,
                             DataType arithmetic_type) {
  const reference::Inputs inputs{host};
  for (std::int64_t head = 0; head < desc.query_heads; ++head) {
    for (std::int64_t query = 0; query < desc.query_length; ++query) {
      const reference::Row row = reference::compute_row(desc, inputs, {0, head, query});
      const auto row_index = static_cast<std::size_t>(head * desc.query_length + query);
      const double lse = static_cast<double>(element(host.lse.bytes(), row_index, DataType::kFloat32));
      std::string wrong = difference(lse, row.lse, reference::lse_tolerance(desc, row, arithmetic_type),
                                     "head ", head, ", query ", query, ", lse");
      if (!wrong.empty()) return wrong;
      for (std::int64_t dim = 0; dim < desc.value_dim; ++dim) {
        const std::size_t index =
            row_index * static_cast<std::size_t>(desc.value_dim) + static_cast<std::size_t>(dim);
        const double got = static_cast<double>(element(host.output.bytes(), index, desc.output.type));
        wrong = difference(got, row.output[static_cast<std::size_t>(dim)],
                           reference::output_tolerance(desc, row, dim, probability_type, arithmetic_type),
                           "head ", head, ", query ", query, ", dim ", dim);
        if (!wrong.empty()) return wrong;
      }
    }
  }
  return {};
}

}  // namespace vkattn::detail
