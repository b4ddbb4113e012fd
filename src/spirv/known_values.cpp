// Known values: see known_values.hpp. Opcodes are SPIR-V 1.6's, section 3.52.
#include "spirv/known_values.hpp"

#include <algorithm>
#include <bit>

#include "spirv/spirv_ops.hpp"

namespace vkattn::detail {

namespace {

constexpr std::uint32_t kDecorationSpecId = 1;

using Value = std::optional<std::uint32_t>;

// Nothing where SPIR-V says that the result is undefined.
Value quotient(std::uint32_t op, std::uint32_t a, std::uint32_t b) {
  if (b == 0) return std::nullopt;
  if (op == spirv_op::kUDiv) return a / b;
  if (op == spirv_op::kUMod) return a % b;
  const auto x = std::bit_cast<std::int32_t>(a), y = std::bit_cast<std::int32_t>(b);
  if (y == -1 && a == 1U << 31U) return std::nullopt;
  return std::bit_cast<std::uint32_t>(x / y);
}

Value compared(std::uint32_t op, std::uint32_t a, std::uint32_t b) {
  const auto x = std::bit_cast<std::int32_t>(a), y = std::bit_cast<std::int32_t>(b);
  switch (op) {
    case spirv_op::kLogicalEqual:
    case spirv_op::kIEqual:
      return a == b;
    case spirv_op::kLogicalNotEqual:
    case spirv_op::kINotEqual:
      return a != b;
    case spirv_op::kUGreaterThan:
      return a > b;
    case spirv_op::kSGreaterThan:
      return x > y;
    case spirv_op::kUGreaterThanEqual:
      return a >= b;
    case spirv_op::kSGreaterThanEqual:
      return x >= y;
    case spirv_op::kULessThan:
      return a < b;
    case spirv_op::kSLessThan:
      return x < y;
    case spirv_op::kULessThanEqual:
      return a <= b;
    case spirv_op::kSLessThanEqual:
      return x <= y;
    default:
      return std::nullopt;
  }
}

Value computed(std::uint32_t op, std::uint32_t a, std::uint32_t b) {
  switch (op) {
    case spirv_op::kIAdd:
      return a + b;
    case spirv_op::kISub:
      return a - b;
    case spirv_op::kIMul:
      return a * b;
    case spirv_op::kUDiv:
    case spirv_op::kSDiv:
    case spirv_op::kUMod:
      return quotient(op, a, b);
    case spirv_op::kShiftRightLogical:
      return b < 32 ? Value(a >> b) : std::nullopt;
    case spirv_op::kShiftLeftLogical:
      return b < 32 ? Value(a << b) : std::nullopt;
    case spirv_op::kLogicalOr:
    case spirv_op::kBitwiseOr:
      return a | b;
    case spirv_op::kBitwiseXor:
      return a ^ b;
    case spirv_op::kLogicalAnd:
    case spirv_op::kBitwiseAnd:
      return a & b;
    default:
      return compared(op, a, b);
  }
}

}  // namespace

std::optional<std::uint32_t> KnownValues::result(std::uint32_t op,
                                                 std::span<const std::uint32_t> operands) const {
  const auto operand = [&](std::size_t i) { return i < operands.size() ? of(operands[i]) : std::nullopt; };
  const Value a = operand(0), b = operand(1);
  if (op == spirv_op::kSelect) return a ? (*a != 0 ? b : operand(2)) : std::nullopt;
  // One of the two may decide.
  if (op == spirv_op::kLogicalAnd && (a == 0U || b == 0U)) return 0U;
  if (op == spirv_op::kLogicalOr && (a == 1U || b == 1U)) return 1U;
  if (!a) return std::nullopt;
  if (op == spirv_op::kLogicalNot) return *a ^ 1U;
  if (op == spirv_op::kNot) return ~*a;
  if (op == spirv_op::kSNegate) return 0U - *a;
  return b ? computed(op, *a, *b) : std::nullopt;
}

// words: opcode, type, id, and what the opcode has.
void KnownValues::read_constant(const Instruction& instruction) {
  const auto words = instruction.words;
  Id& id = ids_[words[2]];
  switch (instruction.opcode()) {
    case spirv_op::kConstantTrue:
    case spirv_op::kConstantFalse:
      id.value = instruction.opcode() == spirv_op::kConstantTrue;
      return;
    case spirv_op::kSpecConstantTrue:
    case spirv_op::kSpecConstantFalse:
      id.value = id.specialized ? *id.specialized != 0 : instruction.opcode() == spirv_op::kSpecConstantTrue;
      return;
    case spirv_op::kConstant:
    case spirv_op::kSpecConstant:
      if (words.size() == 4) id.value = id.specialized.value_or(words[3]);
      return;
    case spirv_op::kSpecConstantOp:
      if (words.size() > 4) id.value = result(words[3], words.subspan(4));
      return;
    default:
      id.value = result(instruction.opcode(), words.subspan(3));
  }
}

void KnownValues::read(const Instruction& instruction) {
  const auto words = instruction.words;
  if (words.size() < 2 || words[1] >= ids_.size()) return;
  const std::uint32_t op = instruction.opcode();
  if (op == spirv_op::kTypeBool) ids_[words[1]].is_known_type = true;
  if (op == spirv_op::kTypeInt) ids_[words[1]].is_known_type = words.size() == 4 && words[2] == 32;
  if (op == spirv_op::kDecorate && words.size() == 4 && words[2] == kDecorationSpecId) {
    const auto given = std::ranges::find(specialization_, words[3], &SpecializationValue::id);
    if (given != specialization_.end()) ids_[words[1]].specialized = given->value;
  }
  if (words.size() < 3 || words[2] >= ids_.size() || !ids_[words[1]].is_known_type) return;
  ids_[words[2]].is_ours = true;
  if (op != spirv_op::kPhi) read_constant(instruction);
}

}  // namespace vkattn::detail
