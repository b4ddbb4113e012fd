// What lies in the memory of a problem's inputs: element by element, without a device.
#pragma once

#include <cstddef>
#include <functional>
#include <span>

#include "harness/data.hpp"
#include "harness/small_inputs.hpp"
#include "harness/tensor_memory.hpp"
#include "problem/problem.hpp"

namespace vkattn::harness {

/// Takes elements, or blocks of a block format, that lie one after the other from a byte on that is counted
/// from the tensor's first element.
using PutElement = std::function<void(std::int64_t byte, std::span<const std::byte> elements)>;

/// Which keys: all, or those that a cache holds before the problem's append.
enum class Keys { kAll, kBeforeAppend };

/// Gives each element of Q, K or V that belongs to the problem, lowest address first. Rows of memory that
/// hold no row of the problem are left out. Large tensors are made by a thread for each processor; `put` is
/// called by the caller's alone.
void fill_tensor(const Problem& problem, TensorRole role, const SmallInputs& inputs, const PutElement& put,
                 Keys keys = Keys::kAll);

/// Gives each element of the mask, of bits each word of 32, lowest address first.
void fill_mask(const Problem& problem, const PutElement& put);

/// What lies around a mask: NaN, or bytes and bits that show keys.
[[nodiscard]] Pattern mask_filler(MaskType type);

}  // namespace vkattn::harness
