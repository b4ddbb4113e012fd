// The table of tensors: everything that is to be known of each is in its row. Rules, windows, bindings,
// parameters, self-tests and the harness of the tests walk it.
#pragma once

#include <vkattn/attention.hpp>
#include <vkattn/attention_tensors.hpp>
#include <vkattn/host_tensors.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <type_traits>
#include <variant>

#include "attention/tensor_rules.hpp"
#include "attention/window.hpp"

namespace vkattn::detail {

/// What of a window a tensor is cut by.
enum class TensorCut : std::uint8_t {
  kQueryRows,   ///< its query heads and rows: Q, O, lse
  kKeyRows,     ///< its KV heads and keys, or as the cache has them: K, V
  kScores,      ///< its query heads and rows, with all keys
  kEntries,     ///< its batch entries
  kEntrySums,   ///< its batch entries and one more: cumulative lengths
  kQueryHeads,  ///< its query heads
  kKvHeads,     ///< its KV heads
};

/// The parameter that a tensor's offset from the start of its descriptor goes to.
struct OffsetParam {
  bool in_push_constants = false;  ///< AttentionParams, else FeatureParams
  std::uint32_t byte = 0;
};

/// The member of HostTensors for a tensor.
using HostMember = std::variant<HostInput HostTensors::*, HostOutput HostTensors::*>;

struct TensorRow {
  std::string_view name;
  std::uint32_t binding;  ///< two tensors that are never used together may share one
  BufferRange AttentionTensors::*range;
  HostMember host;
  TensorCut cut;
  bool (*is_used)(const AttentionDesc& desc);
  TensorDesc (*storage)(const AttentionDesc& desc);
  std::int64_t (*dims)(const AttentionDesc& desc);
  OffsetParam offset;
  TensorUse use;
};

/// Members of AttentionTensors up to those of a score function.
inline constexpr std::size_t kTensorCount = offsetof(AttentionTensors, score_buffers) / sizeof(BufferRange);

[[nodiscard]] std::span<const TensorRow, kTensorCount> tensor_table();

/// The row of a member.
[[nodiscard]] std::size_t tensor_index(BufferRange AttentionTensors::*range);

/// Something for each tensor of the table.
template <class T>
class PerTensor {
 public:
  [[nodiscard]] T& operator[](BufferRange AttentionTensors::*range) { return all_[tensor_index(range)]; }
  [[nodiscard]] const T& operator[](BufferRange AttentionTensors::*range) const {
    return all_[tensor_index(range)];
  }

 private:
  std::array<T, kTensorCount> all_;
};

/// The bytes of a tensor in the program's memory, written or not.
[[nodiscard]] std::span<const std::byte> host_bytes(const HostTensors& tensors, const TensorRow& row);

/// The tensors whose bytes are bytes_of(row), a span or a reference to a container. Of bytes that cannot be
/// written only the inputs.
template <class BytesOf>
[[nodiscard]] HostTensors host_tensors(const BytesOf& bytes_of) {
  HostTensors tensors;
  for (const TensorRow& row : tensor_table()) {
    const auto set = [&](auto member) {
      auto& tensor = tensors.*member;
      if constexpr (std::is_assignable_v<decltype(tensor), decltype(bytes_of(row))>) tensor = bytes_of(row);
    };
    std::visit(set, row.host);
  }
  return tensors;
}

/// Storage buffers that the problem needs, without what a plan may do without: partial results and a block
/// mask.
[[nodiscard]] std::uint32_t storage_buffers(const AttentionDesc& desc);

/// Extents of the whole tensor.
[[nodiscard]] TensorExtents tensor_extents(const TensorRow& row, const AttentionDesc& desc);

/// The window's part of the tensor; nothing where the problem does not use it.
[[nodiscard]] TensorWindow tensor_window(const TensorRow& row, const AttentionDesc& desc,
                                         const Window& window);

/// What offsets of the tensor are counted in: elements, or bytes where it is quantised.
[[nodiscard]] std::uint32_t offset_unit_bytes(const TensorDesc& storage);

}  // namespace vkattn::detail
