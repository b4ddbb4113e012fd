// The program of a backward pass: its passes, and what each of its bindings is.
#pragma once

#include <vkattn/backward.hpp>

#include <array>
#include <span>

#include "attention/tensor_table.hpp"
#include "backward/backward_layout.hpp"
#include "backward/gradient_table.hpp"
#include "program/program.hpp"

namespace vkattn::detail {

/// Everything that is recorded, of a resolved and valid descriptor.
[[nodiscard]] Result<ProgramDesc> backward_program(const BackwardDesc& desc, const Capabilities& capabilities,
                                                   const BackwardKernel& kernel, const BackwardLayout& layout,
                                                   const BackwardOptions& options);

/// The ranges of a call in the order of the program's tensors: the forward pass's, and the gradients. It
/// refers to itself.
struct BackwardCall {
  static constexpr std::size_t kMostTensors = kTensorCount + kGradientCount;
  std::array<BufferRange, kMostTensors> ranges;
  std::array<std::uint32_t, 3> words;  ///< dropout: seed, low and high, and offset
  std::size_t count = 0;

  explicit BackwardCall(const BackwardTensors& tensors) noexcept;
  [[nodiscard]] ProgramCall call(const BufferRange& workspace) const noexcept {
    return {std::span(ranges).first(count), workspace, words, 0};
  }
};

}  // namespace vkattn::detail
