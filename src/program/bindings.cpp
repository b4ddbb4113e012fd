// From a call's tensors to descriptor sets, push constants and parameters.
#include <vkattn/bindings.hpp>

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

#include "common/integers.hpp"
#include "common/message.hpp"
#include "program/bound_set.hpp"
#include "vulkan/descriptors.hpp"

namespace vkattn::detail {

namespace {

void add_to_word(std::byte* word, std::uint32_t value) noexcept {
  std::uint32_t sum = 0;
  std::memcpy(&sum, word, sizeof(sum));
  sum += value;  // modulo 2^32, as the shaders add it
  std::memcpy(word, &sum, sizeof(sum));
}

std::uint64_t whole_words(std::uint64_t bytes) noexcept {
  return round_up(bytes, std::uint64_t{4});
}

}  // namespace

std::uint64_t Program::range_bytes(const ProgramTensor& tensor, std::uint64_t offset) noexcept {
  return tensor.bytes == 0 ? 0 : whole_words(offset + tensor.bytes) - offset;
}

BindingsState::~BindingsState() {
  if (!program) return;
  for (std::size_t i = 0; i < pools.size(); ++i) {
    const Program::LayoutObjects& objects = program->objects_[i];
    objects.pools->give_back(std::span(sets).subspan(objects.first_set, objects.set_count), pools[i]);
  }
}

Result<void> Program::check_range(const ProgramTensor& tensor, const BufferRange& range) const {
  const auto fail = [&](auto&&... parts) { return invalid("the ", tensor.name, " ", parts...); };
  // Text is made only after an error is found, as recording with tensors comes here too.
  const auto fail_bytes = [&](auto&&... parts) {
    const bool has_shape = !tensor.shape.empty();
    return fail(has_shape ? "of " : "", tensor.shape, has_shape ? " needs " : "needs ", tensor.bytes,
                parts...);
  };
  if (tensor.bytes == 0) return {};
  if (range.buffer == VK_NULL_HANDLE) {
    return tensor.may_be_null ? Result<void>() : fail_bytes(" bytes but its buffer is null");
  }
  if (range.offset % tensor.alignment_bytes != 0) {
    return fail("begins at byte ", range.offset, ", which is no multiple of ", tensor.alignment_bytes, ", ",
                tensor.alignment_name);
  }
  if (range.size < tensor.bytes) return fail_bytes(" bytes but its range has ", range.size);
  if (range.size >= VK_WHOLE_SIZE - range.offset) {
    return fail("has a range of ", range.size, " bytes from byte ", range.offset,
                " on, which no buffer has: give its size, not VK_WHOLE_SIZE");
  }
  if (const std::uint64_t needed = range_bytes(tensor, range.offset); range.size < needed) {
    return fail("ends inside a 32-bit word, by which devices may access it: give a range of ", needed,
                " bytes (range_bytes() of the plan)");
  }
  if (!tensor.is_table) return {};
  const std::uint64_t most = device_->capabilities.max_storage_buffer_range;
  if (range.size > most) return fail("has ", range.size, " bytes; maxStorageBufferRange is ", most);
  if (range.size % 4 == 0) return {};
  return fail("has ", range.size, " bytes, but elements of a table are 4 bytes each: give it ",
              whole_words(range.size), ", and store float16 and other small types as 32-bit ones");
}

Result<void> Program::check(const ProgramCall& call) const {
  for (std::size_t i = 0; i < desc_.tensors.size(); ++i) {
    if (Result<void> s = check_range(desc_.tensors[i], call.tensors[i]); !s) return s;
  }
  if (Result<void> s = check_range(workspace_, call.workspace); !s) return s;
  return check_overlaps(desc_.tensors, call.tensors, workspace_, call.workspace);
}

Program::BoundSet Program::resolve(const ProgramSet& set, const ProgramCall& call,
                                   const VkDescriptorBufferInfo& parameters) const {
  using From = ProgramBinding::From;
  const std::uint64_t alignment = binding_alignment(device_->capabilities);
  BoundSet bound;
  for (std::size_t i = 0; i < set.bindings.size(); ++i) {
    const ProgramBinding& binding = set.bindings[i];
    const bool of_caller = binding.from == From::kTensor || binding.from == From::kTensorOrWorkspace;
    const bool in_workspace = binding.from == From::kInWorkspace;
    if (in_workspace || (of_caller && call.tensors[binding.index].buffer != VK_NULL_HANDLE)) {
      const BufferRange& range = in_workspace ? call.workspace : call.tensors[binding.index];
      const bool is_table = !in_workspace && desc_.tensors[binding.index].is_table;
      const std::uint64_t first = range.offset + binding.first_byte;
      const std::uint64_t start = binding.exact ? first : first / alignment * alignment;
      std::uint64_t end = whole_words(first + (is_table ? range.size / 4 * 4 : binding.bytes));
      if (binding.to_end) {
        const std::uint64_t most = start + device_->capabilities.max_storage_buffer_range;
        end = std::max(end, std::min(range.offset + range.size, most));
      }
      bound.buffers[i] = {range.buffer, start, end - start};
      bound.offsets[i] = static_cast<std::uint32_t>((first - start) / binding.unit_bytes);
    } else if (of_caller || binding.from == From::kWorkspace) {
      bound.buffers[i] = {call.workspace.buffer, call.workspace.offset + binding.workspace_byte,
                          binding.bytes};
    } else if (binding.from == From::kParameters) {
      bound.buffers[i] = parameters;
    }
  }
  for (std::size_t i = 0; i < set.bindings.size(); ++i) {
    if (set.bindings[i].from == From::kStandIn) bound.buffers[i] = bound.buffers[set.bindings[i].index];
  }
  find_addresses(desc_.layouts[set.layout], bound);
  return bound;
}

void Program::find_addresses(const ProgramLayout& layout, BoundSet& bound) const noexcept {
  for (const AddressWord& word : layout.push_addresses) {
    const VkDescriptorBufferInfo& place = bound.buffers[word.binding];
    if (place.buffer == VK_NULL_HANDLE || bound.addresses[word.binding] != 0) continue;
    const VkBufferDeviceAddressInfo buffer{VK_STRUCTURE_TYPE_BUFFER_DEVICE_ADDRESS_INFO, nullptr,
                                           place.buffer};
    bound.addresses[word.binding] =
        device_->vk.vkGetBufferDeviceAddress(device_->device, &buffer) + place.offset;
  }
}

Program::SlotBuffers Program::in_slots(const BoundSet& bound, const Slots& slots) const noexcept {
  SlotBuffers buffers;
  for (std::uint32_t i = 0; i < slots.count(); ++i) buffers[i] = bound.buffers[slots.bindings()[i]];
  return buffers;
}

const Program::LayoutObjects& Program::objects_of(const ProgramSet& set) const noexcept {
  return objects_[layouts_[set.layout].objects];
}

StepRange Program::steps_of(const ProgramCall& call) const noexcept {
  // Steps are ordered by their passes.
  const auto first_of = [&](std::uint32_t pass) {
    const auto step =
        std::ranges::find_if(desc_.steps, [&](const ProgramStep& of) { return of.pass >= pass; });
    return static_cast<std::size_t>(step - desc_.steps.begin());
  };
  return slice_of({0, desc_.steps.size(), first_of(call.skipped.begin), first_of(call.skipped.end)}, {});
}

StepRange Program::slice_of(const StepRange& all, const RecordOptions& options) noexcept {
  StepRange slice = all;
  slice.begin = std::clamp<std::size_t>(options.first_dispatch, all.begin, all.end);
  const std::uint64_t end = std::uint64_t{options.first_dispatch} + options.dispatch_count;
  slice.end = static_cast<std::size_t>(std::clamp<std::uint64_t>(end, all.begin, all.end));
  if (slice.skips(slice.begin)) slice.begin = slice.skip_end;
  if (slice.end > slice.skip_begin && slice.end <= slice.skip_end) slice.end = slice.skip_begin;
  return slice;
}

std::uint64_t Program::parameter_bytes(const ProgramSet& set) const noexcept {
  return round_up(std::uint64_t{set.parameters.size()}, binding_alignment(device_->capabilities));
}

std::uint64_t Program::parameter_bytes() const noexcept {
  std::uint64_t bytes = 0;
  for (const ProgramSet& set : desc_.sets) bytes += parameter_bytes(set);
  return bytes;
}

void Program::fill_parameters(const ProgramSet& set, const BoundSet& bound, const ProgramCall& call,
                              std::byte* target) const noexcept {
  std::memcpy(target, set.parameters.data(), set.parameters.size());
  const ProgramLayout& layout = desc_.layouts[set.layout];
  for (const OffsetWord& word : layout.parameter_offsets) {
    add_to_word(target + word.byte, bound.offsets[word.binding]);
  }
  for (const CallWord& word : layout.call_words) {
    std::memcpy(target + word.byte, &call.words[word.index], sizeof(std::uint32_t));
  }
}

void Program::fill_push_constants(const ProgramStep& step, const BoundSet& bound,
                                  std::byte* target) const noexcept {
  const ProgramSet& set = desc_.sets[step.set];
  const ProgramLayout& layout = desc_.layouts[set.layout];
  std::memset(target, 0, layout.push_constant_bytes);
  std::memcpy(target, set.push_constants.data(), set.push_constants.size());
  for (const OffsetWord& word : layout.push_offsets) {
    add_to_word(target + word.byte, bound.offsets[word.binding]);
  }
  for (const AddressWord& word : layout.push_addresses) {
    if (bound.addresses[word.binding] == 0) continue;
    std::uint64_t address = 0;
    std::memcpy(&address, target + word.byte, sizeof(address));
    address += bound.addresses[word.binding];
    std::memcpy(target + word.byte, &address, sizeof(address));
  }
  if (!layout.units_byte) return;
  const std::array<std::uint32_t, 2> units{step.first_unit, step.unit_count};
  std::memcpy(target + *layout.units_byte, units.data(), sizeof(units));
}

void Program::write(BindingsState& bindings, const ProgramCall& call) const {
  BoundSet one;
  std::vector<BoundSet> many(desc_.sets.size() > 1 ? desc_.sets.size() : 0);
  const std::span<BoundSet> bound = many.empty() ? std::span(&one, 1) : std::span(many);
  std::uint64_t parameter = 0;
  for (std::size_t i = 0; i < desc_.sets.size(); ++i) {
    const ProgramSet& set = desc_.sets[i];
    const VkDescriptorBufferInfo parameters{bindings.parameters.buffer(),
                                            bindings.parameters.offset() + parameter, set.parameters.size()};
    bound[i] = resolve(set, call, parameters);
    const Slots& slots = layouts_[set.layout].slots;
    const SlotBuffers buffers = in_slots(bound[i], slots);
    std::array<VkWriteDescriptorSet, kMostBindings> writes;
    fill_buffer_writes(buffers, bindings.sets[place_of_set_[i]], std::span(writes).first(slots.count()));
    device_->vk.vkUpdateDescriptorSets(device_->device, slots.count(), writes.data(), 0, nullptr);
    if (!set.parameters.empty()) {
      fill_parameters(set, bound[i], call, bindings.parameters.data() + parameter);
      parameter += parameter_bytes(set);
    }
  }
  bindings.push_constants.resize(desc_.steps.size() * push_constant_bytes_);
  for (std::size_t i = 0; i < desc_.steps.size(); ++i) {
    fill_push_constants(desc_.steps[i], bound[desc_.steps[i].set],
                        bindings.push_constants.data() + i * push_constant_bytes_);
  }
  bindings.steps = steps_of(call);
}

Result<void> Program::take_sets(BindingsState& bindings, VkDescriptorPool pool) const {
  bindings.sets.resize(desc_.sets.size());
  bindings.pools.reserve(objects_.size());
  for (const LayoutObjects& objects : objects_) {
    auto taken =
        objects.pools->take(std::span(bindings.sets).subspan(objects.first_set, objects.set_count), pool);
    if (!taken) return taken.error();
    bindings.pools.push_back(*taken);
  }
  return {};
}

Result<std::shared_ptr<BindingsState>> Program::bind(const ProgramCall& call, VkDescriptorPool pool) const {
  if (options_.push_descriptors) {
    return invalid("this plan was made with push_descriptors: record it with tensors in place of bindings");
  }
  if (Result<void> s = check(call); !s) return s.error();
  auto bindings = std::make_shared<BindingsState>();
  bindings->program = shared_from_this();
  if (desc_.steps.empty()) return bindings;
  // Parameters come before the sets, as sets of a caller's pool cannot be given back.
  if (const std::uint64_t bytes = parameter_bytes(); bytes != 0) {
    auto piece = device_->parameters->take(bytes);
    if (!piece) return piece.error();
    bindings->parameters = *std::move(piece);
  }
  if (Result<void> s = take_sets(*bindings, pool); !s) return s.error();
  write(*bindings, call);
  return bindings;
}

Result<void> Program::rewrite(BindingsState& bindings, const ProgramCall& call) const {
  if (bindings.program.get() != this) {
    return invalid("these bindings were made by another plan");
  }
  if (Result<void> s = check(call); !s) return s;
  if (!desc_.steps.empty()) write(bindings, call);
  return {};
}

}  // namespace vkattn::detail

namespace vkattn {

Bindings::Bindings(Shared<detail::BindingsState> state) : state_(std::move(state)) {}
Bindings::Bindings(Bindings&&) noexcept = default;
Bindings& Bindings::operator=(Bindings&&) noexcept = default;
Bindings::~Bindings() = default;

}  // namespace vkattn
