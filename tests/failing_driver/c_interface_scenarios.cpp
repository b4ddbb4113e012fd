// Of the C interface: the same calls with its codes, sentences and handles.
#include <vkattn/vkattn.h>

#include <array>
#include <cstdint>
#include <set>
#include <string>

#include "c/tensors.hpp"
#include "failing_driver/layer.hpp"
#include "failing_driver/scenario.hpp"
#include "support/initial.hpp"

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

/// A handle that is taken back at the end.
template <class Handle, vkattn_result (*kDestroy)(Handle*)>
class Owned {
 public:
  Owned() = default;
  Owned(const Owned&) = delete;
  Owned& operator=(const Owned&) = delete;
  ~Owned() { (void)kDestroy(handle_); }
  [[nodiscard]] Handle* get() const { return handle_; }
  [[nodiscard]] Handle** target() { return &handle_; }

 private:
  Handle* handle_ = nullptr;
};
using OwnedDevice = Owned<vkattn_device, vkattn_device_release>;
using OwnedPlan = Owned<vkattn_plan, vkattn_plan_release>;
using OwnedBindings = Owned<vkattn_bindings, vkattn_bindings_destroy>;
using OwnedCache = Owned<vkattn_pipeline_cache, vkattn_pipeline_cache_destroy>;
using OwnedSelfTest = Owned<vkattn_self_test, vkattn_self_test_destroy>;

/// A device that was borrowed, and what scenarios do with plans of any kind.
class InterfaceOnDevice : public Scenario {
 protected:
  InterfaceOnDevice() { create_device(device_.target()); }

  static vkattn_physical_device physical_device() {
    vkattn_physical_device physical = initial(vkattn_physical_device_init);
    physical.instance = reinterpret_cast<VkInstance>(std::uintptr_t{0x30000});
    physical.physical_device = reinterpret_cast<VkPhysicalDevice>(std::uintptr_t{1});
    physical.get_instance_proc_addr = layer_get_instance_proc_addr;
    physical.api_version = VK_API_VERSION_1_3;
    return physical;
  }

  /// Ends the step with the error of a call that failed.
  void must_succeed(vkattn_result code) const {
    if (code != VKATTN_SUCCESS) throw Failed{{code_of(code), error_.vk_result, error_.message}};
  }

