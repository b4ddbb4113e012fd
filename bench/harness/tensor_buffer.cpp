// Tensors in buffers of their own: see tensor_buffer.hpp.
#include "harness/tensor_buffer.hpp"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "common/checked.hpp"

namespace vkattn::harness {
namespace {

/// Bytes before and after each tensor: 64 elements of 4 bytes, and a multiple of every alignment that buffers
/// need.
constexpr std::int64_t kGuardBytes = 256;
constexpr std::size_t kPieceBytes = std::size_t{1} << 20U;

/// Fills a buffer in pieces from its first byte to its last. It writes a repeating pattern, and elements at
/// growing offsets. Host memory holds one piece, whatever the buffer's size.
class PieceWriter {
 public:
  PieceWriter(const Runtime& runtime, const Buffer& buffer, Pattern pattern)
      : runtime_(runtime), buffer_(buffer), pattern_(pattern) {
    piece_.resize(std::min(kPieceBytes, static_cast<std::size_t>(buffer.size())));
    begin_piece();
  }

  Result<void> put(VkDeviceSize offset, std::span<const std::byte> element) {
    while (!element.empty()) {
      while (offset >= start_ + piece_.size()) {
        if (Result<void> s = flush(); !s.ok()) return s;
      }
      // A block may lie across the border between two pieces.
      const auto at = static_cast<std::size_t>(offset - start_);
      const std::size_t bytes = std::min(element.size(), piece_.size() - at);
      std::memcpy(piece_.data() + at, element.data(), bytes);
      element = element.subspan(bytes);
      offset += bytes;
    }
    return {};
  }

  Result<void> finish() {
    while (start_ < buffer_.size()) {
      if (Result<void> s = flush(); !s.ok()) return s;
    }
    return {};
  }

 private:
  Result<void> flush() {
    if (Result<void> s = runtime_.write(buffer_, start_, piece_); !s.ok()) return s;
    start_ += piece_.size();
    begin_piece();
    return {};
  }

  void begin_piece() {
    const auto left = static_cast<std::size_t>(buffer_.size() - std::min(start_, buffer_.size()));
    piece_.resize(std::min(piece_.size(), left));
    for (std::size_t i = 0; i < piece_.size(); ++i) piece_[i] = pattern_[i % pattern_.size()];
  }

  const Runtime& runtime_;
  const Buffer& buffer_;
  Pattern pattern_;
  std::vector<std::byte> piece_;
  VkDeviceSize start_ = 0;
};

}  // namespace

Result<void> place(const Runtime& runtime, std::int64_t bytes, std::int64_t shift_bytes,
                   TensorBuffer& tensor) {
  if (bytes == 0) return {};
  const std::int64_t offset = kGuardBytes + shift_bytes;
  // After the end come whole guards, then the rest up to a multiple of 256, so that ranges end with whole
  // words.
  const std::int64_t end = detail::saturating_add(detail::saturating_add(offset, bytes), 2 * kGuardBytes - 1);
  if (end == detail::kMaxInt64) {
    return Error{ErrorCode::kInvalidArgument,
                 {},
                 "a tensor of " + std::to_string(bytes) + " bytes leaves no room for guard bands in 63 bits"};
  }
  const auto size = static_cast<VkDeviceSize>(end / kGuardBytes * kGuardBytes);
  Result<Buffer> buffer = runtime.create_buffer(size);
  if (!buffer.ok()) return buffer.error();
  tensor.buffer = std::move(buffer).value();
  tensor.offset = static_cast<VkDeviceSize>(offset);
  tensor.bytes = static_cast<VkDeviceSize>(bytes);
  tensor.bound_bytes = size - tensor.offset;
  return {};
}

Result<void> place(const Runtime& runtime, const TensorShape& shape, std::int64_t shift,
                   TensorBuffer& tensor) {
  const Result<std::int64_t> bytes = shape.bytes();
  if (!bytes.ok()) return bytes.error();
  return place(runtime, *bytes, shift * element_bytes(shape.desc.type), tensor);
}

Result<void> fill_with(const Runtime& runtime, const TensorBuffer& tensor, Pattern around,
                       const std::function<void(const PutElement&)>& fill) {
  if (tensor.bytes == 0) return {};
  PieceWriter writer(runtime, tensor.buffer, around);
  Result<void> status;
  fill([&](std::int64_t byte, std::span<const std::byte> element) {
    if (status.ok()) status = writer.put(tensor.offset + static_cast<VkDeviceSize>(byte), element);
  });
  return status.ok() ? writer.finish() : status;
}

Result<void> fill_pattern(const Runtime& runtime, const TensorBuffer& tensor, Pattern pattern) {
  if (tensor.bytes == 0) return {};
  return PieceWriter(runtime, tensor.buffer, pattern).finish();
}

BufferRange range_of(const TensorBuffer& tensor) {
  if (tensor.bytes == 0) return {};
  return {tensor.buffer.handle(), tensor.offset, tensor.bound_bytes};
}

}  // namespace vkattn::harness
