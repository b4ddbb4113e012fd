// The bytes of a problem's inputs, made element by element without a device.
#pragma once

#include <cstddef>
#include <functional>
#include <span>

#include "harness/data.hpp"
#include "harness/small_inputs.hpp"
#include "harness/tensor_memory.hpp"
#include "problem/problem.hpp"

namespace vkattn::harness {

/// Takes consecutive elements, or consecutive blocks of a block format. `byte` is the offset of the first one
/// from the tensor's first element.
using PutElement = std::function<void(std::int64_t byte, std::span<const std::byte> elements)>;

/// Which keys to give: all, or those that a cache holds before the problem's append.
enum class Keys { kAll, kBeforeAppend };

/// Gives each element of Q, K or V that belongs to the problem, lowest address first. It leaves out rows of
/// memory that hold no row of the problem. One thread for each processor makes large tensors, but only the
/// caller's thread calls `put`.
void fill_tensor(const Problem& problem, TensorRole role, const SmallInputs& inputs, const PutElement& put,
                 Keys keys = Keys::kAll);

/// Gives each element of the mask, lowest address first. For a mask of bits an element is a word of 32.
void fill_mask(const Problem& problem, const PutElement& put);

/// The pattern around a mask: NaN, or bytes and bits that show keys.
[[nodiscard]] Pattern mask_filler(MaskType type);

}  // namespace vkattn::harness
