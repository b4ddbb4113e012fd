/// @file
/// Arrays in the program's own memory, for Runtime::compute().
#pragma once

#include <vkattn/score_shaders.hpp>

#include <array>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <ranges>
#include <span>
#include <type_traits>

namespace vkattn {

namespace detail {

template <class Range>
concept ArrayInMemory = std::ranges::contiguous_range<Range> && std::ranges::sized_range<Range> &&
    std::is_trivially_copyable_v<std::ranges::range_value_t<Range>>;

}  // namespace detail

/// Memory that is read: made from a vector, array or span of any elements, or none. It owns nothing.
class HostInput {
 public:
  HostInput() = default;  ///< none
  /// Refers to the range's elements, which must live as long as this is used.
  template <class Range>
  requires detail::ArrayInMemory<const Range> HostInput(const Range& range)
      : bytes_(std::as_bytes(std::span(range))) {}

  /// All of it; empty: none.
  [[nodiscard]] std::span<const std::byte> bytes() const { return bytes_; }

 private:
  std::span<const std::byte> bytes_;
};

/// Memory that is written, made in the same way. Bytes that the problem does not write are left as they are.
class HostOutput {
 public:
  HostOutput() = default;  ///< none
  /// Refers to the range's elements, which must live as long as this is used.
  template <class Range>
  requires(detail::ArrayInMemory<Range>&& std::ranges::borrowed_range<Range> &&
           !std::is_const_v<std::remove_reference_t<std::ranges::range_reference_t<Range>>>)
      HostOutput(Range&& range)
      : bytes_(std::as_writable_bytes(std::span(range))) {}

  /// All of it; empty: none.
  [[nodiscard]] std::span<std::byte> bytes() const { return bytes_; }

 private:
  std::span<std::byte> bytes_;
};

/// The tensors of one execution as arrays in host memory, in the storage types and strides of the descriptor:
/// AttentionTensors says what each is. Those without elements, or not asked for, may be left out. Inputs may
/// share memory.
struct HostTensors {
  /// The member of AttentionTensors of this name.
  /// @{
  HostInput query{};
  HostInput key{};
  HostInput value{};
  HostOutput output{};
  HostOutput lse{};
  HostInput kv_lengths{};
  HostInput query_lengths{};
  HostInput cumulative_query_lengths{};
  HostInput cumulative_kv_lengths{};
  HostInput page_table{};
  HostInput key_scales{};
  HostInput value_scales{};
  HostInput mask{};
  HostInput alibi_slopes{};
  HostInput sinks{};
  HostOutput weights{};
  std::array<HostInput, kMaxScoreBuffers> score_buffers{};
  std::uint64_t dropout_seed = 0;
  std::uint32_t dropout_offset = 0;
  /// @}
};

}  // namespace vkattn
