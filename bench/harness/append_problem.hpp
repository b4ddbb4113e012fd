// Appends keys to a problem's cache on the device.
#pragma once

#include <vkattn/runtime.hpp>

#include "attention/tensor_table.hpp"
#include "harness/small_inputs.hpp"
#include "harness/tensor_buffer.hpp"
#include "problem/problem.hpp"

namespace vkattn::harness {

/// K and V hold all keys. This takes the last new_rows() keys of each batch entry out of them and lets the
/// device append them again. The new rows are packed like the queries if only the queries are packed.
/// Afterwards the bytes in and around K and V must be as before, and an error says where they are not. Keys
/// that are rotated are not compared: tests/gpu/rotary_test.cpp has their reference.
[[nodiscard]] Result<void> append_keys(const Runtime& runtime, const Problem& problem,
                                       const SmallInputs& inputs,
                                       const detail::PerTensor<TensorBuffer>& tensors);

}  // namespace vkattn::harness
