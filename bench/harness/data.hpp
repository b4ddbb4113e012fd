// The random data of a problem. Each element is a function of seed, tensor and position alone. So any part of
// any tensor can be made by itself, in any order, and is the same in every memory layout.
#pragma once

#include <cstdint>

#include "problem/problem.hpp"

namespace vkattn::harness {

using bench::Problem;

enum class TensorRole : std::uint32_t { kQuery = 1, kKey = 2, kValue = 3 };

/// A position in a tensor: batch entry, head of this tensor, row, dim.
struct Position {
  std::int64_t batch = 0;
  std::int64_t head = 0;
  std::int64_t row = 0;
  std::int64_t dim = 0;
};

/// 64 well mixed bits for each pair of stream and counter.
[[nodiscard]] std::uint64_t random_bits(std::uint64_t stream, std::uint64_t counter);
/// A number from a uniform distribution over [0, 1).
[[nodiscard]] double random_uniform(std::uint64_t stream, std::uint64_t counter);

/// The independent streams of one seed. Numbers 1 to 3 are the tensors' roles.
[[nodiscard]] std::uint64_t stream_of(std::uint64_t seed, std::uint64_t number);

inline constexpr std::uint64_t kDirectionStream = 16;  ///< more data for DataKind::kDominant
inline constexpr std::uint64_t kDominantKeyStream = 17;
inline constexpr std::uint64_t kMaskStream = 18;
inline constexpr std::uint64_t kHiddenStream = 19;
inline constexpr std::uint64_t kSlopeStream = 20;
inline constexpr std::uint64_t kPageStream = 22;
inline constexpr std::uint64_t kScoreStream = 23;
inline constexpr std::uint64_t kPerHeadStream = 256;  ///< plus the tensor's binding

/// Normal numbers of a stream. They come in pairs. The object keeps the last pair, so it is not thread-safe.
class NormalNumbers {
 public:
  explicit NormalNumbers(std::uint64_t stream) : stream_(stream) {}
  [[nodiscard]] double at(std::uint64_t counter);

 private:
  std::uint64_t stream_;
  std::uint64_t pair_ = ~std::uint64_t{0};
  double pair_values_[2] = {};
};

/// Converts to float16, but never to a subnormal or zero: Vulkan lets devices flush subnormals, also in
/// loads.
[[nodiscard]] std::uint16_t normal_half(float value);
/// The bits of a number in a floating-point type, in the low bits of the result. It is rounded to nearest
/// even, or by normal_half() for float16.
[[nodiscard]] std::uint32_t stored_bits(float value, DataType type);

/// Makes the elements of one tensor from positions in the problem, whatever the memory layout is. A row of a
/// cache is a key position. A row of a packed tensor is a position within its sequence. Not thread-safe.
class TensorData {
 public:
  TensorData(const Problem& problem, TensorRole role);

  /// The element before it is rounded to the storage type.
  [[nodiscard]] double element(const Position& position);
  /// The stored element in the low bits, rounded to nearest even. A float16 is never subnormal or zero.
  [[nodiscard]] std::uint32_t stored(const Position& position);

 private:
  [[nodiscard]] double dominant(const Position& position, double random) const;
  [[nodiscard]] double direction(const Position& position, std::int64_t kv_head) const;

  Problem problem_;
  TensorRole role_;
  DataType type_ = DataType::kFloat32;
  std::uint64_t stream_ = 0;
  NormalNumbers normal_;
  double magnitude_ = 1;
  std::int64_t heads_ = 1;
  std::int64_t rows_ = 1;
  std::int64_t dims_ = 1;
};

/// The largest magnitude that Q is drawn with. With larger queries the scores grow so large that their
/// float32 rounding makes the tolerance wider than the output, and a comparison would show nothing.
inline constexpr double kLargestQueryMagnitude = 10.0;

}  // namespace vkattn::harness
