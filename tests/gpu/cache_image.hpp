// The buffers of an append on the host: elements, and the bytes around them.
#pragma once

#include <vkattn/runtime.hpp>

#include <cstdint>
#include <cstring>
#include <span>
#include <vector>

namespace vkattn::tests {

inline constexpr std::size_t kGuardBytes = 256;

/// A buffer and its expected contents.
struct Image {
  std::vector<std::byte> bytes;
  std::size_t offset = 0;  ///< byte of the first element
  Buffer buffer;

  [[nodiscard]] BufferRange range() const {
    return bytes.empty() ? BufferRange{} : BufferRange{buffer.handle(), offset, bytes.size() - offset};
  }
  [[nodiscard]] std::span<std::byte> at(std::int64_t byte, std::size_t count) {
    return std::span(bytes).subspan(offset + static_cast<std::size_t>(byte), count);
  }
};

/// An image without elements stays empty. Neighbouring words differ.
inline Image make_image(std::int64_t bytes, std::int64_t shift_bytes, std::uint32_t filler) {
  Image image;
  if (bytes == 0) return image;
  image.offset = kGuardBytes + static_cast<std::size_t>(shift_bytes);
  const std::size_t size = image.offset + static_cast<std::size_t>(bytes) + 2 * kGuardBytes;
  image.bytes.resize(size / kGuardBytes * kGuardBytes);
  for (std::size_t i = 0; i < image.bytes.size(); i += 4) {
    const std::uint32_t word = filler ^ (static_cast<std::uint32_t>(i) & 0x3cU) << 2U;
    std::memcpy(image.bytes.data() + i, &word, 4);
  }
  return image;
}

/// The offset of an element from the first element of a row-major tensor. In a block format it is the offset
/// of the block's first byte.
inline std::int64_t byte_of(const TensorDesc& tensor, std::int64_t b, std::int64_t h, std::int64_t r,
                            std::int64_t d) {
  const Strides& s = *tensor.strides;
  return (b * s.batch + h * s.head + r * s.row + d * s.dim) / block_elements(tensor.type) *
         block_bytes(tensor.type);
}

inline std::uint32_t read_bits(Image& image, const TensorDesc& tensor, std::int64_t byte) {
  std::uint32_t bits = 0;
  const auto element = image.at(byte, block_bytes(tensor.type));
  std::memcpy(&bits, element.data(), element.size());
  return bits;
}

inline void write_bits(Image& image, const TensorDesc& tensor, std::int64_t byte, std::uint32_t bits) {
  const auto element = image.at(byte, block_bytes(tensor.type));
  std::memcpy(element.data(), &bits, element.size());
}

}  // namespace vkattn::tests
