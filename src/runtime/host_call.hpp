// One execution on arrays in host memory.
#pragma once

#include <vkattn/runtime.hpp>

#include "attention/tensor_table.hpp"

namespace vkattn::detail {

/// Copies the arrays to the device, runs the plan, waits, and copies the outputs back. `tensors` has what is
/// no tensor of the table: score buffers, dropout's seed and offset.
[[nodiscard]] Status run_on_host(const Runtime& runtime, const AttentionPlan& plan,
                                 const PerTensor<HostSpan>& host, AttentionTensors tensors = {});

}  // namespace vkattn::detail
