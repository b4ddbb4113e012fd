// The C interface without a device: tensors, defaults, and refusals.
#include <vkattn/vkattn.h>
#include <vkattn/device.hpp>
#include <vkattn/device_features.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <set>
#include <string>
#include <type_traits>
#include <utility>

#include "attention/tensor_table.hpp"
#include "backward/backward_program.hpp"
#include "backward/gradient_table.hpp"
#include "c/convert.hpp"
#include "c/handles.hpp"
#include "c/tensors.hpp"
#include "cache/append_tensors.hpp"
#include "forward/forward_program.hpp"
#include "matmul/matmul_program.hpp"
#include "matmul/matmul_tensors.hpp"
#include "merge/merge_tensors.hpp"
#include "support/initial.hpp"
#include "support/must.hpp"
#include "support/text.hpp"

std::uint32_t vkattn_test_cpp17();

namespace vkattn {
namespace {

using tests::has;
using tests::initial;
using tests::message_of;
using tests::names;

TEST(CInterface, IsTheSameFromCpp17) {
  EXPECT_EQ(vkattn_test_cpp17(), sizeof(vkattn_attention_desc));
}

// Checks that each tensor of a table has a number to bind it with.
template <class Tensors>
void expect_numbers() {
  Tensors tensors;
  for (const auto& row : detail::tensor_table<Tensors>()) {
    std::uint32_t count = 0;
    for (vkattn_tensor tensor = 0; tensor < c::kTensorNumbers; ++tensor) {
      if (c::place(tensors, tensor) == &(tensors.*row.range)) ++count;
    }
    EXPECT_EQ(count, 1U) << row.name;
  }
}

TEST(CInterface, EveryTensorHasItsNumber) {
  expect_numbers<AttentionTensors>();
  expect_numbers<AppendTensors>();
  expect_numbers<MergeTensors>();
  expect_numbers<BackwardTensors>();
  expect_numbers<MatmulTensors>();
}

TEST(CInterface, NoTwoTensorsOfALayerAreOne) {
  const auto places = [](auto tensors) {
    std::set<const BufferRange*> all;
    for (vkattn_tensor tensor = 0; tensor < c::kTensorNumbers; ++tensor) {
      const BufferRange* const range = c::place(tensors, tensor);
      if (range == nullptr) continue;
      EXPECT_TRUE(all.insert(range).second) << tensor;
    }
    return all.size();
  };
  // 10 of its own, 7 parameters, and attention's tensors except query, key, value, output and lse.
  EXPECT_EQ(places(MultiHeadAttentionTensors{}), 29U);
  EXPECT_EQ(places(MultiHeadAttentionBackwardTensors{}), 44U) << "8 more, and 7 gradients of parameters";
  MultiHeadAttentionTensors layer;
  EXPECT_EQ(c::place(layer, VKATTN_TENSOR_QUERY), &layer.query);
  EXPECT_EQ(c::place(layer, VKATTN_TENSOR_MASK), &layer.attention.mask);
  EXPECT_EQ(c::place(layer, VKATTN_TENSOR_LSE), nullptr);
  BackwardTensors backward;
  EXPECT_EQ(c::place(backward, VKATTN_TENSOR_LSE), &backward.forward.lse);
  for (BufferRange MultiHeadAttentionParameters::*const parameter :
       {&MultiHeadAttentionParameters::in_proj_weight, &MultiHeadAttentionParameters::out_proj_bias}) {
    MultiHeadAttentionBackwardTensors gradients;
    const c::ParameterNumbers numbers = c::numbers_of(parameter);
    EXPECT_EQ(c::place(gradients, numbers.tensor), &(gradients.forward.parameters.*parameter));
    EXPECT_EQ(c::place(gradients, numbers.gradient), &(gradients.grad_parameters.*parameter));
  }
}

// EarlierSizesGoOnWorking checks that no structure is read beyond its given size.
TEST(CInterface, SizesThatCannotBeAreRefused) {
  auto options = initial(vkattn_record_options_init);
  options.first_dispatch = 3;
  options.wait_for_earlier = 1;
  // The size that a version without the last member had.
  options.struct_size = offsetof(vkattn_record_options, wait_for_earlier);
  ASSERT_TRUE(c::record_options(&options).ok());
  EXPECT_EQ(c::record_options(&options)->first_dispatch, 3U);
  EXPECT_FALSE(c::record_options(&options)->wait_for_earlier);
  // 20 lies within a member. If it is a pointer, half of it would be read.
  for (const std::uint32_t size : {0U, 8U, 20U, std::uint32_t{sizeof(options) + 8}, ~0U}) {
    options.struct_size = size;
    EXPECT_TRUE(has(message_of(c::record_options(&options)), "struct_size is " + std::to_string(size)));
  }
  options = initial(vkattn_record_options_init);
  options.next = &options;
  EXPECT_TRUE(has(message_of(c::record_options(&options)), "next must be null"));
}

// A newer header has more members. The init function sets them to 0, and using the structure is refused by
// name.
TEST(CInterface, InitFunctionsKnowTheSizeOfTheCallers) {
  struct Newer {
    vkattn_plan_options options;
    std::uint64_t more;
  };
  Newer all;
  std::memset(static_cast<void*>(&all), 0xa5, sizeof(all));
  vkattn_plan_options_init_sized(&all.options, sizeof(all));
  EXPECT_EQ(all.more, 0U);
  EXPECT_TRUE(has(message_of(c::plan_options(&all.options)), "older than the header"));
}

struct KindOfPlan {
  char letter;
  Error (*error)(
      const vkattn_plan_options& options);  ///< an error without a message if the options are accepted
};
Error error_of(const Result<void>& outcome) {
  return outcome ? Error{} : outcome.error();
}
/// Checks options as the C interface and then the operation do.
template <class Plan>
Error error_of_options(const vkattn_plan_options& given) {
  const auto options = std::is_same_v<Plan, MatmulPlan> ? c::matmul_options(given, c::Kind<Plan>::kName)
                                                        : c::options_for(given, c::Kind<Plan>::kName);
  if (!options) return options.error();
  using Desc = typename Plan::Desc;
  constexpr detail::OptionSet kUsed = std::is_same_v<Desc, AttentionDesc>  ? detail::kAttentionOptions
                                      : std::is_same_v<Desc, BackwardDesc> ? detail::kBackwardOptions
                                      : std::is_same_v<Desc, MatmulDesc>   ? detail::kMatmulOptions
                                                                           : detail::OptionSet();
  return error_of(detail::check_used(*options, kUsed, c::Kind<Plan>::kName));
}
Error error_of_layer_options(const vkattn_plan_options& given) {
  const auto options = c::layer_options(given, "a layer");
  if (!options) return options.error();
  return error_of(detail::check_used(options->attention, detail::kAttentionOptions, "a layer"));
}

// Each option stands with the kinds of plan that use it. Other kinds refuse it.
TEST(CInterface, OptionsThatAKindOfPlanDoesNotUseAreRefused) {
  static const vkattn_tile_sizes tile{64, 0, 4, 4, 16, 0};
  static const vkattn_kernel_refusal refusal{"tile", "it is not wanted"};
  using O = vkattn_plan_options;
  const std::array<KindOfPlan, 6> kinds{{{'a', error_of_options<AttentionPlan>},
                                         {'c', error_of_options<AppendPlan>},
                                         {'m', error_of_options<MergePlan>},
                                         {'g', error_of_options<BackwardPlan>},
                                         {'p', error_of_options<MatmulPlan>},
                                         {'l', error_of_layer_options}}};
  struct Row {
    const char* name;
    const char* users;
    void (*set)(O&);
  };
  for (const Row& row : {
           Row{"kernel", "agpl", [](O& o) { o.kernel = "tile"; }},
           Row{"max_dispatch_ns", "acmgpl", [](O& o) { o.max_dispatch_ns = 1000; }},
           Row{"kv_splits", "al", [](O& o) { o.kv_splits = 2; }},
           Row{"strict_nonfinite", "al", [](O& o) { o.strict_nonfinite = 1; }},
           Row{"arithmetic_type", "al", [](O& o) { o.arithmetic_type = VKATTN_DATA_TYPE_FLOAT16; }},
           Row{"push_descriptors", "acmgpl", [](O& o) { o.push_descriptors = 1; }},
           Row{"deferred_compilation", "acmgpl", [](O& o) { o.deferred_compilation = 1; }},
           Row{"refusals", "agpl", [](O& o) { o.refusals = &refusal, o.refusal_count = 1; }},
           Row{"capture_statistics", "acmgpl", [](O& o) { o.capture_statistics = 1; }},
           Row{"tile", "agpl", [](O& o) { o.tile = &tile; }},
           Row{"matmul_kernel", "l", [](O& o) { o.matmul_kernel = "tile"; }},
           Row{"backward_kernel", "l", [](O& o) { o.backward_kernel = "tile"; }},
           Row{"matmul_refusal_count", "l",
               [](O& o) { o.matmul_refusals = &refusal, o.matmul_refusal_count = 1; }},
           Row{"backward_refusal_count", "l",
               [](O& o) { o.backward_refusals = &refusal, o.backward_refusal_count = 1; }},
           Row{"chunk_keys", "g", [](O& o) { o.chunk_keys = 64; }},
           Row{"inner_splits", "p", [](O& o) { o.inner_splits = 2; }},
       }) {
    O options = initial(vkattn_plan_options_init);
    row.set(options);
    for (const KindOfPlan& kind : kinds) {
      const bool is_used = std::strchr(row.users, kind.letter) != nullptr;
      const Error error = kind.error(options);
      EXPECT_EQ(error.message.empty(), is_used) << row.name << " of " << kind.letter;
      if (is_used) continue;
      EXPECT_TRUE(names(error, ErrorCode::kInvalidArgument,
                        {std::string(row.name) + " is set, but is not used by "}));
    }
  }
}

/// The message of a call that refused its arguments.
std::string refusal(vkattn_result result, const vkattn_error& error) {
  EXPECT_EQ(result, VKATTN_ERROR_INVALID_ARGUMENT);
  return error.message;
}

/// The message that refuses a device or its parts.
std::string refusal(const vkattn_device_desc* desc) {
  auto error = initial(vkattn_error_init);
  vkattn_device* device = nullptr;
  const vkattn_result result = vkattn_device_create(desc, &device, &error);
  EXPECT_EQ(device, nullptr);
  return refusal(result, error);
}
std::string refusal(const vkattn_physical_device& physical) {
  auto error = initial(vkattn_error_init);
  std::uint32_t count = 0;
  return refusal(vkattn_query_wanted(&physical, nullptr, &count, &error), error);
}

TEST(CInterface, MistakesAreSentences) {
  auto error = initial(vkattn_error_init);
  EXPECT_EQ(refusal(nullptr), "vkattn_device_desc is null");
  vkattn_device* device = nullptr;
  auto desc = initial(vkattn_device_desc_init);
  EXPECT_EQ(vkattn_device_create(&desc, &device, nullptr), VKATTN_ERROR_INVALID_ARGUMENT);
  desc.log_least = 77;
  EXPECT_EQ(refusal(&desc), "vkattn_device_desc::log_least is 77; the largest there is is 2");
  vkattn_plan* plan = nullptr;
  EXPECT_EQ(refusal(vkattn_plan_create_attention(nullptr, nullptr, nullptr, &plan, &error), error),
            "device is null");
  EXPECT_EQ(refusal(vkattn_plan_compile(nullptr, &error), error), "plan is null");
  EXPECT_EQ(vkattn_plan_is_compiled(nullptr), 0U);
  EXPECT_EQ(vkattn_plan_tensor_range(nullptr, VKATTN_TENSOR_QUERY, 0), 0U);
  EXPECT_EQ(vkattn_plan_describe(nullptr, nullptr, 0), 1U);
  EXPECT_EQ(vkattn_plan_release(nullptr), VKATTN_SUCCESS);
  EXPECT_EQ(vkattn_bindings_destroy(nullptr), VKATTN_SUCCESS);
  EXPECT_EQ(refusal(vkattn_record(nullptr, nullptr, nullptr, nullptr, &error), error), "plan is null");
  auto physical = initial(vkattn_physical_device_init);
  physical.disabled_extension_count = 3;
  EXPECT_EQ(refusal(physical), "vkattn_physical_device::disabled_extensions is null, but its count is 3");
  // An enumerator that does not exist.
  auto attention = initial(vkattn_attention_desc_init);
  attention.value.type = 77;
  EXPECT_EQ(message_of(c::attention_desc(&attention)), "value.type is 77; the largest there is is 5");
  // The message is cut off at the end of the caller's memory.
  auto small = initial(vkattn_error_init);
  small.struct_size = offsetof(vkattn_error, message) + 8;
  std::memset(small.message, '#', sizeof(small.message));
  EXPECT_EQ(vkattn_device_create(nullptr, &device, &small), VKATTN_ERROR_INVALID_ARGUMENT);
  EXPECT_STREQ(small.message, "vkattn_");
  EXPECT_EQ(small.message[8], '#');
}

/// A descriptor with everything that a device needs except one member. None of it is real.
template <class Desc>
Desc filled(Desc desc, std::string_view without = {}) {
  const auto is_given = [&](std::string_view member) { return member != without; };
  if (is_given("instance")) desc.instance = reinterpret_cast<VkInstance>(std::uintptr_t{8});
  if (is_given("physical_device")) {
    desc.physical_device = reinterpret_cast<VkPhysicalDevice>(std::uintptr_t{8});
  }
  if constexpr (requires { desc.device; }) {
    if (is_given("device")) desc.device = reinterpret_cast<VkDevice>(std::uintptr_t{8});
  }
  if (is_given("get_instance_proc_addr")) {
    desc.get_instance_proc_addr = [](VkInstance /*instance*/, const char* /*name*/) -> PFN_vkVoidFunction {
      ADD_FAILURE() << "nothing is asked before all is there";
      return nullptr;
    };
  }
  if (is_given("api_version")) desc.api_version = 1U << 22U;
  return desc;
}

// Leaves out each member that a device needs, and expects its name, in C++ and in C.
TEST(CInterface, WhatADeviceLacksIsNamed) {
  for (const auto& [member, sentence] :
       {std::pair<std::string, std::string>{"instance", "null: give the VkInstance that has physical_device"},
        {"physical_device", "null: give the VkPhysicalDevice that the VkDevice is made of"},
        {"device", "null: give the VkDevice that all is to be made on"},
        {"get_instance_proc_addr",
         "null: give the loader's vkGetInstanceProcAddr, as vkattn links no loader"},
        {"api_version", "0: give VkApplicationInfo::apiVersion of the instance"}}) {
    const std::string expected = "::" + member + " is " + sentence;
    EXPECT_EQ(message_of(Device::borrow(filled(DeviceDesc(), member))), "DeviceDesc" + expected);
    const auto desc = filled(initial(vkattn_device_desc_init), member);
    EXPECT_EQ(refusal(&desc), "vkattn_device_desc" + expected);
    if (member == "device") continue;
    EXPECT_EQ(message_of(wanted_features(filled(PhysicalDeviceDesc(), member))),
              "PhysicalDeviceDesc" + expected);
    EXPECT_EQ(refusal(filled(initial(vkattn_physical_device_init), member)),
              "vkattn_physical_device" + expected);
  }
}

// Memory without the pointer that the host writes to, or with a size that no buffer has.
TEST(CInterface, MemoryForParametersIsChecked) {
  const std::string sentence =
      "parameter_data is null: give the address at which byte parameter_offset of parameter_buffer is mapped";
  DeviceDesc desc = filled(DeviceDesc());
  auto c_desc = filled(initial(vkattn_device_desc_init));
  desc.parameter_buffer = c_desc.parameter_buffer = std::bit_cast<VkBuffer>(std::uint64_t{1});
  EXPECT_EQ(message_of(Device::borrow(desc)), "DeviceDesc::" + sentence);
  EXPECT_EQ(refusal(&c_desc), "vkattn_device_desc::" + sentence);
  desc.parameter_data = c_desc.parameter_data = &desc;
  desc.parameter_size = c_desc.parameter_size = VK_WHOLE_SIZE;
  EXPECT_TRUE(has(message_of(Device::borrow(desc)),
                  "DeviceDesc::parameter_size is 18446744073709551615 from parameter_offset 0 on"));
  EXPECT_TRUE(has(refusal(&c_desc), "not VK_WHOLE_SIZE"));
}

// A plan without a kernel has no name for it. Copying from a null pointer is undefined behaviour, which the
// sanitizers see.
TEST(CInterface, ATextMayBeNone) {
  std::array<char, 4> text{'#', '#', '#', '#'};
  EXPECT_EQ(c::copy_text({}, text.data(), text.size()), 1U);
  EXPECT_STREQ(text.data(), "");
  std::size_t bytes = text.size();
  EXPECT_TRUE(c::copy_blob({}, "nothing", text.data(), &bytes).ok());
  EXPECT_EQ(bytes, 0U);
}

TEST(CInterface, ExecutionsBindEachTensorOnce) {
  std::array<vkattn_binding, 2> bindings{};
  auto execution = initial(vkattn_execution_init);
  execution.tensors = bindings.data();
  execution.tensor_count = 2;
  const auto attention = [&] { return c::tensors_of<AttentionPlan>(c::execution(&execution).value()); };
  bindings[0] = {VKATTN_TENSOR_KEY, {}, 4, 8};
  bindings[1] = {VKATTN_TENSOR_VALUE, {}, 12, 16};
  ASSERT_TRUE(attention().ok());
  EXPECT_EQ(attention()->key.offset, 4U);
  EXPECT_EQ(attention()->value.size, 16U);
  bindings[1].tensor = VKATTN_TENSOR_KEY;
  EXPECT_EQ(message_of(attention()), "tensor 1 is bound twice: leave out one of its bindings");
  const auto expect_none = [&](vkattn_tensor tensor, auto tensors_of, const char* words) {
    bindings[1].tensor = tensor;
    EXPECT_EQ(message_of(tensors_of()),
              std::string("there is no tensor ") + words +
                  ": vkattn_plan_tensor_range is above 0 for those that a plan takes");
  };
  expect_none(VKATTN_TENSOR_CACHE_KEY, attention, "18 of attention");
  expect_none(1000, attention, "1000 of attention");
  expect_none(
      VKATTN_TENSOR_BIAS, [&] { return c::tensors_of<BackwardPlan>(execution); },
      "35 of gradients of attention");
  expect_none(
      VKATTN_TENSOR_LSE, [&] { return c::tensors_of<MultiHeadAttentionBackwardPlan>(execution); },
      "4 of gradients of a layer");
  execution.tensors = nullptr;
  EXPECT_EQ(attention().error().message, "vkattn_execution::tensors is null, but its count is 2");
}

}  // namespace
}  // namespace vkattn
