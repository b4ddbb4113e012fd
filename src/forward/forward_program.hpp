// The program of a forward pass: its passes, and what each of its bindings is.
#pragma once

#include <vkattn/attention_plan.hpp>
#include <vkattn/attention_tensors.hpp>

#include <cstddef>

#include "attention/tensor_table.hpp"
#include "forward/layout.hpp"
#include "operation/options.hpp"
#include "program/program.hpp"

namespace vkattn::detail {

/// The number of the block mask among the program's tensors, behind those of the table and of a score
/// function.
inline constexpr std::size_t kBlockMaskTensor = kTensorCount + kMaxScoreBuffers;

/// Everything that is recorded. `kernel_pass` is set to the kernel's place among the passes.
[[nodiscard]] Result<ProgramDesc> forward_program(const LayoutRequest& request, const ForwardLayout& layout,
                                                  std::uint32_t& kernel_pass);

/// The options that attention uses.
inline constexpr OptionSet kAttentionOptions(Option::kKernel, Option::kTile, Option::kRefusals,
                                             Option::kStrictNonfinite, Option::kArithmeticType,
                                             Option::kKvSplits);

}  // namespace vkattn::detail
