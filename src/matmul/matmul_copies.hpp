// Copies that CPUs read operands from: float32, with the inner dimension in a row of memory.
#pragma once

#include <cstdint>
#include <optional>

#include "matmul/matmul_kernel.hpp"

namespace vkattn::detail {

/// Makes copies of the operands that are asked for, or else of those that are read so often, and so slowly
/// where they lie, that a pass more pays for itself.
void choose_copies(const MatmulDesc& desc, const Capabilities& capabilities,
                   const std::optional<MatmulCopies>& copies, MatmulView& view);

/// Of an operand: one for each product of the batch, or one for all.
[[nodiscard]] std::int64_t matrices_of(const MatmulOperand& operand, const MatmulView& view);

/// Bytes of an operand that is copied.
[[nodiscard]] std::uint64_t copy_bytes(const MatmulOperand& operand, const MatmulView& view);

}  // namespace vkattn::detail
