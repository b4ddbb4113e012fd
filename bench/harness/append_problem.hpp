// Keys that come into a problem's cache on the device.
#pragma once

#include <vkattn/runtime.hpp>

#include "attention/tensor_table.hpp"
#include "harness/small_inputs.hpp"
#include "harness/tensor_buffer.hpp"
#include "problem/problem.hpp"

namespace vkattn::harness {

/// Takes the last keys of each batch entry, new_rows() of them, out of K and V, which hold all, and has the
/// device append them: packed as the queries are, where these are packed alone. The bytes of K and V, and
/// around them, must then be what they were; but where keys are turned, whose reference
/// tests/gpu/rotary_test.cpp has. An error says where they are not.
[[nodiscard]] Result<void> append_keys(const Runtime& runtime, const Problem& problem,
                                       const SmallInputs& inputs,
                                       const detail::PerTensor<TensorBuffer>& tensors);

}  // namespace vkattn::harness
