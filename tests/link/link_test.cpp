// A program that has a Vulkan of its own beside the runtime, linked libvulkan or volk. Neither may see the
// other's functions. It is built once with each.
//
// Our headers come first. They declare no Vulkan function, so they fit both.
#include <vkattn/cache.hpp>
#include <vkattn/device_features.hpp>
#include <vkattn/frame_budget.hpp>
#include <vkattn/runtime.hpp>

#ifdef VKATTN_TEST_OWN_VOLK
#define VOLK_IMPLEMENTATION
#include <volk.h>
#else
#include <vulkan/vulkan.h>
#endif

#include <gtest/gtest.h>

#include <cstdlib>
#include <optional>
#include <vector>

namespace vkattn {
namespace {

VkInstance own_instance() {
  VkApplicationInfo application{VK_STRUCTURE_TYPE_APPLICATION_INFO};
  application.apiVersion = VK_API_VERSION_1_1;
  VkInstanceCreateInfo info{VK_STRUCTURE_TYPE_INSTANCE_CREATE_INFO};
  info.pApplicationInfo = &application;
  VkInstance instance = VK_NULL_HANDLE;
  EXPECT_EQ(vkCreateInstance(&info, nullptr, &instance), VK_SUCCESS);
  return instance;
}

std::uint32_t device_count(VkInstance instance) {
  std::uint32_t count = 0;
  EXPECT_EQ(vkEnumeratePhysicalDevices(instance, &count, nullptr), VK_SUCCESS);
  return count;
}

// With one key the output is its value.
void expect_works(const Runtime& runtime) {
  const std::vector<float> one(8, 1.0F);
  std::vector<float> output(8, 0.0F);
  const AttentionDesc desc{.query_length = 1, .kv_length = 1, .head_dim = 8};
  const Result<void> computed =
      runtime.compute(desc, {.query = one, .key = one, .value = one, .output = output});
  ASSERT_TRUE(computed.ok()) << computed.error().message;
  EXPECT_EQ(output, one);
}

TEST(Link, TheProgramsVulkanAndTheRuntimesStayApart) {
  Result<Runtime> made = Runtime::create();
  if (!made && std::getenv("VKATTN_TEST_REQUIRE_DEVICE") != nullptr) FAIL() << made.error().message;
  if (!made) GTEST_SKIP() << made.error().message;
  std::optional<Runtime> runtime(*std::move(made));
#ifdef VKATTN_TEST_OWN_VOLK
  ASSERT_EQ(vkCreateInstance, nullptr) << "the runtime has written to the program's volk";
  ASSERT_EQ(volkInitialize(), VK_SUCCESS);
#endif
  const VkInstance instance = own_instance();
#ifdef VKATTN_TEST_OWN_VOLK
  volkLoadInstance(instance);
#endif
  EXPECT_GT(device_count(instance), 0U);
  expect_works(*runtime);
  runtime.reset();
  EXPECT_GT(device_count(instance), 0U) << "after the end of the runtime";
  vkDestroyInstance(instance, nullptr);
#if defined(VKATTN_TEST_OWN_VOLK) && VOLK_HEADER_VERSION >= 304  // Debian 12's cannot be finalized
  runtime.emplace(*Runtime::create());
  volkFinalize();
  ASSERT_EQ(vkCreateInstance, nullptr);
  expect_works(*runtime);
#endif
}

}  // namespace
}  // namespace vkattn
