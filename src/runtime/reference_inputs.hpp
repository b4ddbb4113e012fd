// From tensors in host memory to what the reference reads.
#pragma once

#include <vkattn/attention_tensors.hpp>

#include <cstddef>
#include <functional>
#include <span>

#include "reference/reference.hpp"

namespace vkattn::detail {

/// The bytes of a tensor in host memory, from its first element on; empty where there are none.
using TensorBytes = std::function<std::span<const std::byte>(BufferRange AttentionTensors::*range)>;

/// Refers to the bytes. Dropout's seed and the score function are the caller's to set.
[[nodiscard]] reference::Inputs reference_inputs(const TensorBytes& bytes_of);

}  // namespace vkattn::detail
