// Every operation has a table of its tensors. A row says all about one tensor.
#pragma once

#include <vkattn/attention.hpp>
#include <vkattn/attention_tensors.hpp>
#include <vkattn/buffer_range.hpp>

#include <algorithm>
#include <array>
#include <cassert>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "attention/tensor_rules.hpp"
#include "common/byte_layout.hpp"

namespace vkattn::detail {

/// The word that a tensor's offset from the start of its descriptor is added to.
struct OffsetParam {
  bool in_push_constants = false;  ///< else in the parameters
  std::uint32_t byte = 0;
};
[[nodiscard]] constexpr OffsetParam push_constant(std::size_t byte) {
  return {true, static_cast<std::uint32_t>(byte)};
}
[[nodiscard]] constexpr OffsetParam parameter(std::size_t byte) {
  return {false, static_cast<std::uint32_t>(byte)};
}

/// 32-bit numbers that need no more alignment than their size.
[[nodiscard]] constexpr TensorDesc numbers(const Strides& strides) {
  return {DataType::kFloat32, strides, 0};
}

/// A tensor of the descriptor `Desc`, whose place in memory is a member of `Tensors`. The functions take
/// resolved descriptors. Storage and extents have a meaning only if the tensor is used.
template <class Desc, class Tensors>
struct TensorRowOf {
  std::string_view name;
  std::uint32_t binding;  ///< two tensors that one pass never uses together may share one
  BufferRange Tensors::*range;
  bool (*is_used)(const Desc& desc);
  TensorDesc (*storage)(const Desc& desc);
  TensorExtents (*extents)(const Desc& desc);
  OffsetParam offset;
  TensorUse use{};

  /// For check_tensor().
  [[nodiscard]] NamedTensor named(const Desc& desc) const { return {name, storage(desc), extents(desc)}; }
  /// Bytes from the first element to the end of the last, of a valid descriptor; 0 if the tensor is not used.
  [[nodiscard]] std::uint64_t bytes(const Desc& desc) const {
    return is_used(desc) ? valid_bytes(storage(desc), extents(desc)) : 0;
  }
  /// Where those bytes lie.
  [[nodiscard]] ByteLayout layout(const Desc& desc) const {
    return is_used(desc) ? byte_layout(storage(desc), extents(desc)) : ByteLayout();
  }
};

/// TensorRowOf::is_used of a tensor that every descriptor uses.
template <class Desc>
[[nodiscard]] bool is_always_used(const Desc& /*desc*/) {
  return true;
}

/// The table of the tensors that are members of `Tensors`. A specialization stands beside each table, with
/// the type of its rows, their count, the rows in the order of the program's tensors, and what ProgramTensor
/// calls their alignment.
template <class Tensors>
struct TensorTable;

template <class Tensors = AttentionTensors>
[[nodiscard]] auto tensor_table() {
  return TensorTable<Tensors>::rows();
}

/// The place of a member's row in the table.
template <class Tensors>
[[nodiscard]] std::size_t tensor_index(BufferRange Tensors::*range) {
  const auto table = tensor_table<Tensors>();
  const auto row = std::ranges::find_if(table, [&](const auto& each) { return each.range == range; });
  assert(row != table.end() && "a member that the table does not have");
  return static_cast<std::size_t>(row - table.begin());
}

/// The row of a member.
template <class Tensors>
[[nodiscard]] const auto& row_of(BufferRange Tensors::*range) {
  return tensor_table<Tensors>()[tensor_index(range)];
}

/// The tensors of the table at these ranges, which are in its order.
template <class Tensors>
[[nodiscard]] Tensors tensors_at(std::span<const BufferRange, TensorTable<Tensors>::kCount> ranges) {
  Tensors tensors;
  for (std::size_t i = 0; i < ranges.size(); ++i) tensors.*tensor_table<Tensors>()[i].range = ranges[i];
  return tensors;
}

/// A `T` for each tensor of the table.
template <class T, class Tensors = AttentionTensors>
class PerTensor {
 public:
  [[nodiscard]] T& operator[](BufferRange Tensors::*range) { return all_[tensor_index(range)]; }
  [[nodiscard]] const T& operator[](BufferRange Tensors::*range) const { return all_[tensor_index(range)]; }

 private:
  std::array<T, TensorTable<Tensors>::kCount> all_{};
};

}  // namespace vkattn::detail
