// Joining programs: see join.hpp.
#include "program/join.hpp"

#include <algorithm>
#include <cassert>
#include <utility>

namespace vkattn::detail {

namespace {

constexpr VkAccessFlags kShaderAccess = VK_ACCESS_SHADER_READ_BIT | VK_ACCESS_SHADER_WRITE_BIT;

/// Adds the demands of a part's tensor to the whole program's tensor that it lies in.
void require(const ProgramTensor& own, const JoinedTensor& at, std::span<const JoinedTensor> tensors,
             ProgramTensor& whole) {
  if (whole.name.empty()) {
    whole = own;
    whole.bytes = at.byte + own.bytes;
    whole.in_place_of.reset();
    if (at.byte != 0) whole.layout = {};
  }
  whole.bytes = std::max(whole.bytes, at.byte + own.bytes);
  if (own.alignment_bytes > whole.alignment_bytes) {
    whole.alignment_bytes = own.alignment_bytes;
    whole.alignment_name = own.alignment_name;
  }
  whole.written = whole.written || own.written;
  if (!own.in_place_of) return;
  const JoinedTensor& other = tensors[*own.in_place_of];
  if (other.in == JoinedTensor::In::kTensor && other.index != at.index) whole.in_place_of = other.index;
}

/// The number of a layout that is equal to one of the part's; adds one if there is none.
std::uint32_t layout_for(const ProgramDesc& part, std::uint32_t layout, ProgramDesc& whole) {
  const Slots own(part, layout);
  for (std::uint32_t i = 0; i < whole.layouts.size(); ++i) {
    if (whole.layouts[i] == part.layouts[layout] &&
        std::ranges::equal(Slots(whole, i).bindings(), own.bindings())) {
      return i;
    }
  }
  whole.layouts.push_back(part.layouts[layout]);
  return static_cast<std::uint32_t>(whole.layouts.size() - 1);
}

void place(const JoinedPart& part, ProgramSet& set) {
  using From = ProgramBinding::From;
  for (ProgramBinding& binding : set.bindings) {
    if (binding.from == From::kWorkspace || binding.from == From::kTensorOrWorkspace) {
      binding.workspace_byte += part.workspace_byte;
    }
    if (binding.from != From::kTensor && binding.from != From::kTensorOrWorkspace) continue;
    const JoinedTensor& at = part.tensors[binding.index];
    // Other steps may use the bytes behind its own at the same time.
    if (binding.to_end && at.bytes != 0) {
      binding.bytes = std::max(binding.bytes, at.bytes - std::min(at.bytes, binding.first_byte));
      binding.to_end = false;
    }
    binding.first_byte += at.byte;
    binding.index = at.index;
    if (at.in == JoinedTensor::In::kWorkspace) binding.from = From::kInWorkspace;
    if (at.in != JoinedTensor::In::kNumbers) continue;
    assert(set.parameters.empty());
    binding.from = From::kParameters;
    set.parameters.assign(part.numbers.begin(), part.numbers.end());
    set.parameters_byte = part.numbers_byte;
  }
}

}  // namespace

std::uint32_t join(const JoinedPart& part, ProgramDesc& whole) {
  assert(part.tensors.size() == part.program.tensors.size());
  const auto first_pass = static_cast<std::uint32_t>(whole.passes.size());
  const auto first_set = static_cast<std::uint32_t>(whole.sets.size());
  for (std::size_t i = 0; i < part.tensors.size(); ++i) {
    const JoinedTensor& at = part.tensors[i];
    const ProgramTensor& own = part.program.tensors[i];
    if (at.in != JoinedTensor::In::kTensor || own.bytes == 0) continue;
    require(own, at, part.tensors, whole.tensors[at.index]);
  }
  if (part.program.steps.empty()) return first_pass;
  std::vector<std::uint32_t> layouts;  // the number of each in the whole
  for (std::uint32_t i = 0; i < part.program.layouts.size(); ++i)
    layouts.push_back(layout_for(part.program, i, whole));
  // Passes before the first step's record nothing.
  const std::uint32_t recorded = part.program.steps.front().pass;
  for (std::uint32_t i = 0; i < part.program.passes.size(); ++i) {
    ProgramPass pass = part.program.passes[i];
    pass.layout = layouts[pass.layout];
    if (i <= recorded) pass.barrier.reset();  // of no use before the first, as the part is by itself
    // A call may leave the first passes out, so each of these may be the one that waits.
    if (part.waits && (pass.barrier || i == recorded)) {
      pass.barrier =
          PassBarrier{VK_ACCESS_SHADER_WRITE_BIT | (pass.barrier ? pass.barrier->from : 0), kShaderAccess};
    }
    whole.passes.push_back(std::move(pass));
  }
  for (ProgramSet set : part.program.sets) {
    set.layout = layouts[set.layout];
    const bool has_parameters = !set.parameters.empty();
    place(part, set);
    if (has_parameters) set.parameters_byte += part.workspace_byte;
    whole.sets.push_back(std::move(set));
  }
  for (ProgramStep step : part.program.steps) {
    step.pass += first_pass;
    step.set += first_set;
    whole.steps.push_back(step);
  }
  return first_pass;
}

}  // namespace vkattn::detail
