// Shared by the tests of the C interface: a borrowed device, and problems and tensors as structures of C.
#pragma once

#include <vkattn/vkattn.h>

#include <cstring>
#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "c/convert.hpp"
#include "c/fields.hpp"
#include "c/handles.hpp"
#include "c/tensors.hpp"
#include "gpu/any_kernel.hpp"
#include "runtime/runtime_state.hpp"
#include "support/initial.hpp"

namespace vkattn::tests {

/// A handle that is given back in the destructor, where that must succeed.
template <class Handle, auto kGiveBack>
class Owned {
 public:
  Owned() = default;
  explicit Owned(Handle* handle) : handle_(handle) {}
  Owned(Owned&& other) noexcept : handle_(std::exchange(other.handle_, nullptr)) {}
  Owned& operator=(Owned&& other) noexcept {
    std::swap(handle_, other.handle_);
    return *this;
  }
  ~Owned() { EXPECT_EQ(kGiveBack(handle_), VKATTN_SUCCESS); }
  operator Handle*() const { return handle_; }
  [[nodiscard]] Handle* get() const { return handle_; }

 private:
  Handle* handle_ = nullptr;
};
using OwnedPlan = Owned<vkattn_plan, &vkattn_plan_release>;
using OwnedBindings = Owned<vkattn_bindings, &vkattn_bindings_destroy>;
using OwnedSelfTest = Owned<vkattn_self_test, &vkattn_self_test_destroy>;

/// The tensors and the workspace of an execution, and the structure that points at them.
struct Execution {
  std::vector<vkattn_binding> tensors;
  Buffer workspace;
  vkattn_execution its = initial(vkattn_execution_init);
};

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

