// Small problems of self-tests: see small_problem.hpp.
#include "self_test/small_problem.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <span>

#include "attention/features.hpp"
#include "common/integers.hpp"
#include "common/message.hpp"
#include "reference/reference.hpp"

namespace vkattn::detail {

namespace {

// Several tiles of rows and keys, the last ones not full.
constexpr std::int64_t kQueryLength = 37;
constexpr std::int64_t kKvLength = 75;

constexpr std::int64_t kTimedLength = 512;  // queries and keys
// About a workgroup's, and enough where another has twice as many.
constexpr std::int64_t kTimedRowsOfUnit = 128;
constexpr std::int64_t kMostTimedHeads = 64;

// More elements repeat the first ones: large tensors are made in little time. No head of a small problem
// does.
constexpr std::int64_t kDistinctElements = std::int64_t{1} << 18U;

void append(std::vector<std::byte>& bytes, float value, DataType type) {
  std::uint32_t bits = std::bit_cast<std::uint32_t>(value);
  if (type == DataType::kFloat16) bits = float_to_half(value);
  if (type == DataType::kBfloat16) bits = float_to_bfloat16(value);
  for (std::uint32_t i = 0; i < element_bytes(type); ++i)
    bytes.push_back(static_cast<std::byte>(bits >> 8U * i));
}

float element(std::span<const std::byte> bytes, std::size_t index, DataType type) {
  if (type == DataType::kFloat32) {
    float value = 0;
    std::memcpy(&value, &bytes[index * 4], 4);
    return value;
  }
  std::uint16_t bits = 0;
  std::memcpy(&bits, &bytes[index * 2], 2);
  return type == DataType::kFloat16 ? half_to_float(bits) : bfloat16_to_float(bits);
}

// Uniform in [-2, 2), by a linear congruential generator (Knuth, MMIX): the same on every machine.
class Random {
 public:
  explicit Random(std::uint64_t seed) : state_(seed) {}
  float next() {
    state_ = state_ * 6364136223846793005ULL + 1442695040888963407ULL;
    return static_cast<float>(static_cast<double>(state_ >> 40U) / double{1 << 22} - 2.0);
  }

