// The data of a problem's inputs: see fill.hpp.
#include "harness/fill.hpp"

#include <algorithm>
#include <array>
#include <future>
#include <limits>
#include <thread>
#include <vector>

#include "harness/quantise.hpp"
#include "harness/row_map.hpp"

namespace vkattn::harness {
namespace {

/// Encodes the elements of one tensor into their storage type.
class Encoder {
 public:
  Encoder(const Problem& problem, TensorRole role, const SmallInputs& inputs, DataType type)
      : problem_(problem),
        data_(problem, role),
        type_(type),
        scales_(role == TensorRole::kValue ? inputs.value_scales : inputs.key_scales) {}

  /// Encodes one element, or the block with the number `position.dim`.
  std::span<const std::byte> encode(Position position) {
    const std::span<std::byte> bytes(bytes_.data(), block_bytes(type_));
    if (type_ == DataType::kFloat8E4m3) {
      const float scale = scales_[static_cast<std::size_t>(position.head)];
      bytes[0] = static_cast<std::byte>(quantise_e4m3(static_cast<float>(data_.element(position)), scale));
    } else if (is_quantised(type_)) {
      position.dim *= block_elements(type_);
      for (float& value : values_) {
        value = static_cast<float>(data_.element(position));
        ++position.dim;
      }
      // Results must not depend on whether a device flushes subnormal scales. But the scales that the device
      // itself writes are not changed.
      const bool on_device = is_appended(problem_, position.batch, position.row);
      quantise_block(type_, values_, bytes, on_device ? 0.0F : kLeastNormalScale);
    } else {
      const std::uint32_t bits = data_.stored(position);
      const auto bits16 = static_cast<std::uint16_t>(bits);
      std::memcpy(bytes.data(), bytes.size() == 4 ? static_cast<const void*>(&bits) : &bits16, bytes.size());
    }
    return bytes;
  }

 private:
  const Problem& problem_;
  TensorData data_;
  DataType type_;
  const std::vector<float>& scales_;
  std::array<float, 32> values_{};
  std::array<std::byte, 34> bytes_{};
};

/// The random mask of a problem.
class MaskData {
 public:
  explicit MaskData(const Problem& problem)
      : problem_(problem),
        extents_(score_extents(problem.desc)),
        normal_(stream_of(problem.seed, kMaskStream)),
        hidden_stream_(stream_of(problem.seed, kHiddenStream)),
        value_stream_(stream_of(problem.seed, kMaskStream)) {}

  [[nodiscard]] bool is_hidden(const Position& p) const { return draw(p) < problem_.hidden_share; }

  [[nodiscard]] float additive(const Position& p) {
    const double drawn = draw(p);
    if (drawn < problem_.hidden_share) return -std::numeric_limits<float>::infinity();
    // Every other zero is negative, which adds nothing either.
    if (drawn >= 1 - problem_.zero_share) return p.dim % 2 == 0 ? 0.0F : -0.0F;
    return static_cast<float>(normal_.at(counter(p)));
  }

  /// A byte of the mask. Every value other than 0 shows a key.
  [[nodiscard]] std::uint8_t boolean(const Position& p) const {
    constexpr std::array<std::uint8_t, 4> kTrue{1, 1, 0x80, 0xff};
    return is_hidden(p) ? std::uint8_t{0} : kTrue[random_bits(value_stream_, counter(p)) % kTrue.size()];
  }

  /// The bits of 32 keys. A mask that does not vary along the keys uses the first bit only. Bits beyond the
  /// last key are set, because a kernel must not read them.
  [[nodiscard]] std::uint32_t word(Position p) const {
    const std::int64_t first = p.dim * 32;
    std::uint32_t bits = 0;
    for (std::int64_t k = 0; k < 32; ++k) {
      p.dim = first + k;
      if (p.dim >= extents_.dims || !is_hidden(p)) bits |= std::uint32_t{1} << static_cast<unsigned>(k);
    }
    return bits;
  }

 private:
  [[nodiscard]] std::uint64_t counter(const Position& p) const {
    const auto unsigned_of = [](std::int64_t value) { return static_cast<std::uint64_t>(value); };
    const std::uint64_t row = (unsigned_of(p.batch) * unsigned_of(extents_.heads) + unsigned_of(p.head)) *
                                  unsigned_of(extents_.rows) +
                              unsigned_of(p.row);
    return row * unsigned_of(extents_.dims) + unsigned_of(p.dim);
  }

  /// From 0 to 1, one number for each square of positions.
  [[nodiscard]] double draw(const Position& p) const {
    const std::int64_t block = problem_.hidden_block;
    const Position corner{p.batch, p.head, p.row / block, p.dim / block};
    return random_uniform(hidden_stream_, counter(corner));
  }