  /// Borrows a runtime's device with everything that is enabled on it. The caller releases it.
  vkattn_device* borrowed(const Runtime& from, const std::function<void(vkattn_device_desc&)>& change = {}) {
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
    desc.buffer_addresses = from.device().capabilities().buffer_addresses ? 1 : 0;
    if (change) change(desc);
    vkattn_device* device = nullptr;
    EXPECT_EQ(vkattn_device_create(&desc, &device, &error_), VKATTN_SUCCESS) << error_.message;
    return device;
  }
  /// Borrows the test's device, with the first `bytes` of a piece of its memory for parameters.
  vkattn_device* borrowed_with(const detail::ParameterPiece& memory, VkDeviceSize bytes) {
    return borrowed(runtime(), [&](vkattn_device_desc& desc) {
      desc.parameter_buffer = memory.buffer();
      desc.parameter_offset = memory.offset();
      desc.parameter_size = bytes;
      desc.parameter_data = memory.data();
    });
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
  /// Checks that a call succeeded.
  [[nodiscard]] testing::AssertionResult done(vkattn_result result) const {
    if (result == VKATTN_SUCCESS) return testing::AssertionSuccess();
    return testing::AssertionFailure() << "result " << result << ": " << error_.message;
  }
  /// Checks that a call was refused with these words in its sentence.
  [[nodiscard]] testing::AssertionResult refused(vkattn_result result, std::string_view words,
                                                 vkattn_result as = VKATTN_ERROR_INVALID_ARGUMENT) const {
    const bool says = std::string_view(error_.message).find(words) != std::string_view::npos;
    if (result == as && says) return testing::AssertionSuccess();
    return testing::AssertionFailure()
           << "result " << result << " in place of " << as << ", '" << words << "': " << error_.message;
  }

  /// The plan that `create` makes for a problem on the test's device.
  template <class Create, class Desc>
  [[nodiscard]] OwnedPlan plan_of(Create* create, const Desc& desc,
                                  const vkattn_plan_options* options = nullptr) {
    vkattn_plan* plan = nullptr;
    EXPECT_TRUE(done(create(device_, &desc, options, &plan, &error_)));
    return OwnedPlan(plan);
  }
  /// A plan of attention, for a problem string.
  [[nodiscard]] OwnedPlan plan_of_problem(std::string_view problem,
                                          const vkattn_plan_options* options = nullptr) {
    const AttentionDesc desc = parsed(problem).desc;
    return plan_of(vkattn_plan_create_attention, desc_of(desc), options);
  }
  [[nodiscard]] vkattn_requirements requirements_of(const vkattn_plan* plan) {
    vkattn_requirements needs = initial(vkattn_requirements_init);
    EXPECT_TRUE(done(vkattn_plan_get_requirements(plan, &needs, &error_)));
    return needs;
  }
  [[nodiscard]] vkattn_kernel_choice choice_of(const vkattn_plan* plan) {
    vkattn_kernel_choice choice{};
    EXPECT_TRUE(done(vkattn_plan_get_choice(plan, &choice, &error_)));
    return choice;
  }
  /// A text about a plan. The function is called for the number of bytes, and then for the text with a 0 at
  /// its end.
  template <class Tell>
  [[nodiscard]] static std::string text_of(Tell* tell, const vkattn_plan* plan) {
    std::string text(tell(plan, nullptr, 0), ' ');
    EXPECT_EQ(tell(plan, text.data(), text.size()), text.size());
    EXPECT_EQ(text.back(), 0);
    text.pop_back();
    return text;
  }
  /// A list from a function that is called for the number of elements, and then for the elements.
  template <class Element, class Query, class... Of>
  [[nodiscard]] std::vector<Element> list_of(Query* query, Of... of) {
    std::uint32_t count = 0;
    EXPECT_TRUE(done(query(of..., nullptr, &count, &error_)));
    std::vector<Element> all(count);
    EXPECT_TRUE(done(query(of..., all.data(), &count, &error_)));
    EXPECT_EQ(count, all.size());
    return all;
  }

  /// The tensors of a plan, each in its own place of the buffer.
  [[nodiscard]] static std::vector<vkattn_binding> placed(const vkattn_plan* plan, const Buffer& buffer) {
    std::vector<vkattn_binding> tensors;
    VkDeviceSize at = 0;
    for (vkattn_tensor tensor = 0; tensor < c::kTensorNumbers; ++tensor) {
      const VkDeviceSize bytes = vkattn_plan_tensor_range(plan, tensor, at);
      if (bytes == 0) continue;
      tensors.push_back({tensor, buffer.handle(), at, bytes});
      at = (at + bytes + 255) / 256 * 256;
    }
    EXPECT_LE(at, buffer.size());
    return tensors;
  }
  [[nodiscard]] Execution execution_of(const vkattn_plan* plan, std::vector<vkattn_binding> tensors) {
    Execution made{std::move(tensors), {}};
    made.its.tensors = made.tensors.data();
    made.its.tensor_count = static_cast<std::uint32_t>(made.tensors.size());
    made.its.workspace_size = requirements_of(plan).workspace_bytes;
    if (made.its.workspace_size != 0)
      made.workspace = runtime().create_buffer(made.its.workspace_size).value();
    made.its.workspace = made.workspace.handle();
    return made;
  }
  [[nodiscard]] OwnedBindings bindings_of_plan(vkattn_plan* plan, const vkattn_execution& execution) {
    vkattn_bindings* bindings = nullptr;
    EXPECT_TRUE(done(vkattn_bindings_create(plan, &execution, VK_NULL_HANDLE, &bindings, &error_)));
    return OwnedBindings(bindings);
  }
  /// Executes the commands that `call` records. Returns the result of `call`.
  template <class Call>
  vkattn_result recorded(const Call& call) {
    vkattn_result result = VKATTN_SUCCESS;
    EXPECT_TRUE(runtime().execute([&](VkCommandBuffer commands) { result = call(commands); }).ok());
    return result;
  }
  vkattn_result record(vkattn_plan* plan, const vkattn_bindings* bindings,
                       const vkattn_record_options* how = nullptr) {
    return recorded([&](VkCommandBuffer c) { return vkattn_record(plan, c, bindings, how, &error_); });
  }
  vkattn_result record_push(vkattn_plan* plan, const vkattn_execution& execution) {
    return recorded(
        [&](VkCommandBuffer c) { return vkattn_record_push(plan, c, &execution, nullptr, &error_); });
  }
  /// Binds, records and executes a plan, and then destroys its bindings.
  void execute(vkattn_plan* plan, const vkattn_execution& execution) {
    const OwnedBindings bindings = bindings_of_plan(plan, execution);
    ASSERT_TRUE(done(vkattn_bindings_rewrite(bindings, &execution, &error_)));
    ASSERT_TRUE(done(record(plan, bindings)));
  }

  [[nodiscard]] OwnedSelfTest self_test_of(const vkattn_plan* plan) {
    vkattn_self_test* test = nullptr;
    EXPECT_TRUE(done(vkattn_self_test_create(device_, plan, VK_NULL_HANDLE, &test, &error_)));
    return OwnedSelfTest(test);
  }
  /// What the check of a self-test says about its memory.
  [[nodiscard]] std::string difference_of(const vkattn_self_test* test,
                                          const std::vector<std::byte>& memory) {
    char text[256] = "untouched";
    EXPECT_TRUE(
        done(vkattn_self_test_check(test, memory.data(), memory.size(), text, sizeof(text), &error_)));
    return text;
  }
  /// Checks that the self-test of a plan notices if nothing has run, and accepts right results.
  void expect_self_test_tells(const vkattn_plan* plan) {
    const OwnedSelfTest test = self_test_of(plan);
    std::vector<std::byte> memory(vkattn_self_test_buffer_bytes(test));
    EXPECT_EQ(vkattn_self_test_fill(test, memory.data(), memory.size() - 1, &error_),
              VKATTN_ERROR_INVALID_ARGUMENT);
    ASSERT_TRUE(done(vkattn_self_test_fill(test, memory.data(), memory.size(), &error_)));
    // Before the execution the outputs are not results.
    EXPECT_NE(difference_of(test, memory), "");
    const Buffer buffer = filled_buffer(runtime(), memory);
    ASSERT_TRUE(done(recorded([&](VkCommandBuffer commands) {
      return vkattn_self_test_record(test, commands, buffer.handle(), 0, &error_);
    })));
    EXPECT_EQ(difference_of(test, elements_of<std::byte>(runtime(), buffer, memory.size())), "");
  }
  /// The bindings of a plan of any kind.
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
  /// Problem strings as structures of C. They point at the strides of `desc`.
  static vkattn_attention_desc desc_of(AttentionDesc&& desc) = delete;
  static vkattn_attention_desc desc_of(const AttentionDesc& desc) {
    vkattn_attention_desc made = initial(vkattn_attention_desc_init);
    c::write_fields(desc, made);
    static_assert(sizeof(Strides) == sizeof(vkattn_strides));
    const auto strides = [](const TensorDesc& of) {
      return of.strides ? reinterpret_cast<const vkattn_strides*>(&*of.strides) : nullptr;
    };
    made.query.strides = strides(desc.query);
    made.key.strides = strides(desc.key);
    made.value.strides = strides(desc.value);
    made.output.strides = strides(desc.output);
    return made;
  }

  /// Self-attention with four heads over rows of 32, and ALiBi slopes from a buffer.
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
  /// A layer that averages weights, saves what gradients need and turns queries and keys. It sets
  /// `attention.weights`.
  static vkattn_multi_head_attention_desc whole_layer_of(vkattn_attention_desc& attention) {
    attention.weights = VKATTN_WEIGHTS_STAGE_PROBABILITIES;
    vkattn_multi_head_attention_desc desc = layer_of(attention);
    desc.has_averaged_weights = desc.saves_for_gradients = 1;
    desc.rotary_style = VKATTN_ROTARY_STYLE_HALF_SPLIT;
    desc.rotary_dims = 8;
    return desc;
  }

  vkattn_error error_ = initial(vkattn_error_init);
  vkattn_device* device_ = nullptr;
};

}  // namespace vkattn::tests
