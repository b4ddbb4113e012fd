// Slots: see slots.hpp.
#include "program/slots.hpp"

#include <algorithm>

#include "program/program.hpp"
#include "spirv/spirv.hpp"
#include "spirv/spirv_ops.hpp"

namespace vkattn::detail {

namespace {

constexpr std::uint32_t kNoSlot = ~std::uint32_t{0};

}  // namespace

Slots::Slots(const ProgramDesc& program, std::uint32_t layout)
    : slots_(program.layouts[layout].binding_count, kNoSlot) {
  const auto is_own = [&](const ProgramSet& set) { return set.layout == layout; };
  const auto count_of = static_cast<std::uint32_t>(slots_.size());
  bindings_.reserve(count_of);
  if (const ProgramLayout& own = program.layouts[layout]; !own.bound.empty()) {
    bindings_ = own.bound;
    for (std::uint32_t slot = 0; slot < count(); ++slot) slots_[bindings_[slot]] = slot;
    for (std::uint32_t& slot : slots_) slot = slot == kNoSlot ? slots_[own.shared] : slot;
    return;
  }
  for (std::uint32_t binding = 0; binding < count_of; ++binding) {
    const bool is_bound = std::any_of(program.sets.begin(), program.sets.end(), [&](const ProgramSet& set) {
      return is_own(set) && set.bindings[binding].from != ProgramBinding::From::kStandIn;
    });
    if (!is_bound) continue;
    slots_[binding] = count();
    bindings_.push_back(binding);
  }
  // The first set says which binding stands in for another.
  const auto first = std::find_if(program.sets.begin(), program.sets.end(), is_own);
  for (std::uint32_t binding = 0; binding < count_of; ++binding) {
    if (slots_[binding] != kNoSlot) continue;
    const std::uint32_t other =
        first == program.sets.end() ? kNoSlot : slots_[first->bindings[binding].index];
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
