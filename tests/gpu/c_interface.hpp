// What the tests of the C interface share: a device that it borrowed, and problems and tensors as its
// structures.
#pragma once

#include <vkattn/vkattn.h>

#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "c/convert.hpp"
#include "c/handles.hpp"
#include "c/tensors.hpp"
#include "gpu/any_kernel.hpp"
#include "runtime/runtime_state.hpp"

namespace vkattn::tests {

template <class Struct>
Struct initial(void (*init)(Struct*)) {
  Struct made;
  init(&made);
  return made;
}

class CInterfaceTest : public GpuTest {
 protected:
  void SetUp() override {
    GpuTest::SetUp();
    if (IsSkipped() || HasFatalFailure()) return;
    device_ = borrowed(runtime());
    ASSERT_NE(device_, nullptr);
  }
  void TearDown() override {
    EXPECT_EQ(vkattn_device_release(device_), VKATTN_SUCCESS);
    GpuTest::TearDown();
  }

  /// The device of a runtime, with all that this has enabled on it; released by the caller.
  vkattn_device* borrowed(const Runtime& from) {
    const vkattn_physical_device physical = physical_device(from);
    VkDeviceCreateInfo info{VK_STRUCTURE_TYPE_DEVICE_CREATE_INFO};
    vkattn_enable_memory memory{};
    EXPECT_EQ(vkattn_enable_wanted(&physical, &info, &memory, &error_), VKATTN_SUCCESS) << error_.message;
    vkattn_device_desc desc = initial(vkattn_device_desc_init);
    desc.instance = physical.instance;
    desc.physical_device = physical.physical_device;
    desc.device = detail::RuntimeState::of(from).handle;
    desc.get_instance_proc_addr = physical.get_instance_proc_addr;
    desc.api_version = physical.api_version;
    desc.enabled_extensions = info.ppEnabledExtensionNames;
    desc.enabled_extension_count = info.enabledExtensionCount;
    desc.enabled_features = info.pNext;
    vkattn_device* device = nullptr;
    EXPECT_EQ(vkattn_device_create(&desc, &device, &error_), VKATTN_SUCCESS) << error_.message;
    return device;
  }
  static vkattn_physical_device physical_device(const Runtime& from) {
    const detail::RuntimeState& state = detail::RuntimeState::of(from);
    vkattn_physical_device physical = initial(vkattn_physical_device_init);
    physical.instance = state.instance->handle;
    physical.physical_device = state.physical_device;
    physical.get_instance_proc_addr = state.instance->loader.vkGetInstanceProcAddr;
    physical.api_version = state.instance->api_version;
    return physical;
  }
  /// That the self-test of a plan sees that nothing has run, and that results are right.
  void expect_self_test_tells(const vkattn_plan* plan) {
    vkattn_self_test* test = nullptr;
    ASSERT_EQ(vkattn_self_test_create(device_, plan, VK_NULL_HANDLE, &test, &error_), VKATTN_SUCCESS)
        << error_.message;
    std::vector<std::byte> memory(vkattn_self_test_buffer_bytes(test));
    const auto buffer = runtime().create_buffer(memory.size());
    ASSERT_TRUE(buffer.ok());
    EXPECT_EQ(vkattn_self_test_fill(test, memory.data(), memory.size() - 1, &error_),
              VKATTN_ERROR_INVALID_ARGUMENT);
    ASSERT_EQ(vkattn_self_test_fill(test, memory.data(), memory.size(), &error_), VKATTN_SUCCESS);
    char difference[256] = "untouched";
    // Before anything ran the outputs are no results.
    ASSERT_EQ(
        vkattn_self_test_check(test, memory.data(), memory.size(), difference, sizeof(difference), &error_),
        VKATTN_SUCCESS);
    EXPECT_NE(std::string(difference), "");
    ASSERT_TRUE(runtime().write(*buffer, 0, memory).ok());
    vkattn_result recorded = VKATTN_SUCCESS;
    ASSERT_TRUE(runtime()
                    .execute([&](VkCommandBuffer commands) {
                      recorded = vkattn_self_test_record(test, commands, buffer->handle(), 0, &error_);
                    })
                    .ok());
    ASSERT_EQ(recorded, VKATTN_SUCCESS) << error_.message;
    ASSERT_TRUE(runtime().read(*buffer, 0, memory).ok());
    ASSERT_EQ(
        vkattn_self_test_check(test, memory.data(), memory.size(), difference, sizeof(difference), &error_),
        VKATTN_SUCCESS);
    EXPECT_EQ(std::string(difference), "");
    EXPECT_EQ(vkattn_self_test_destroy(test), VKATTN_SUCCESS);
    EXPECT_EQ(vkattn_self_test_destroy(test), VKATTN_ERROR_INVALID_ARGUMENT);
  }
  /// Of any kind of plan.
  template <class Tensors>
  static std::vector<vkattn_binding> bindings_of(Tensors tensors) {
    std::vector<vkattn_binding> all;
    for (vkattn_tensor tensor = 0; tensor < c::kTensorNumbers; ++tensor) {
      const BufferRange* const range = c::place(tensors, tensor);
      if (range == nullptr || range->buffer == VK_NULL_HANDLE) continue;
      all.push_back({tensor, range->buffer, range->offset, range->size});
    }
    return all;
  }
  /// Problem strings as structures, which point at the strides of `desc`.
  static vkattn_attention_desc desc_of(AttentionDesc&& desc) = delete;
  static vkattn_attention_desc desc_of(const AttentionDesc& desc) {
    vkattn_attention_desc c = initial(vkattn_attention_desc_init);
    c.batch = desc.batch;
    c.query_heads = desc.query_heads;
    c.kv_heads = desc.kv_heads;
    c.query_length = desc.query_length;
    c.kv_length = desc.kv_length;
    c.head_dim = desc.head_dim;
    c.value_dim = desc.value_dim;
    c.layout = static_cast<vkattn_layout>(desc.layout);
    const auto tensor = [](const TensorDesc& t) {
      return vkattn_tensor_desc{static_cast<vkattn_data_type>(t.type), t.alignment_bytes,
                                t.strides ? reinterpret_cast<const vkattn_strides*>(&*t.strides) : nullptr};
    };
    static_assert(sizeof(Strides) == sizeof(vkattn_strides));
    c.query = tensor(desc.query);
    c.key = tensor(desc.key);
    c.value = tensor(desc.value);
    c.output = tensor(desc.output);
    c.causal = desc.causal ? 1 : 0;
    c.softcap = desc.softcap;
    c.has_lse = desc.has_lse ? 1 : 0;
    c.kv_lengths = static_cast<vkattn_lengths>(desc.kv_lengths);
    c.window_left = desc.window.left;
    c.window_right = desc.window.right;
    return c;
  }

