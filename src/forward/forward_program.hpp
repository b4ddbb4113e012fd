// The program of a forward pass: its passes, and what each of its bindings is.
#pragma once

#include <vkattn/attention_tensors.hpp>
#include <vkattn/plan.hpp>

#include <array>
#include <span>

#include "attention/tensor_table.hpp"
#include "forward/layout.hpp"
#include "program/program.hpp"

namespace vkattn::detail {

/// Everything that is recorded. `kernel_pass` is set to the kernel's place among the passes.
[[nodiscard]] Result<ProgramDesc> forward_program(const LayoutRequest& request, const ForwardLayout& layout,
                                                  const PlanOptions& options, std::uint32_t& kernel_pass);

/// The ranges of a call in the order of the program's tensors: those of the table, of the score function, and
/// the block mask. It refers to `tensors` and to itself.
struct ForwardCall {
  static constexpr std::size_t kMostTensors = kTensorCount + kMaxScoreBuffers + 1;
  std::array<BufferRange, kMostTensors> ranges;
  std::array<std::uint32_t, 3> words;
  std::size_t count = 0;

  explicit ForwardCall(const AttentionTensors& tensors) noexcept;
  [[nodiscard]] ProgramCall call(const BufferRange& workspace, std::uint32_t first_pass) const noexcept {
    return {std::span(ranges).first(count), workspace, words, first_pass};
  }
};

}  // namespace vkattn::detail
