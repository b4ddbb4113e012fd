// Slots: see slots.hpp.
#include "program/slots.hpp"

#include <algorithm>

#include "program/program.hpp"
#include "spirv/spirv.hpp"
#include "spirv/spirv_ops.hpp"

namespace vkattn::detail {

namespace {

constexpr std::uint32_t kNoSlot = ~std::uint32_t{0};

// What stands in for a binding: in the first set that has an opinion.
std::uint32_t stand_in(const ProgramDesc& program, std::uint32_t binding) {
  return program.sets.empty() ? 0 : program.sets.front().bindings[binding].index;
}

}  // namespace

Slots::Slots(const ProgramDesc& program) : slots_(program.binding_count, kNoSlot) {
  bindings_.reserve(program.binding_count);
  for (std::uint32_t binding = 0; binding < program.binding_count; ++binding) {
    const bool is_bound = std::any_of(program.sets.begin(), program.sets.end(), [&](const ProgramSet& set) {
      return set.bindings[binding].from != ProgramBinding::From::kStandIn;
    });
    if (!is_bound) continue;
    slots_[binding] = count();
    bindings_.push_back(binding);
  }
  for (std::uint32_t binding = 0; binding < program.binding_count; ++binding) {
    if (slots_[binding] != kNoSlot) continue;
    const std::uint32_t other = slots_[stand_in(program, binding)];
    slots_[binding] = other != kNoSlot ? other : 0;
  }
}

void Slots::renumber(std::span<std::uint32_t> spirv) const {
  constexpr std::uint32_t kDecorationBinding = 33;
  for (const auto& instruction : instructions_of(spirv)) {
    const auto words = instruction.words;
    const bool is_binding =
        instruction.opcode() == spirv_op::kDecorate && words.size() == 4 && words[2] == kDecorationBinding;
    if (is_binding && words[3] < slots_.size()) words[3] = slots_[words[3]];
  }
}

}  // namespace vkattn::detail
