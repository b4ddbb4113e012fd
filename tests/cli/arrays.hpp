// Arrays in .npy files, for tests.
#pragma once

#include <gtest/gtest.h>

#include <concepts>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "npy.hpp"
#include "support/temp_folder.hpp"

namespace vkattn::tests {

using Shape = std::vector<std::int64_t>;

/// The element type of an array of these numbers. Arrays of bool or float16 are asked for by name.
template <class T>
constexpr npy::ElementType element_type() {
  using npy::ElementType;
  if constexpr (std::same_as<T, float>) return ElementType::kFloat32;
  if constexpr (std::same_as<T, double>) return ElementType::kFloat64;
  if constexpr (std::same_as<T, std::int32_t>) return ElementType::kInt32;
  if constexpr (std::same_as<T, std::int64_t>) return ElementType::kInt64;
  if constexpr (std::same_as<T, std::uint8_t>) return ElementType::kUint8;
  if constexpr (std::same_as<T, std::uint32_t>) return ElementType::kUint32;
  if constexpr (std::same_as<T, std::uint64_t>) return ElementType::kUint64;
}

template <class T>
void write_npy(const std::filesystem::path& path, const Shape& shape, const std::vector<T>& values,
               npy::ElementType type = element_type<T>()) {
  std::string content = npy::make_header(type, shape);
  const auto bytes = std::as_bytes(std::span(values));
  write_file(path, content.append(reinterpret_cast<const char*>(bytes.data()), bytes.size()));
}

/// An array of any float type, read as float32.
struct Array {
  Shape shape;
  npy::ElementType type = npy::ElementType::kFloat32;
  std::vector<float> values;
};

inline Array read_npy(const std::filesystem::path& path) {
  Array array;
  Result<npy::Reader> reader = npy::Reader::open(path);
  EXPECT_TRUE(reader.ok()) << (reader.ok() ? "" : reader.error().message);
  if (!reader.ok()) return array;
  array.shape = reader->header().shape;
  array.type = reader->header().type;
  std::vector<std::byte> raw(reader->header().data_bytes());
  EXPECT_TRUE(reader->read(raw).ok());
  array.values.resize(static_cast<std::size_t>(reader->header().elements));
  npy::convert(reader->header(), raw, DataType::kFloat32, std::as_writable_bytes(std::span(array.values)));
  return array;
}

/// Checks that arrays have equally many elements, which are close or equal infinities.
inline void expect_near(const std::vector<float>& a, const std::vector<float>& b, float error = 1e-5F) {
  ASSERT_EQ(a.size(), b.size());
  ASSERT_FALSE(a.empty());
  for (std::size_t i = 0; i < a.size(); ++i) {
    if (a[i] == b[i]) continue;
    ASSERT_NEAR(a[i], b[i], error) << i;
  }
}

inline std::size_t element_count(const Shape& shape) {
  std::size_t count = 1;
  for (const std::int64_t size : shape) count *= static_cast<std::size_t>(size);
  return count;
}

/// Numbers without a pattern, between -1 and 1.
inline std::vector<float> noise(const Shape& shape, std::uint32_t seed) {
  std::vector<float> values(element_count(shape));
  std::uint32_t state = seed;
  for (float& value : values) {
    state = state * 1664525U + 1013904223U;
    value = static_cast<float>(state >> 8U) / 8388608.0F - 1.0F;
  }
  return values;
}

inline std::vector<std::uint16_t> halves(const std::vector<float>& values) {
  std::vector<std::uint16_t> bits;
  for (const float value : values) bits.push_back(float_to_half(value));
  return bits;
}

/// The elements of an array of up to four axes, reordered so that the first axis runs fastest.
inline std::vector<float> turned(const std::vector<float>& values, Shape shape) {
  shape.insert(shape.begin(), 4 - shape.size(), 1);
  const auto size = [&](std::size_t axis) { return static_cast<std::size_t>(shape[axis]); };
  std::vector<float> result(values.size());
  for (std::size_t n = 0; n < values.size(); ++n) {
    const std::size_t d = n % size(3), c = n / size(3) % size(2), b = n / size(3) / size(2) % size(1);
    result[n / size(3) / size(2) / size(1) + size(0) * (b + size(1) * (c + size(2) * d))] = values[n];
  }
  return result;
}

}  // namespace vkattn::tests
