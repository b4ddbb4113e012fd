// Tensors in host memory, decoded to float64 from every storage type.
#pragma once

#include <vkattn/attention.hpp>
#include <vkattn/host_tensors.hpp>

#include <cstdint>
#include <cstring>
#include <vector>

namespace vkattn::reference {

/// One vector of a tensor: `count` elements `stride` apart.
struct Vector {
  const void* tensor = nullptr;
  DataType type = DataType::kFloat32;
  std::int64_t first = 0;
  std::int64_t stride = 1;
  std::int64_t count = 0;
  double scale = 1;  ///< of kFloat8E4m3: multiplies each element
};

/// The row of a tensor at a position of its strides.
[[nodiscard]] Vector vector_at(const HostInput& tensor, const TensorDesc& desc, std::int64_t batch,
                               std::int64_t head, std::int64_t row, std::int64_t count);

/// The vector's elements as doubles, exactly.
void decode(const Vector& vector, std::vector<double>& out);

/// A number of an array of them.
template <class Number>
[[nodiscard]] Number number_at(const HostInput& array, std::int64_t index) {
  Number number;
  std::memcpy(&number, array.bytes().data() + static_cast<std::size_t>(index) * sizeof(Number),
              sizeof(Number));
  return number;
}

/// The head of the mask that a query head reads.
[[nodiscard]] std::int64_t mask_head(const AttentionDesc& desc, std::int64_t head);
/// The number of a mask for (batch, query head, query, key): -inf if it hides the key, 0 if it is boolean and
/// shows it.
[[nodiscard]] double mask_bias(const HostInput& mask, const AttentionDesc& desc, std::int64_t batch,
                               std::int64_t head, std::int64_t query, std::int64_t key);
/// What the mask's numbers are multiplied by before they are added to the scores of a query head.
[[nodiscard]] double mask_factor(const HostInput& slopes, const AttentionDesc& desc, std::int64_t head);

}  // namespace vkattn::reference