  /// Four heads of self-attention over rows of 32, with slopes of ALiBi from a buffer.
  static vkattn_attention_desc heads() {
    vkattn_attention_desc desc = initial(vkattn_attention_desc_init);
    desc.batch = 2;
    desc.query_heads = 4;
    desc.kv_heads = 2;
    desc.query_length = 5;
    desc.causal = 1;
    desc.alibi = VKATTN_ALIBI_SLOPES_GIVEN;
    return desc;
  }
  static vkattn_multi_head_attention_desc layer_of(const vkattn_attention_desc& attention) {
    vkattn_multi_head_attention_desc desc = initial(vkattn_multi_head_attention_desc_init);
    desc.attention = &attention;
    desc.d_model = 32;
    return desc;
  }

  /// Binds, records and executes a plan, and destroys its bindings.
  void execute(vkattn_plan* plan, const vkattn_execution& execution) {
    vkattn_bindings* bindings = nullptr;
    ASSERT_EQ(vkattn_bindings_create(plan, &execution, VK_NULL_HANDLE, &bindings, &error_), VKATTN_SUCCESS)
        << error_.message;
    ASSERT_EQ(vkattn_bindings_rewrite(bindings, &execution, &error_), VKATTN_SUCCESS) << error_.message;
    vkattn_result recorded = VKATTN_SUCCESS;
    ASSERT_TRUE(runtime()
                    .execute([&](VkCommandBuffer commands) {
                      recorded = vkattn_record(plan, commands, bindings, nullptr, &error_);
                    })
                    .ok());
    ASSERT_EQ(recorded, VKATTN_SUCCESS) << error_.message;
    EXPECT_EQ(vkattn_bindings_destroy(bindings), VKATTN_SUCCESS);
  }

  vkattn_error error_ = initial(vkattn_error_init);
  vkattn_device* device_ = nullptr;
};

}  // namespace vkattn::tests
