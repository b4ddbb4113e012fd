// Functions and blocks: see control_flow.hpp. Opcodes are SPIR-V 1.6's, section 3.52.
#include "spirv/control_flow.hpp"

#include "spirv/spirv_ops.hpp"

namespace vkattn::detail {

namespace {

constexpr std::size_t kMergeWords = 3;
constexpr std::uint32_t kSpirvMagic = 0x07230203;

bool is_terminator(std::uint32_t op) {
  return (op >= spirv_op::kBranch && op <= spirv_op::kUnreachable) || op == spirv_op::kTerminateInvocation;
}

}  // namespace

// In the project's shaders a block has some 40 words, and a function 200.
ControlFlow::ControlFlow(std::span<const std::uint32_t> spirv) : spirv_(spirv), places_(spirv[3]) {
  blocks_.reserve(spirv.size() / 32);
  functions_.reserve(spirv.size() / 128);
}

bool ControlFlow::add_outside(const ConstInstruction& instruction) {
  const auto words = instruction.words;
  switch (instruction.opcode()) {
    case spirv_op::kEntryPoint:
      if (words.size() < 4 || entry_ != 0) return false;
      entry_ = words[2];
      return true;
    case spirv_op::kFunction:
      if (words.size() != 5 || words[2] >= places_.size()) return false;
      places_[words[2]].function = functions_.size();
      functions_.push_back({words[2], instruction.begin, instruction.end(), blocks_.size(), 0});
      in_function_ = true;
      return true;
    case spirv_op::kExtInst:
    case spirv_op::kLabel:
    case spirv_op::kDecorationGroup:
    case spirv_op::kGroupDecorate:
    case spirv_op::kGroupMemberDecorate:
    case spirv_op::kDecorateId:
    case spirv_op::kDecorateString:
    case spirv_op::kMemberDecorateString:
      return false;
    default:
      return true;
  }
}

bool ControlFlow::add_label(const ConstInstruction& instruction) {
  const auto words = instruction.words;
  if (words.size() != 2 || words[1] >= places_.size() || places_[words[1]].block) return false;
  if (functions_.back().block_count > 0 && !is_ended_) return false;
  is_ended_ = false;
  places_[words[1]].block = blocks_.size();
  SpirvBlock block;
  block.label = words[1];
  block.function = functions_.size() - 1;
  block.begin = instruction.begin;
  block.end = instruction.end();
  blocks_.push_back(block);
  functions_.back().block_count += 1;
  return true;
}

bool ControlFlow::add(const ConstInstruction& instruction) {
  const std::uint32_t op = instruction.opcode();
  if (op == spirv_op::kLine || op == spirv_op::kNoLine) return false;
  if (!in_function_) return add_outside(instruction);
  SpirvFunction& function = functions_.back();
  function.end = instruction.end();
  if (op == spirv_op::kFunctionEnd) {
    in_function_ = false;
    return function.block_count > 0 && is_ended_;
  }
  if (op == spirv_op::kFunction) return false;
  if (op == spirv_op::kLabel) return add_label(instruction);
  if (function.block_count == 0) return true;  // a parameter
  if (is_ended_) return false;
  SpirvBlock& block = blocks_.back();
  block.end = instruction.end();
  block.terminator = instruction.begin;
  block.has_phi |= op == spirv_op::kPhi;
  is_ended_ = is_terminator(op);
  if (op == spirv_op::kSelectionMerge || op == spirv_op::kLoopMerge) block.merge = instruction.begin;
  return (op != spirv_op::kSelectionMerge || instruction.words.size() == kMergeWords) &&
         (op != spirv_op::kLoopMerge || instruction.words.size() > kMergeWords);
}

std::optional<ControlFlow> ControlFlow::read(std::span<const std::uint32_t> spirv) {
  if (spirv.size() <= kSpirvHeaderWords || spirv[0] != kSpirvMagic || spirv[3] > spirv.size())
    return std::nullopt;
  ControlFlow flow(spirv);
  std::size_t end = kSpirvHeaderWords;
  for (const auto& instruction : instructions_of(spirv)) {
    if (!flow.add(instruction)) return std::nullopt;
    end = instruction.end();
  }
  const bool is_whole =
      end == spirv.size() && !flow.in_function_ && flow.function_of(flow.entry_).has_value();
  return is_whole ? std::optional(std::move(flow)) : std::nullopt;
}

}  // namespace vkattn::detail