  void create_device(vkattn_device** device) {
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

  static vkattn_attention_desc attention() {
    vkattn_attention_desc desc = initial(vkattn_attention_desc_init);
    desc.query_heads = desc.kv_heads = 2;
    desc.query_length = 3;
    desc.kv_length = 200;
    desc.head_dim = 16;
    desc.softcap = 3;
    return desc;
  }

  /// Makes a plan, binds what it has a use for, and records it.
  template <class Desc>
  void use(vkattn_result (*create)(vkattn_device*, const Desc*, const vkattn_plan_options*, vkattn_plan**,
                                   vkattn_error*),
           const Desc& desc, const vkattn_plan_options& options) {
    OwnedPlan plan;
    must_succeed(create(device_.get(), &desc, &options, plan.target(), &error_));
    bind_and_record(plan.get());
  }

  void bind_and_record(vkattn_plan* plan) {
    std::array<vkattn_binding, c::kTensorNumbers> tensors{};
    vkattn_execution execution = initial(vkattn_execution_init);
    execution.tensors = tensors.data();
    for (vkattn_tensor tensor = 0; tensor < c::kTensorNumbers; ++tensor) {
      if (vkattn_plan_tensor_range(plan, tensor, 0) == 0) continue;
      const BufferRange range = made_up_buffer(tensor + 1);
      tensors[execution.tensor_count++] = {tensor, range.buffer, range.offset, range.size};
    }
    execution.workspace = made_up_buffer(100).buffer;
    execution.workspace_size = made_up_buffer(100).size;
    OwnedBindings bindings;
    must_succeed(vkattn_bindings_create(plan, &execution, VK_NULL_HANDLE, bindings.target(), &error_));
    must_succeed(vkattn_bindings_rewrite(bindings.get(), &execution, &error_));
    std::uint32_t count = 0;
    must_succeed(vkattn_plan_get_estimates(plan, nullptr, &count, &error_));
    must_succeed(vkattn_record(plan, made_up_commands(), bindings.get(), nullptr, &error_));
  }

  vkattn_error error_ = initial(vkattn_error_init);
  vkattn_enable_memory memory_{};
  OwnedDevice device_;
};

class Interface : public InterfaceOnDevice {
 public:
  Interface() {
    step("vkattn_query_wanted", [this] {
      const vkattn_physical_device physical = physical_device();
      std::array<vkattn_wanted_feature, 64> all{};
      std::uint32_t count = all.size();
      must_succeed(vkattn_query_wanted(&physical, all.data(), &count, &error_));
    });
    step("vkattn_device_create", [this] {
      OwnedDevice device;
      create_device(device.target());
    });
    step("attention", [this] {
      vkattn_plan_options options = initial(vkattn_plan_options_init);
      options.kernel = "tile";
      options.kv_splits = 2;
      use(vkattn_plan_create_attention, attention(), options);
    });
    step("append", [this] {
      vkattn_append_desc desc = initial(vkattn_append_desc_init);
      desc.kv_heads = 2;
      desc.new_length = 3;
      desc.head_dim = 16;
      desc.cache_length = 8;
      use(vkattn_plan_create_append, desc, initial(vkattn_plan_options_init));
    });
    step("merge", [this] {
      vkattn_merge_desc desc = initial(vkattn_merge_desc_init);
      desc.rows = 4;
      desc.value_dim = 16;
      use(vkattn_plan_create_merge, desc, initial(vkattn_plan_options_init));
    });
    step("pipeline cache", [this] {
      OwnedCache cache;
      std::array<char, 64> ignored{};
      must_succeed(vkattn_pipeline_cache_create(device_.get(), nullptr, 0, ignored.data(), ignored.size(),
                                                cache.target(), &error_));
      std::array<std::byte, 256> blob{};
      std::size_t bytes = blob.size();
      must_succeed(vkattn_pipeline_cache_save(cache.get(), blob.data(), &bytes, &error_));
    });
    step("self-test", [this] {
      const vkattn_attention_desc desc = attention();
      vkattn_plan_options options = initial(vkattn_plan_options_init);
      options.kernel = "tile";
      OwnedPlan plan;
      must_succeed(vkattn_plan_create_attention(device_.get(), &desc, &options, plan.target(), &error_));
      OwnedSelfTest test;
      must_succeed(
          vkattn_self_test_create(device_.get(), plan.get(), VK_NULL_HANDLE, test.target(), &error_));
      must_succeed(
          vkattn_self_test_record(test.get(), made_up_commands(), made_up_buffer(1).buffer, 0, &error_));
    });
  }
};

/// What trains: gradients, products, and a layer, which has plans of several kinds.
class InterfaceTraining : public InterfaceOnDevice {
 public:
  InterfaceTraining() {
    step("gradients", [this] {
      vkattn_attention_desc forward = attention();
      forward.has_lse = 1;
      vkattn_backward_desc desc = initial(vkattn_backward_desc_init);
      desc.attention = &forward;
      use(vkattn_plan_create_backward, desc, initial(vkattn_plan_options_init));
    });
    step("product", [this] {
      vkattn_matmul_desc desc = initial(vkattn_matmul_desc_init);
      desc.rows = desc.columns = 4;
      desc.inner = 300;
      vkattn_plan_options options = initial(vkattn_plan_options_init);
      options.inner_splits = 2;
      use(vkattn_plan_create_matmul, desc, options);
    });
    step("layer", [this] {
      vkattn_plan_options options = initial(vkattn_plan_options_init);
      options.kernel = "tile";  // else another would take its place
      use(vkattn_plan_create_multi_head_attention, layer(), options);
    });
    step("gradients of a layer", [this] {
      const vkattn_multi_head_attention_desc forward = layer();
      vkattn_multi_head_attention_backward_desc desc =
          initial(vkattn_multi_head_attention_backward_desc_init);
      desc.forward = &forward;
      use(vkattn_plan_create_multi_head_attention_backward, desc, initial(vkattn_plan_options_init));
    });
    step("steps of a layer", [this] {
      const vkattn_multi_head_attention_desc desc = layer();
      vkattn_plan_options options = initial(vkattn_plan_options_init);
      options.deferred_compilation = 1;
      OwnedPlan plan;
      must_succeed(
          vkattn_plan_create_multi_head_attention(device_.get(), &desc, &options, plan.target(), &error_));
      std::array<vkattn_layer_step, 8> steps{};
      auto count = static_cast<std::uint32_t>(steps.size());
      const vkattn_result given = vkattn_plan_get_steps(plan.get(), steps.data(), &count, &error_);
      for (const vkattn_layer_step& step : steps) (void)vkattn_plan_release(step.plan);
      must_succeed(given);
    });
  }

 private:
  [[nodiscard]] vkattn_multi_head_attention_desc layer() {
    heads_ = attention();
    heads_.kv_length = VKATTN_UNSET;
    vkattn_multi_head_attention_desc desc = initial(vkattn_multi_head_attention_desc_init);
    desc.attention = &heads_;
    desc.d_model = 32;
    desc.saves_for_gradients = 1;
    return desc;
  }

  vkattn_attention_desc heads_{};
};

}  // namespace

std::vector<ScenarioRow> c_interface_scenarios() {
  const std::set<std::string> got_over{"vkSetDebugUtilsObjectNameEXT", "vkAllocateDescriptorSets"};
  std::set<std::string> by_next_kernel = got_over;
  by_next_kernel.insert({"vkCreateComputePipelines", "vkCreateShaderModule"});
  return {row<Interface>("CInterface", got_over),
          row<InterfaceTraining>("CInterfaceTraining", by_next_kernel)};
}

}  // namespace vkattn::tests
