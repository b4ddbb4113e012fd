// Making programs: dispatches, limits, pipelines.
#include "program/program.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <utility>

#include "common/integers.hpp"
#include "common/message.hpp"
#include "spirv/buffer_addresses.hpp"
#include "spirv/execution_modes.hpp"
#include "spirv/loops.hpp"
#include "spirv/shared_accesses.hpp"
#include "vulkan/buffer_usage.hpp"
#include "vulkan/shared_pipelines.hpp"

namespace vkattn::detail {

namespace {

bool same_pipeline(const ProgramPass& a, const ProgramPass& b) {
  return a.layout == b.layout && a.code == b.code && a.specialization == b.specialization &&
         a.required_subgroup_size == b.required_subgroup_size && a.by_address == b.by_address &&
         a.unrolls_on_cpus == b.unrolls_on_cpus;
}

// Of passes with equal names and pipelines, such as those of each chunk of the keys, the first one.
std::vector<std::size_t> distinct_passes(const ProgramDesc& program) {
  std::vector<std::size_t> distinct;
  for (std::size_t i = 0; i < program.passes.size(); ++i) {
    const ProgramPass& pass = program.passes[i];
    const bool known = std::any_of(distinct.begin(), distinct.end(), [&](std::size_t other) {
      return program.passes[other].name == pass.name && same_pipeline(program.passes[other], pass);
    });
    if (!known) distinct.push_back(i);
  }
  return distinct;
}

// Before bindings become slots.
void reach_by_address(const ProgramLayout& layout, const ProgramPass& pass,
                      std::vector<std::uint32_t>& words) {
  std::vector<AddressWord> addresses;
  for (const AddressWord& word : layout.push_addresses) {
    if (std::ranges::find(pass.by_address, word.binding) != pass.by_address.end()) addresses.push_back(word);
  }
  if (!addresses.empty()) static_cast<void>(use_buffer_addresses(words, addresses));
}

}  // namespace

std::uint64_t hash_of(std::span<const ProgramPass> passes, const ExecutionModes& modes) {
  std::uint64_t hash = 0xcbf29ce484222325ULL;  // FNV-1a, 64 bits (Fowler, Noll and Vo)
  const auto add = [&](std::uint32_t word) { hash = (hash ^ word) * 0x100000001b3ULL; };
  for (const ProgramPass& pass : passes) {
    for (const std::uint8_t byte : pass.code.bytes()) add(byte);
    for (const SpecializationValue& value : pass.specialization) {
      add(value.id);
      add(value.value);
    }
    add(pass.required_subgroup_size);
    add(static_cast<std::uint32_t>(pass.by_address.size()));
    for (const std::uint32_t binding : pass.by_address) add(binding);
    add(pass.unrolls_on_cpus ? 1 : 0);
  }
  for (const bool mode :
       {modes.maximal_reconvergence, modes.subgroup_uniform_control_flow, modes.float16_to_nearest}) {
    add(mode ? 1 : 0);
  }
  return hash;
}

void add_steps(ProgramDesc& program, std::uint32_t pass, std::uint32_t set, std::uint64_t units,
               const UnitLimits& limits, const Capabilities& capabilities) {
  if (units == 0) return;
  const std::uint64_t max_x = capabilities.max_workgroup_count[0];
  const std::uint64_t groups = divide_up(units, limits.units_per_group);
  const std::uint64_t most = std::min(std::max<std::uint64_t>(limits.most_units / limits.units_per_group, 1),
                                      max_x * capabilities.max_workgroup_count[1]);
  const std::uint64_t each = divide_up(groups, divide_up(groups, most));  // even parts, no small last one
  for (std::uint64_t first = 0; first < groups; first += each) {
    const std::uint64_t count = std::min(each, groups - first);
    const std::uint64_t groups_y = divide_up(count, max_x);
    const std::uint64_t first_unit = first * limits.units_per_group;
    const std::uint64_t unit_count = std::min(count * limits.units_per_group, units - first_unit);
    program.steps.push_back(
        {pass, set, static_cast<std::uint32_t>(first_unit), static_cast<std::uint32_t>(unit_count),
         static_cast<std::uint32_t>(divide_up(count, groups_y)), static_cast<std::uint32_t>(groups_y),
         static_cast<double>(unit_count) * limits.unit_ns});
  }
}

ProgramNeeds needs_of(const ProgramDesc& program) {
  ProgramNeeds needs;
  for (std::uint32_t i = 0; i < program.layouts.size(); ++i) {
    needs.push_constant_bytes = std::max(needs.push_constant_bytes, program.layouts[i].push_constant_bytes);
    needs.storage_buffers = std::max(needs.storage_buffers, Slots(program, i).count());
  }
  return needs;
}

Result<void> check_device(const ProgramDesc& program, bool push_descriptors,
                          const Capabilities& capabilities) {
  const auto [push_constant_bytes, storage_buffers] = needs_of(program);
  if (capabilities.max_push_constants_bytes < push_constant_bytes) {
    return limit_exceeded("needs ", push_constant_bytes, " bytes of push constants; maxPushConstantsSize is ",
                          capabilities.max_push_constants_bytes);
  }
  if (capabilities.max_stage_storage_buffers < storage_buffers) {
    return limit_exceeded("needs ", storage_buffers,
                          " storage buffers; maxPerStageDescriptorStorageBuffers is ",
                          capabilities.max_stage_storage_buffers,
                          ": plan it with fewer optional tensors, or on another device");
  }
  if (!push_descriptors) return {};
  if (!capabilities.push_descriptors) {
    return unsupported("push_descriptors needs VK_KHR_push_descriptor enabled on the device");
  }
  if (capabilities.max_push_descriptors < storage_buffers) {
    return limit_exceeded("needs ", storage_buffers, " push descriptors; maxPushDescriptors is ",
                          capabilities.max_push_descriptors);
  }
  return {};
}

Result<void> check_statistics(bool capture_statistics, const Capabilities& capabilities) {
  if (!capture_statistics || capabilities.pipeline_statistics) return {};
  return unsupported("capture_statistics needs VK_KHR_pipeline_executable_properties enabled on the device");
}

std::uint64_t binding_alignment(const Capabilities& capabilities) {
  return std::max<std::uint64_t>(capabilities.min_storage_offset_alignment, 16);
}

BufferLimit buffer_limit(const Capabilities& capabilities) {
  if (capabilities.max_buffer_size <= capabilities.max_memory_allocation_bytes)
    return {capabilities.max_buffer_size, "maxBufferSize"};
  return {capabilities.max_memory_allocation_bytes, "maxMemoryAllocationSize"};
}

Result<void> check_tensor_bytes(std::string_view name, std::uint64_t bytes, const Capabilities& capabilities,
                                std::string_view advice) {
  // Descriptors begin at a multiple of the device's alignment, and end at a whole word.
  const std::uint64_t slack = binding_alignment(capabilities) + 4;
  if (bytes + slack <= capabilities.max_storage_buffer_range) return {};
  return limit_exceeded("the ", name, " tensor takes ", bytes, " bytes, and up to ", slack,
                        " more by its alignment; maxStorageBufferRange is ",
                        capabilities.max_storage_buffer_range, advice);
}

Program::Program(Shared<const DeviceState> device, ProgramDesc desc, const ProgramOptions& options)
    : device_(std::move(device)), desc_(std::move(desc)), options_(options) {
  for (std::uint32_t i = 0; i < desc_.layouts.size(); ++i) {
    layouts_.push_back({Slots(desc_, i)});
    push_constant_bytes_ = std::max(push_constant_bytes_, desc_.layouts[i].push_constant_bytes);
  }
  workspace_.name = "workspace";
  workspace_.bytes = desc_.workspace_bytes;
  workspace_.alignment_bytes = device_->capabilities.min_storage_offset_alignment;
  workspace_.alignment_name = "minStorageBufferOffsetAlignment";
  const auto has_tensors = [](const ProgramSet& set) {
    return std::ranges::any_of(set.bindings, [](const ProgramBinding& binding) {
      return binding.from == ProgramBinding::From::kInWorkspace;
    });
  };
  if (std::ranges::any_of(desc_.sets, has_tensors)) {
    workspace_.alignment_bytes = binding_alignment(device_->capabilities);
  }
  for (const ProgramPass& pass : desc_.passes) labels_.push_back(message("vkattn ", pass.name));
}

std::string Program::PipelineNames::in_words() const {
  std::string text;
  const auto add = [&](std::string_view verb, const std::vector<std::string_view>& shaders) {
    for (std::size_t i = 0; i < shaders.size(); ++i) {
      text += message(i > 0 ? ", " : text.empty() ? "" : "; ", i > 0 ? "" : verb, shaders[i]);
    }
  };
  add("compiled ", compiled);
  add("found ", found);
  return text;
}

Result<void> Program::make_layouts() {
  if (desc_.passes.empty()) return {};
  for (std::size_t i = 0; i < layouts_.size(); ++i) {
    const PipelineLayoutDesc wanted{layouts_[i].slots.count(), desc_.layouts[i].push_constant_bytes,
                                    options_.push_descriptors};
    const auto found = std::ranges::find_if(
        objects_, [&](const LayoutObjects& objects) { return objects.layout->desc() == wanted; });
    layouts_[i].objects = static_cast<std::size_t>(found - objects_.begin());
    if (found != objects_.end()) continue;
    auto layout = PipelineLayout::create(device_, wanted);
    if (!layout) return layout.error();
    auto shared = std::make_shared<const PipelineLayout>(*std::move(layout));
    auto pools = std::make_unique<DescriptorPools>(device_, shared->set_layout(), wanted.storage_buffers);
    objects_.push_back({std::move(shared), std::move(pools)});
  }
  place_sets();
  return {};
}

// The sets of one allocation lie side by side.
void Program::place_sets() {
  place_of_set_.resize(desc_.sets.size());
  std::size_t place = 0;
  for (LayoutObjects& objects : objects_) {
    objects.first_set = place;
    for (std::size_t i = 0; i < desc_.sets.size(); ++i) {
      if (&objects_of(desc_.sets[i]) == &objects) place_of_set_[i] = place++;
    }
    objects.set_count = place - objects.first_set;
  }
}

Result<std::shared_ptr<const Pipeline>> Program::make_pipeline(const ProgramPass& pass,
                                                               PipelineNames& names) const {
  if (pass.pipeline) return pass.pipeline;
  const UsedLayout& layout = layouts_[pass.layout];
  auto words = pass.code.words();
  if (!words) return words.error();
  reach_by_address(desc_.layouts[pass.layout], pass, *words);
  layout.slots.renumber(*words);
  leave_shared_memory_to_barriers(*words);
  // Matrices stay in registers where loops over them are unrolled. CPU implementations emulate them, and
  // unrolling a kernel costs compile time only (lavapipe 26.1, matrix: 26 s against 1.7 s at head dim 128).
  if (device_->capabilities.is_cpu() && !pass.unrolls_on_cpus && has_matrices(*words)) keep_loops(*words);
  declare_execution_modes(*words, offered_modes(device_->capabilities));
  auto shared = device_->pipelines->get(
      device_, {pass.shader, *words, pass.specialization, objects_[layout.objects].layout,
                pass.required_subgroup_size, options_.capture_statistics, options_.pipeline_cache});
  if (!shared) return shared.error();
  (shared->is_new ? names.compiled : names.found).push_back(pass.shader);
  return std::move(shared->pipeline);
}

Result<void> Program::make_pipelines(PipelineNames& names) const {
  // Pipelines that an earlier call compiled before it failed are found again while this vector holds them.
  const auto earlier = std::exchange(pipelines_, {});
  pipeline_of_pass_.clear();
  for (std::size_t i = 0; i < desc_.passes.size(); ++i) {
    const ProgramPass& pass = desc_.passes[i];
    const auto same =
        std::find_if(desc_.passes.begin(), desc_.passes.begin() + static_cast<std::ptrdiff_t>(i),
                     [&](const ProgramPass& other) { return same_pipeline(other, pass); });
    const auto found = static_cast<std::size_t>(same - desc_.passes.begin());
    if (found < i) {
      pipeline_of_pass_.push_back(pipeline_of_pass_[found]);
      continue;
    }
    auto pipeline = make_pipeline(pass, names);
    if (!pipeline) return pipeline.error();
    pipeline_of_pass_.push_back(pipelines_.size());
    pipelines_.push_back(*std::move(pipeline));
  }
  return {};
}

Result<void> Program::compile() const {
  if (is_compiled()) return {};
  std::unique_lock lock(compile_mutex_);
  if (is_compiled()) return {};
  if (const std::shared_ptr<Attempt<void>> others = compiling_) return others->wait(lock);
  const auto compiling = std::make_shared<Attempt<void>>();
  compiling_ = compiling;
  lock.unlock();
  const auto begin = std::chrono::steady_clock::now();
  PipelineNames names;
  Result<void> made = without_exceptions([&] { return make_pipelines(names); });
  const std::chrono::duration<double, std::milli> took = std::chrono::steady_clock::now() - begin;
  if (made) compiled_.store(true, std::memory_order_release);
  lock.lock();
  compiling_.reset();
  const Result<void>& outcome = compiling->end(std::move(made));
  lock.unlock();
  if (!outcome) return outcome;
  // Waiting threads are woken before this, as a log may wait for a thread that compiles the same plan. A log
  // that fails changes nothing.
  if (is_logged(device_->log, LogLevel::kInfo) && !(names.compiled.empty() && names.found.empty())) {
    static_cast<void>(without_exceptions([&]() -> Result<void> {
      write_log(device_->log, LogLevel::kInfo, names.in_words(), " in ", std::llround(took.count()), " ms");
      return {};
    }));
  }
  return {};
}

Result<std::shared_ptr<const Program>> Program::create(Shared<const DeviceState> device, ProgramDesc desc,
                                                       const ProgramOptions& options) {
  if (Result<void> s = check_device(desc, options.push_descriptors, device->capabilities); !s)
    return s.error();
  if (Result<void> s = check_statistics(options.capture_statistics, device->capabilities); !s)
    return s.error();
  const std::shared_ptr<Program> program(new Program(std::move(device), std::move(desc), options));
  if (Result<void> s = program->make_layouts(); !s) return s.error();
  if (!options.deferred) {
    if (Result<void> s = program->compile(); !s) return s.error();
  }
  return std::shared_ptr<const Program>(program);
}

std::shared_ptr<const Pipeline> Program::pipeline_of(std::size_t pass) const {
  return is_compiled() ? pipelines_[pipeline_of_pass_[pass]] : nullptr;
}

bool Program::updates_parameters() const noexcept {
  const auto has_parameters = [](const ProgramSet& set) { return !set.parameters.empty(); };
  return options_.push_descriptors && std::any_of(desc_.sets.begin(), desc_.sets.end(), has_parameters);
}

std::vector<DispatchInfo> Program::dispatches() const {
  std::vector<DispatchInfo> all;
  for (const ProgramStep& step : desc_.steps) {
    all.push_back({desc_.passes[step.pass].name,
                   step.first_unit,
                   step.unit_count,
                   {step.groups_x, step.groups_y, 1},
                   step.estimated_ns});
  }
  return all;
}

PlanRequirements Program::requirements() const {
  PlanRequirements needs;
  if (desc_.steps.empty()) return needs;
  needs.tensor_usage = storage_usage(device_->capabilities.buffer_addresses);
  for (const UsedLayout& layout : layouts_) {
    needs.storage_buffers = std::max(needs.storage_buffers, layout.slots.count());
  }
  needs.descriptor_sets = options_.push_descriptors ? 0 : static_cast<std::uint32_t>(desc_.sets.size());
  if (const std::uint64_t bytes = parameter_bytes(); bytes != 0 && !options_.push_descriptors) {
    needs.parameter_bytes = static_cast<std::uint32_t>(device_->parameters->piece_bytes(bytes));
  }
  needs.dispatches = static_cast<std::uint32_t>(desc_.steps.size());
  needs.push_constant_bytes = push_constant_bytes_;
  needs.first_stages = needs.last_stages = VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT;
  needs.first_access = VK_ACCESS_SHADER_READ_BIT | VK_ACCESS_SHADER_WRITE_BIT;
  needs.last_access = VK_ACCESS_SHADER_WRITE_BIT;
  if (desc_.workspace_bytes == 0) return needs;
  needs.workspace_bytes = desc_.workspace_bytes;
  needs.workspace_alignment = workspace_.alignment_bytes;
  needs.workspace_usage = storage_usage(device_->capabilities.buffer_addresses);
  // Without bindings of their own, parameters are written by vkCmdUpdateBuffer.
  if (updates_parameters()) {
    needs.workspace_usage |= VK_BUFFER_USAGE_TRANSFER_DST_BIT;
    needs.first_stages |= VK_PIPELINE_STAGE_TRANSFER_BIT;
    needs.first_access |= VK_ACCESS_TRANSFER_WRITE_BIT;
  }
  return needs;
}

std::vector<PipelineInfo> Program::pipelines() const {
  std::vector<PipelineInfo> all;
  for (const std::size_t i : distinct_passes(desc_)) {
    const ProgramPass& pass = desc_.passes[i];
    all.push_back({pass.name, pass.shader, pass.workgroup_size});
  }
  return all;
}

Result<std::vector<PipelineStatistics>> Program::statistics(bool listings) const {
  std::vector<PipelineStatistics> all;
  if (!options_.capture_statistics) {
    return invalid("statistics need a plan made with capture_statistics");
  }
  if (!is_compiled()) {
    return invalid("statistics are those of compiled pipelines: call compile() first");
  }
  for (const std::size_t i : distinct_passes(desc_)) {
    const ProgramPass& pass = desc_.passes[i];
    auto found = read_statistics(*device_, pipelines_[pipeline_of_pass_[i]]->handle(), pass.name, listings);
    if (!found) return found.error();
    for (PipelineStatistics& entry : *found) {
      entry.shader = pass.shader;
      all.push_back(std::move(entry));
    }
  }
  return all;
}

Result<PlanMemory> Program::memory() const {
  const PlanRequirements needs = requirements();
  PlanMemory memory;
  memory.workspace_bytes = needs.workspace_bytes;
  memory.parameter_bytes = needs.parameter_bytes;
  for (const std::size_t i : distinct_passes(desc_)) {
    const auto words = desc_.passes[i].code.words();
    if (!words) return words.error();
    ++memory.pipelines;
    memory.spirv_bytes += words->size() * sizeof(std::uint32_t);
  }
  if (!options_.capture_statistics || !is_compiled()) return memory;
  const auto told = statistics(false);
  if (!told) return told.error();
  for (const PipelineStatistics& executable : *told) memory.code_bytes += code_bytes(executable);
  return memory;
}

}  // namespace vkattn::detail