 private:
  std::uint64_t state_;
};

void repeat(std::vector<std::byte>& bytes, std::size_t size) {
  const std::size_t period = bytes.size();
  bytes.resize(size);
  for (std::size_t at = period; at < size; at += period) {
    std::memcpy(&bytes[at], bytes.data(), std::min(period, size - at));
  }
}

std::vector<std::byte> random_tensor(std::int64_t elements, DataType type, std::uint64_t seed) {
  std::vector<std::byte> bytes;
  Random random(seed);
  for (std::int64_t i = 0; i < std::min(elements, kDistinctElements); ++i) append(bytes, random.next(), type);
  repeat(bytes, static_cast<std::size_t>(elements) * element_bytes(type));
  return bytes;
}

// In blocks where the type has some: scales up to 2 / 127, or that of the head, times any elements but NaN.
// Whole words, as tensors of bytes are read.
std::vector<std::byte> random_rows(std::int64_t rows, std::int64_t dims, DataType type, std::uint64_t seed) {
  if (!is_quantised(type)) return random_tensor(rows * dims, type, seed);
  std::vector<std::byte> bytes;
  Random random(seed);
  const std::int64_t blocks = rows * dims / block_elements(type);
  const std::int64_t distinct = std::min(blocks, kDistinctElements / block_elements(type));
  for (std::int64_t block = 0; block < distinct; ++block) {
    std::uint32_t elements = block_bytes(type);
    if (block_elements(type) > 1) {
      append(bytes, random.next() / 127.0F, DataType::kFloat16);
      elements -= 2;
    }
    for (std::uint32_t i = 0; i < elements; ++i) {
      const auto bits = static_cast<unsigned>((random.next() + 2) * 64);
      const bool is_nan = type == DataType::kFloat8E4m3 && (bits & 0x7fU) == 0x7fU;
      bytes.push_back(static_cast<std::byte>(is_nan ? 0U : bits));
    }
  }
  const std::size_t whole = static_cast<std::size_t>(blocks) * block_bytes(type);
  repeat(bytes, whole);
  bytes.resize(divide_up(whole, std::size_t{4}) * 4);
  return bytes;
}

// A quarter of the keys hidden; in a mask of bits as many as the generator's bits say. Whole words, as masks
// are read.
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

// What no kernel writes: a NaN of its own, so that a row that is left out is found.
std::vector<std::byte> unwritten(std::int64_t bytes) {
  return {static_cast<std::size_t>(bytes), std::byte{0xff}};
}

std::vector<std::byte> host_tensor(const TensorRow& row, const AttentionDesc& desc, std::uint64_t seed) {
  const TensorDesc storage = row.storage(desc);
  const TensorExtents e = tensor_extents(row, desc);
  if (row.use.written) {
    return unwritten(tensor_bytes(storage, e.batch, e.heads, e.rows, e.dims).value());
  }
  switch (row.cut) {
    case TensorCut::kScores:
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

// To each KV head; 1 where the problem has none of either.
std::int64_t query_heads_of_one(const AttentionDesc& desc) {
  return desc.kv_heads == 0 ? 1 : std::max<std::int64_t>(desc.query_heads / desc.kv_heads, 1);
}

}  // namespace

// Has what the plan's problem does to its scores. Where its keys lie is of no matter to the matrices.
AttentionDesc small_problem(const AttentionDesc& desc) {
  AttentionDesc small = desc;
  small.batch = 1;
  small.query_heads = std::min<std::int64_t>(query_heads_of_one(desc), 8);
  small.kv_heads = 1;
  small.query_length = kQueryLength;
  small.kv_length = kKvLength;
  small.offset = small.align == Align::kOffset ? kKvLength - kQueryLength : 0;
  small.scale.reset();  // one of 0 would hide wrong scores
  if (small.alibi == Alibi::kGiven) small.alibi = Alibi::kStandard;
  small.query_lengths = Lengths::kUniform;
  if (small.has_packed_keys()) small.kv_lengths = Lengths::kUniform;
  small.cache = {};
  small.weights = WeightsStage::kNone;
  small.score_function.reset();  // the reference cannot run it
  // What was left out calls for the shader with features, and so does softcap.
  const bool left_out = desc.query_lengths != Lengths::kUniform || desc.cache != small.cache ||
                        desc.weights != small.weights || desc.score_function;
  if (left_out && small.softcap == 0) small.softcap = 30;
  small.has_lse = true;
  small.set_layout(Layout::kBhsd);
  return small.resolved();
}

AttentionDesc timed_problem(const AttentionDesc& desc, std::int64_t compute_units) {
  AttentionDesc timed = small_problem(desc);
  const std::int64_t group = timed.query_heads;
  timed.query_length = timed.kv_length = kTimedLength;
  timed.offset = 0;
  timed.kv_heads = std::clamp<std::int64_t>(divide_up(compute_units * kTimedRowsOfUnit, group * kTimedLength),
                                            1, kMostTimedHeads);
  timed.query_heads = timed.kv_heads * group;
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

std::string first_difference(const AttentionDesc& desc, const HostTensors& host, DataType probability_type) {
  const reference::Inputs inputs{host};
  std::string difference;
  const auto is_right = [&](double got, double expected, double tolerance, std::int64_t head,
                            std::int64_t query, const std::string& what) {
    if (got == expected || std::abs(got - expected) <= tolerance) return true;  // false for NaN
    difference = message("head ", head, ", query ", query, ", ", what, " is ", got, " where ", expected,
                         " was expected");
    return false;
  };
  for (std::int64_t head = 0; head < desc.query_heads; ++head) {
    for (std::int64_t query = 0; query < desc.query_length; ++query) {
      const reference::Row row = reference::compute_row(desc, inputs, {0, head, query});
      const auto row_index = static_cast<std::size_t>(head * desc.query_length + query);
      const double lse = static_cast<double>(element(host.lse.bytes(), row_index, DataType::kFloat32));
      if (!is_right(lse, row.lse, reference::lse_tolerance(desc, row), head, query, "lse")) return difference;
      for (std::int64_t dim = 0; dim < desc.value_dim; ++dim) {
        const std::size_t index =
            row_index * static_cast<std::size_t>(desc.value_dim) + static_cast<std::size_t>(dim);
        const double got = static_cast<double>(element(host.output.bytes(), index, desc.output.type));
        if (!is_right(got, row.output[static_cast<std::size_t>(dim)],
                      reference::output_tolerance(desc, row, dim, probability_type), head, query,
                      message("dim ", dim))) {
          return difference;
        }
      }
    }
  }
  return difference;
}

}  // namespace vkattn::detail
