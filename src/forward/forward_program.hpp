// The program of a forward pass: its passes, and what each of its bindings is.
#pragma once

#include <vkattn/attention_plan.hpp>
#include <vkattn/attention_tensors.hpp>

#include "attention/tensor_table.hpp"
#include "forward/layout.hpp"
#include "operation/options.hpp"
#include "program/program.hpp"

namespace vkattn::detail {

/// Everything that is recorded. `kernel_pass` is set to the kernel's place among the passes.
[[nodiscard]] Result<ProgramDesc> forward_program(const LayoutRequest& request, const ForwardLayout& layout,
                                                  std::uint32_t& kernel_pass);

/// The options that attention uses.
inline constexpr OptionSet kAttentionOptions(Option::kKernel, Option::kTile, Option::kRefusals,
                                             Option::kStrictNonfinite, Option::kArithmeticType,
                                             Option::kKvSplits);

}  // namespace vkattn::detail
