// The common part of the scenarios of the C interface: see c_interface.hpp.
#include "failing_driver/c_interface.hpp"

#include <algorithm>
#include <array>
#include <cstdint>
#include <memory>

#include "c/tensors.hpp"
#include "failing_driver/layer.hpp"

namespace vkattn::tests {

namespace {

ErrorCode code_of(vkattn_result result) {
  switch (result) {
    case VKATTN_ERROR_UNSUPPORTED:
      return ErrorCode::kUnsupported;
    case VKATTN_ERROR_LIMIT_EXCEEDED:
      return ErrorCode::kLimitExceeded;
    case VKATTN_ERROR_OUT_OF_MEMORY:
      return ErrorCode::kOutOfMemory;
    case VKATTN_ERROR_DEVICE_LOST:
      return ErrorCode::kDeviceLost;
    case VKATTN_ERROR_VULKAN:
      return ErrorCode::kVulkan;
    case VKATTN_ERROR_NOT_FOUND:
      return ErrorCode::kNotFound;
    case VKATTN_ERROR_IO:
      return ErrorCode::kIo;
    default:
      return ErrorCode::kInvalidArgument;
  }
}

template <class Desc>
CPlanKind kind_of() {
  const auto problem = std::make_shared<const CProblem<Desc>>(small_problem<Desc>());
  return {InC<Desc>::kName,
          [problem](auto* device, const auto* options, auto** plan, auto* error) {
            return InC<Desc>::kCreate(device, &problem->structure, options, plan, error);
          },
          tiles_in_parts_of_c<Desc>()};
}

}  // namespace

const std::vector<CPlanKind>& c_plan_kinds() {
  static const std::vector<CPlanKind> all{
#define VKATTN_OPERATION(NAME, PLAN, DESC, WORDS, OPTIONS) kind_of<DESC>(),
#include "common/operations.def"
  };
  return all;
}

const CPlanKind& c_plan_kind(std::string_view name) {
  return *std::ranges::find(c_plan_kinds(), name, &CPlanKind::name);
}

vkattn_physical_device InterfaceOnDevice::physical_device() {
  vkattn_physical_device physical = initial(vkattn_physical_device_init);
  physical.instance = reinterpret_cast<VkInstance>(std::uintptr_t{0x30000});
  physical.physical_device = reinterpret_cast<VkPhysicalDevice>(std::uintptr_t{1});
  physical.get_instance_proc_addr = layer_get_instance_proc_addr;
  physical.api_version = VK_API_VERSION_1_3;
  return physical;
}

void InterfaceOnDevice::must_succeed(vkattn_result code) const {
  if (code != VKATTN_SUCCESS) throw Failed{{code_of(code), error_.vk_result, error_.message}};
}

void InterfaceOnDevice::must_be_told(std::size_t bytes) {
  if (bytes == 0) throw Failed{{ErrorCode::kOutOfMemory, VK_ERROR_OUT_OF_HOST_MEMORY, "nothing was told"}};
}

void InterfaceOnDevice::create_device(vkattn_device** device) {
  const vkattn_physical_device physical = physical_device();
  VkDeviceCreateInfo info{VK_STRUCTURE_TYPE_DEVICE_CREATE_INFO};
  must_succeed(vkattn_enable_wanted(&physical, &info, &memory_, &error_));
  vkattn_device_desc desc = initial(vkattn_device_desc_init);
  desc.instance = physical.instance;
  desc.physical_device = physical.physical_device;
  desc.device = reinterpret_cast<VkDevice>(std::uintptr_t{0x40000});
  desc.get_instance_proc_addr = physical.get_instance_proc_addr;
  desc.api_version = physical.api_version;
  desc.enabled_extensions = info.ppEnabledExtensionNames;
  desc.enabled_extension_count = info.enabledExtensionCount;
  desc.enabled_features = info.pNext;
  must_succeed(vkattn_device_create(&desc, device, &error_));
}

vkattn_execution InterfaceOnDevice::execution_of(const vkattn_plan* plan, CTensors& tensors) {
  vkattn_execution execution = initial(vkattn_execution_init);
  execution.tensors = tensors.data();
  for (vkattn_tensor tensor = 0; tensor < c::kTensorNumbers; ++tensor) {
    if (vkattn_plan_tensor_range(plan, tensor, 0) == 0) continue;
    const BufferRange range = made_up_buffer(tensor + 1);
    tensors[execution.tensor_count++] = {tensor, range.buffer, range.offset, range.size};
  }
  execution.workspace = made_up_buffer(100).buffer;
  execution.workspace_size = made_up_buffer(100).size;
  return execution;
}

void InterfaceOnDevice::use(std::string_view kind, const vkattn_plan_options& options) {
  OwnedPlan plan;
  create(kind, options, plan);
  CTensors tensors{};
  const vkattn_execution execution = execution_of(plan.get(), tensors);
  OwnedBindings bindings;
  must_succeed(vkattn_bindings_create(plan.get(), &execution, VK_NULL_HANDLE, bindings.target(), &error_));
  must_succeed(vkattn_bindings_rewrite(bindings.get(), &execution, &error_));
  must_succeed(vkattn_record(plan.get(), made_up_commands(), bindings.get(), nullptr, &error_));
  const vkattn_sequence_item items[] = {{plan.get(), bindings.get(), 1, 0},
                                        {plan.get(), bindings.get(), 0, 0}};
  OwnedSequence sequence;
  must_succeed(vkattn_sequence_create(items, 2, sequence.target(), &error_));
  must_succeed(vkattn_sequence_record(sequence.get(), made_up_commands(), nullptr, &error_));
  OwnedBudget budget;
  must_succeed(vkattn_frame_budget_create_sequence(sequence.get(), budget.target(), &error_));
}

}  // namespace vkattn::tests
