// Which operands of a matrix multiplication are copied first: see matmul_copies.hpp, and
// docs/trials/lavapipe.md for the figures behind the rule.
#include "matmul/matmul_copies.hpp"

#include <algorithm>

#include "common/checked.hpp"
#include "common/integers.hpp"
#include "matmul/matmul_tensors.hpp"
#include "program/program.hpp"
#include "shared/attention_constants.h"
#include "shared/matmul_constants.h"

namespace vkattn::detail {

namespace {

// Rows of a copy begin at cache lines, and not all in the same sets of a cache.
constexpr std::int64_t kLineElements = 16;
// Fewer are not worth a pass more.
constexpr std::int64_t kFewestElements = std::int64_t{1} << 14;
// CPUs read an operand that fits into a cache well along either dimension.
constexpr std::int64_t kCachedElements = std::int64_t{1} << 20;

/// The rows or columns of the output from which on a copy pays; 0: the operand is never copied.
std::int64_t uses_that_pay(const MatmulOperand& operand, const MatmulDesc& desc, std::int64_t inner) {
  const DataType type = matrix_of(operand, desc).type;
  const std::int64_t elements = saturating_multiply(operand.outer, inner);
  if (operand.type == VKATTN_MATMUL_TYPE_ONES || elements < kFewestElements) return 0;
  if (block_elements(type) > 1) return 128;
  if (operand.loads == VKATTN_MATMUL_LOADS_SINGLE) return type == DataType::kFloat32 ? 384 : 256;
  return operand.loads == VKATTN_MATMUL_LOADS_OUTER && elements >= kCachedElements ? 512 : 0;
}

MatmulOperand copied(const MatmulOperand& operand, std::int64_t inner) {
  MatmulOperand copy = operand;
  copy.is_copied = true;
  copy.type = VKATTN_TYPE_FLOAT32;
  copy.loads = VKATTN_MATMUL_LOADS_INNER;
  copy.inner_stride = 1;
  copy.outer_stride = (divide_up(inner, kLineElements) + 1) * kLineElements;
  if (operand.batch_stride != 0) copy.batch_stride = saturating_multiply(copy.outer_stride, operand.outer);
  return copy;
}

}  // namespace

void choose_copies(const MatmulDesc& desc, const Capabilities& capabilities,
                   const std::optional<MatmulCopies>& copies, MatmulView& view) {
  if (copies) {
    const auto has_elements = [&](const MatmulOperand& operand) {
      return operand.outer != 0 && view.inner != 0;
    };
    if (copies->a && has_elements(view.a)) view.a = copied(view.a, view.inner);
    if (copies->b && has_elements(view.b)) view.b = copied(view.b, view.inner);
    return;
  }
  if (!has_buffer_for_workspace(desc, capabilities)) return;
  // Both copies together fit the limit of one tensor, and fill at most half of a buffer.
  const std::uint64_t most =
      std::min(capabilities.max_storage_buffer_range, buffer_limit(capabilities).bytes / 2);
  std::uint64_t bytes = 0;
  const auto choose = [&](MatmulOperand& operand, std::int64_t uses) {
    const std::int64_t needed = uses_that_pay(operand, desc, view.inner);
    // One matrix is read for all of the batch.
    if (operand.batch_stride == 0) uses = saturating_multiply(uses, view.batch);
    if (needed == 0 || uses < needed) return;
    const MatmulOperand copy = copied(operand, view.inner);
    const std::uint64_t more = copy_bytes(copy, view);
    if (more > most - bytes) return;
    bytes += more;
    operand = copy;
  };
  choose(view.b, view.rows);
  choose(view.a, view.columns);
}

std::int64_t matrices_of(const MatmulOperand& operand, const MatmulView& view) {
  return operand.batch_stride == 0 ? std::min<std::int64_t>(view.batch, 1) : view.batch;
}

std::uint64_t copy_bytes(const MatmulOperand& operand, const MatmulView& view) {
  const std::int64_t matrix =
      saturating_multiply(operand.outer, saturating_multiply(4, operand.outer_stride));
  return static_cast<std::uint64_t>(saturating_multiply(matrices_of(operand, view), matrix));
}

}  // namespace vkattn::detail
