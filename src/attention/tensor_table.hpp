// The table of tensors: a row says all about one. Rules, windows, bindings, parameters, self-tests and the
// harness of the tests walk it.
#pragma once

#include <vkattn/attention.hpp>
#include <vkattn/attention_tensors.hpp>
#include <vkattn/host_tensors.hpp>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <type_traits>
#include <variant>

#include "attention/tensor_row.hpp"
#include "attention/window.hpp"

namespace vkattn::detail {

/// How windows cut a tensor.
enum class TensorCut : std::uint8_t {
  kQueryRows,   ///< its query heads and rows: Q, O, lse
  kKeyRows,     ///< its KV heads and keys, or as the cache has them: K, V
  kScores,      ///< its query heads and rows, with all keys
  kMask,        ///< the same; but all heads if these repeat over the query heads
  kEntries,     ///< its batch entries
  kEntrySums,   ///< its batch entries and one more: cumulative lengths
  kQueryHeads,  ///< its query heads
  kKvHeads,     ///< its KV heads
};

/// The member of HostTensors for a tensor.
using HostMember = std::variant<HostInput HostTensors::*, HostOutput HostTensors::*>;

/// Attention's tensors can be cut by windows, and come from host memory. Offsets in parameters are of
/// AttentionParams (push constants) and FeatureParams.
struct TensorRow : TensorRowOf<AttentionDesc, AttentionTensors> {
  HostMember host;
  TensorCut cut;
};

/// The members of AttentionTensors before those of a score function.
inline constexpr std::size_t kTensorCount = offsetof(AttentionTensors, score_buffers) / sizeof(BufferRange);

template <>
struct TensorTable<AttentionTensors> {
  static constexpr std::size_t kCount = kTensorCount;
  static constexpr std::string_view kAlignmentName = "its alignment (TensorDesc::alignment_bytes)";
  [[nodiscard]] static std::span<const TensorRow, kCount> rows();
};

/// The bytes of a tensor in host memory, input or output.
[[nodiscard]] std::span<const std::byte> host_bytes(const HostTensors& tensors, const TensorRow& row);

/// Host tensors at bytes_of(row), a span or a reference to a container. If the bytes are const, only the
/// inputs are set.
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

/// Storage buffers of a plan that binds each tensor. Partial results and a block mask may need one more each.
[[nodiscard]] std::uint32_t storage_buffers(const AttentionDesc& desc);
/// Storage buffers of a plan that gathers what it can in one of them (forward/gather.hpp).
[[nodiscard]] std::uint32_t fewest_storage_buffers(const AttentionDesc& desc);

/// The window's part of the tensor; empty if the problem does not use it.
[[nodiscard]] TensorWindow tensor_window(const TensorRow& row, const AttentionDesc& desc,
                                         const Window& window);

/// The unit of offsets into the tensor: an element, or a byte if it is quantised.
[[nodiscard]] std::uint32_t offset_unit_bytes(const TensorDesc& storage);

}  // namespace vkattn::detail
