// The program of a backward pass: its passes, and what each of its bindings is.
#pragma once

#include <vkattn/backward.hpp>

#include <array>
#include <span>

#include "attention/tensor_table.hpp"
#include "backward/backward_layout.hpp"
#include "backward/gradient_table.hpp"
#include "operation/options.hpp"
#include "program/program.hpp"

namespace vkattn::detail {

/// Everything that is recorded, of a resolved and valid descriptor.
[[nodiscard]] Result<ProgramDesc> backward_program(const BackwardDesc& desc, const Capabilities& capabilities,
                                                   const BackwardKernel& kernel, const BackwardLayout& layout,
                                                   const PlanOptions& options);

/// The options that its gradients use.
inline constexpr OptionSet kBackwardOptions(Option::kKernel, Option::kTile, Option::kRefusals,
                                            Option::kChunkKeys);

}  // namespace vkattn::detail
