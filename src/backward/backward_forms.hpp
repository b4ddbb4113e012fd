// The forms of the backward pass, of which backward_kernel.cpp chooses. Each gives its configuration for a
// problem on a device or its reason against.
#pragma once

#include "backward/backward_kernel.hpp"

namespace vkattn::detail {

/// One common 16-bit type of Q, K, V and dO, or the reason against.
[[nodiscard]] Result<void> check_one_matrix_type(const BackwardDesc& desc);

[[nodiscard]] Result<BackwardKernel> configure_matrix_backward(const BackwardDesc& desc,
                                                               const Capabilities& capabilities);
[[nodiscard]] Result<BackwardKernel> configure_matrix2_backward(const BackwardDesc& desc,
                                                                const Capabilities& capabilities);

}  // namespace vkattn::detail
