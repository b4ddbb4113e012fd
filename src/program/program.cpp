// Making programs: dispatches, limits, pipelines.
#include "program/program.hpp"

#include <algorithm>
#include <utility>

#include "common/integers.hpp"
#include "common/message.hpp"

namespace vkattn::detail {

namespace {

bool same_pipeline(const ProgramPass& a, const ProgramPass& b) {
  return a.words.data() == b.words.data() && a.specialization == b.specialization &&
         a.required_subgroup_size == b.required_subgroup_size;
}

}  // namespace

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

Result<void> check_device(const ProgramDesc& program, bool push_descriptors,
                          const Capabilities& capabilities) {
  if (capabilities.max_push_constants_bytes < program.push_constant_bytes) {
    return limit_exceeded("needs ", program.push_constant_bytes,
                          " bytes of push constants; maxPushConstantsSize is ",
                          capabilities.max_push_constants_bytes);
  }
  if (capabilities.max_stage_storage_buffers < program.binding_count) {
    return limit_exceeded("needs ", program.binding_count,
                          " storage buffers; maxPerStageDescriptorStorageBuffers is ",
                          capabilities.max_stage_storage_buffers);
  }
  if (!push_descriptors) return {};
  if (!capabilities.push_descriptors) {
    return Error{ErrorCode::kUnsupported, VK_SUCCESS,
                 "push_descriptors needs VK_KHR_push_descriptor enabled on the device"};
  }
  if (capabilities.max_push_descriptors < program.binding_count) {
    return limit_exceeded("needs ", program.binding_count, " push descriptors; maxPushDescriptors is ",
                          capabilities.max_push_descriptors);
  }
  return {};
}

std::uint64_t binding_alignment(const Capabilities& capabilities) {
  return std::max<std::uint64_t>(capabilities.min_storage_offset_alignment, 16);
}

Result<void> Program::compile(const ProgramOptions& options) {
  auto layout = PipelineLayout::create(
      device_, {desc_.binding_count, desc_.push_constant_bytes, options.push_descriptors});
  if (!layout) return layout.error();
  layout_ = *std::move(layout);
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
    auto pipeline = Pipeline::create(
        device_, {pass.words, pass.specialization, layout_.handle(), pass.required_subgroup_size,
                  options.capture_statistics, options.pipeline_cache});
    if (!pipeline) return pipeline.error();
    pipeline_of_pass_.push_back(pipelines_.size());
    pipelines_.push_back(*std::move(pipeline));
  }
  return {};
}

Result<std::shared_ptr<const Program>> Program::create(std::shared_ptr<const DeviceState> device,
                                                       ProgramDesc desc, const ProgramOptions& options) {
  if (Result<void> s = check_device(desc, options.push_descriptors, device->capabilities); !s)
    return s.error();
  const std::shared_ptr<Program> program(new Program(std::move(device)));
  program->desc_ = std::move(desc);
  program->push_descriptors_ = options.push_descriptors;
  program->workspace_.name = "workspace";
  program->workspace_.bytes = program->desc_.workspace_bytes;
  program->workspace_.alignment_bytes = program->device_->capabilities.min_storage_offset_alignment;
  program->workspace_.alignment_name = "minStorageBufferOffsetAlignment";
  if (program->desc_.passes.empty()) return std::shared_ptr<const Program>(program);
  if (Result<void> s = program->compile(options); !s) return s.error();
  return std::shared_ptr<const Program>(program);
}

Result<std::vector<PipelineStatistics>> Program::statistics(bool listings) const {
  std::vector<PipelineStatistics> all;
  for (std::size_t i = 0; i < desc_.passes.size(); ++i) {
    const ProgramPass& pass = desc_.passes[i];
    auto found = read_statistics(*device_, pipelines_[pipeline_of_pass_[i]].handle(), pass.name, listings);
    if (!found) return found.error();
    for (PipelineStatistics& entry : *found) {
      entry.shader = pass.shader;
      all.push_back(std::move(entry));
    }
  }
  return all;
}

}  // namespace vkattn::detail