  const Problem& problem_;
  TensorExtents extents_;
  NormalNumbers normal_;
  std::uint64_t hidden_stream_;
  std::uint64_t value_stream_;
};

/// Encoded elements of a tensor, and their places.
struct EncodedPart {
  struct Run {
    std::int64_t byte = 0;  // offset in the tensor
    std::size_t first = 0;  // index in `bytes`
    std::size_t size = 0;
  };
  std::vector<Run> runs;
  std::vector<std::byte> bytes;

  void add(std::int64_t byte, std::span<const std::byte> element) {
    const bool follows =
        !runs.empty() && runs.back().byte + static_cast<std::int64_t>(runs.back().size) == byte;
    if (!follows) runs.push_back({byte, bytes.size(), 0});
    runs.back().size += element.size();
    bytes.insert(bytes.end(), element.begin(), element.end());
  }
};

/// Elements that one thread makes at a time.
constexpr std::int64_t kPartElements = std::int64_t{1} << 18U;

/// Everything that is needed to make any part of a tensor.
struct TensorPart {
  const Problem& problem;
  TensorRole role;
  const SmallInputs& inputs;
  Keys keys;
  TensorShape shape;
  RowMap rows;

  [[nodiscard]] EncodedPart encode(const AddressOrder& order, std::int64_t first, std::int64_t end) const {
    const bool leaves_out = keys == Keys::kBeforeAppend && role != TensorRole::kQuery;
    const std::int64_t size = block_bytes(shape.desc.type);
    Encoder encoder(problem, role, inputs, shape.desc.type);
    EncodedPart part;
    part.bytes.reserve(static_cast<std::size_t>((end - first) * order.line_length() * size));
    order.for_each(first, end, [&](std::int64_t offset, const Position& p) {
      const auto place = rows.at(p.batch, p.row);
      if (!place.has_value()) return;
      if (leaves_out && is_appended(problem, place->batch, place->row)) return;
      part.add(offset * size, encoder.encode({place->batch, p.head, place->row, p.dim}));
    });
    return part;
  }
};

TensorShape shape_of_role(const AttentionDesc& desc, TensorRole role) {
  if (role == TensorRole::kQuery) return query_shape(desc);
  return role == TensorRole::kKey ? key_shape(desc) : value_shape(desc);
}

}  // namespace

void fill_tensor(const Problem& problem, TensorRole role, const SmallInputs& inputs, const PutElement& put,
                 Keys keys) {
  const TensorShape shape = in_blocks(shape_of_role(problem.desc, role));
  const TensorPart whole{problem, role, inputs, keys, shape, RowMap(problem, inputs, role)};
  const AddressOrder order(shape);
  const std::int64_t lines = order.line_count();
  const std::int64_t step =
      std::max<std::int64_t>(1, kPartElements / std::max<std::int64_t>(1, order.line_length()));
  const std::int64_t threads = std::max(1U, std::thread::hardware_concurrency());
  for (std::int64_t first = 0; first < lines; first += threads * step) {
    std::vector<std::future<EncodedPart>> parts;
    const std::int64_t end = std::min(lines, first + threads * step);
    // A tensor of a single part needs no thread.
    const auto policy =
        end - first <= step ? std::launch::deferred : std::launch::async | std::launch::deferred;
    for (std::int64_t line = first; line < end; line += step) {
      parts.push_back(std::async(
          policy, [&, line, end] { return whole.encode(order, line, std::min(end, line + step)); }));
    }
    for (std::future<EncodedPart>& part : parts) {
      const EncodedPart encoded = part.get();
      const std::span<const std::byte> bytes(encoded.bytes);
      for (const EncodedPart::Run& run : encoded.runs) put(run.byte, bytes.subspan(run.first, run.size));
    }
  }
}

void fill_mask(const Problem& problem, const PutElement& put) {
  const TensorShape shape = mask_shape(problem.desc);
  const std::int64_t size = block_bytes(shape.desc.type);
  MaskData mask(problem);
  AddressOrder(shape).for_each([&](std::int64_t offset, const Position& p) {
    const auto element = [&](auto value) { put(offset * size, std::as_bytes(std::span(&value, 1))); };
    switch (problem.desc.mask.type) {
      case MaskType::kNone:
        return;
      case MaskType::kFloat32:
        return element(mask.additive(p));
      case MaskType::kFloat16: {
        const float value = mask.additive(p);
        return element(value == 0 ? float_to_half(value) : normal_half(value));
      }
      case MaskType::kBytes:
        return element(mask.boolean(p));
      case MaskType::kBits:
        return element(mask.word(p));
    }
  });
}

Pattern mask_filler(MaskType type) {
  switch (type) {
    case MaskType::kFloat32:
      return input_filler(DataType::kFloat32);
    case MaskType::kFloat16:
      return input_filler(DataType::kFloat16);
    default:
      break;
  }
  return pattern_of(0xffffffffU);
}

}  // namespace vkattn::harness
