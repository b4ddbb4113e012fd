// Storage: see storage.hpp. Everything is read through memcpy, because a tensor may begin at any address that
// suits its elements.
#include "reference/storage.hpp"

#include <cstddef>
#include <cstring>
#include <limits>

namespace vkattn::reference {
namespace {

template <class Storage>
Storage load(const void* memory, std::int64_t byte) {
  Storage stored;
  std::memcpy(&stored, static_cast<const std::byte*>(memory) + byte, sizeof(Storage));
  return stored;
}

template <class Storage>
Storage load_element(const void* memory, std::int64_t element) {
  return load<Storage>(memory, element * static_cast<std::int64_t>(sizeof(Storage)));
}

template <class Storage, class Convert>
void decode_as(const Vector& vector, std::vector<double>& out, Convert convert) {
  for (std::int64_t i = 0; i < vector.count; ++i) {
    const auto stored = load_element<Storage>(vector.tensor, vector.first + i * vector.stride);
    out[static_cast<std::size_t>(i)] = static_cast<double>(convert(stored));
  }
}

/// Blocks of 32 elements behind a float16 scale. `integer(block's first byte, element)` reads one.
template <class Integer>
void decode_blocks(const Vector& vector, std::vector<double>& out, Integer integer) {
  const std::int64_t elements = block_elements(vector.type);
  const std::int64_t bytes = block_bytes(vector.type);
  for (std::int64_t i = 0; i < vector.count; ++i) {
    const std::int64_t element = vector.first + i;  // the stride of blocks is 1
    const std::int64_t block = element / elements * bytes;
    const float scale = half_to_float(load<std::uint16_t>(vector.tensor, block));
    out[static_cast<std::size_t>(i)] = static_cast<double>(scale) * integer(block + 2, element % elements);
  }
}

void decode_q8_0(const Vector& vector, std::vector<double>& out) {
  decode_blocks(vector, out, [&](std::int64_t bytes, std::int64_t element) {
    return static_cast<double>(load<std::int8_t>(vector.tensor, bytes + element));
  });
}

void decode_q4_0(const Vector& vector, std::vector<double>& out) {
  decode_blocks(vector, out, [&](std::int64_t bytes, std::int64_t element) {
    const unsigned pair = load<std::uint8_t>(vector.tensor, bytes + element % 16);
    const unsigned nibble = element < 16 ? pair & 0xfU : pair >> 4U;
    return static_cast<double>(nibble) - 8.0;
  });
}

}  // namespace

Vector vector_at(const HostInput& tensor, const TensorDesc& desc, std::int64_t batch, std::int64_t head,
                 std::int64_t row, std::int64_t count) {
  const std::int64_t first =
      batch * desc.strides->batch + head * desc.strides->head + row * desc.strides->row;
  return {tensor.bytes().data(), desc.type, first, desc.strides->dim, count};
}

void decode(const Vector& vector, std::vector<double>& out) {
  out.resize(static_cast<std::size_t>(vector.count));
  switch (vector.type) {
    case DataType::kFloat16:
      return decode_as<std::uint16_t>(vector, out, half_to_float);
    case DataType::kBfloat16:
      return decode_as<std::uint16_t>(vector, out, bfloat16_to_float);
    case DataType::kQ8_0:
      return decode_q8_0(vector, out);
    case DataType::kQ4_0:
      return decode_q4_0(vector, out);
    case DataType::kFloat8E4m3:
      return decode_as<std::uint8_t>(vector, out, [&](std::uint8_t stored) {
        return static_cast<double>(e4m3_to_float(stored)) * vector.scale;
      });
    case DataType::kFloat32:
      break;
  }
  decode_as<float>(vector, out, [](float value) { return value; });
}

std::int64_t mask_head(const AttentionDesc& desc, std::int64_t head) {
  return desc.mask.type == MaskType::kNone ? 0 : head % mask_extents(desc).heads;
}

double mask_bias(const HostInput& mask, const AttentionDesc& desc, std::int64_t batch, std::int64_t head,
                 std::int64_t query, std::int64_t key) {
  if (desc.mask.type == MaskType::kNone) return 0;
  const Strides& s = *desc.mask.strides;
  const std::int64_t element = batch * s.batch + mask_head(desc, head) * s.head + query * s.row + key * s.dim;
  bool visible = true;
  switch (desc.mask.type) {
    case MaskType::kNone:
      break;
    case MaskType::kFloat32:
      return static_cast<double>(number_at<float>(mask, element));
    case MaskType::kFloat16:
      return static_cast<double>(half_to_float(number_at<std::uint16_t>(mask, element)));
    case MaskType::kBytes:
      visible = number_at<std::uint8_t>(mask, element) != 0;
      break;
    case MaskType::kBits:
      visible = (number_at<std::uint32_t>(mask, element / 32) >> (element % 32) & 1U) != 0;
      break;
  }
  return visible ? 0 : -std::numeric_limits<double>::infinity();
}

double mask_factor(const HostInput& slopes, const AttentionDesc& desc, std::int64_t head) {
  return desc.alibi == Alibi::kTimesMask ? static_cast<double>(number_at<float>(slopes, head)) : 1;
}

}  // namespace vkattn::reference
