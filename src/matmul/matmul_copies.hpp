// Copies that CPUs read operands from: float32, with the inner dimension in a row of memory.
#pragma once

#include <cstdint>
#include <optional>

#include "matmul/matmul_kernel.hpp"

namespace vkattn::detail {

/// Marks operands of the view as copied: those that are asked for, else those that are read so often and so
/// slowly that another pass pays.
void choose_copies(const MatmulDesc& desc, const Capabilities& capabilities,
                   const std::optional<MatmulCopies>& copies, MatmulView& view);

/// Matrices of an operand: one for each product of the batch, or one for all.
[[nodiscard]] std::int64_t matrices_of(const MatmulOperand& operand, const MatmulView& view);

/// Bytes of an operand that is copied.
[[nodiscard]] std::uint64_t copy_bytes(const MatmulOperand& operand, const MatmulView& view);

}  // namespace vkattn::detail
