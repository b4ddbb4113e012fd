// Checks the failing driver itself: its errors are those of the registry, and the layer notices misuse.
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <iterator>
#include <map>
#include <regex>
#include <sstream>
#include <string>

#include "common/message.hpp"
#include "failing_driver/layer.hpp"
#include "support/host_vulkan.hpp"

namespace vkattn::tests {
namespace {

/// Errors of extensions that the library does not use, and errors that all functions share. Refusals of the
/// host's memory (VK_ERROR_INVALID_EXTERNAL_HANDLE) are in large_pages_test.cpp.
const char* const kOfOthers[] = {"VK_ERROR_INVALID_OPAQUE_CAPTURE_ADDRESS_KHR",
                                 "VK_ERROR_INVALID_EXTERNAL_HANDLE",
                                 "VK_ERROR_INVALID_PIPELINE_CACHE_DATA",
                                 "VK_ERROR_NO_PIPELINE_MATCH",
                                 "VK_ERROR_INVALID_VIDEO_STD_PARAMETERS_KHR",
                                 "VK_ERROR_UNKNOWN",
                                 "VK_ERROR_VALIDATION_FAILED",
                                 "VK_ERROR_VALIDATION_FAILED_EXT"};

std::string name_of(VkResult error) {
  // The registry uses the extension's name for it.
  return error == VK_ERROR_FRAGMENTATION ? "VK_ERROR_FRAGMENTATION_EXT" : detail::to_string(error);
}

/// The errors of each command in the text of vk.xml, separated by commas.
std::map<std::string, std::string> errors_of_registry(const std::string& text) {
  std::map<std::string, std::string> all;
  const std::string kName = "<proto><type>VkResult</type> <name>";
  for (std::size_t at = text.find(kName); at != std::string::npos; at = text.find(kName, at + 1)) {
    const std::size_t begin = at + kName.size();
    const std::string name = text.substr(begin, text.find('<', begin) - begin);
    const std::string head = text.substr(text.rfind("<command ", at), at - text.rfind("<command ", at));
    // Newer registries describe some commands a second time, for Vulkan SC with errors of its own.
    if (head.find("api=\"vulkansc\"") != std::string::npos) continue;
    const std::string kErrors = "errorcodes=\"";
    const std::size_t errors = head.find(kErrors);
    if (errors == std::string::npos) continue;
    const std::size_t first = errors + kErrors.size();
    all[name] = head.substr(first, head.find('"', first) - first);
  }
  return all;
}

TEST(FailingDriverItself, ErrorsAreThoseOfTheRegistry) {
  std::ifstream file(VKATTN_TEST_REGISTRY);
  if (!file) GTEST_SKIP() << "Vulkan's registry, vk.xml, is not installed";
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  const auto registry = errors_of_registry(text);
  ASSERT_GT(registry.size(), 100U);
  std::size_t compared = 0;
  for (const std::string& function : functions_with_results()) {
    const auto found = registry.find(function);
    if (found == registry.end()) continue;  // it has no errors, or another name
    std::vector<std::string> ours;
    for (const VkResult error : documented_errors(function)) ours.push_back(name_of(error));
    std::istringstream words(found->second);
    for (std::string word; std::getline(words, word, ',');) {
      // The library passes null as the name of a layer.
      const bool is_of_a_layer = word == "VK_ERROR_LAYER_NOT_PRESENT" && function != "vkCreateInstance";
      const bool is_of_others =
          is_of_a_layer || std::find(std::begin(kOfOthers), std::end(kOfOthers), word) != std::end(kOfOthers);
      EXPECT_TRUE(is_of_others || std::find(ours.begin(), ours.end(), word) != ours.end())
          << function << " can give " << word;
    }
    ++compared;
  }
  EXPECT_GT(compared, 30U);
}

class LayerItself : public testing::Test {
 protected:
  void SetUp() override { the_layer().use(host_get_instance_proc_addr); }
  template <class Function>
  [[nodiscard]] static Function get(const char* name) {
    return reinterpret_cast<Function>(layer_get_instance_proc_addr(VK_NULL_HANDLE, name));
  }
  [[nodiscard]] VkResult create(VkFence& fence) const {
    const VkFenceCreateInfo info{VK_STRUCTURE_TYPE_FENCE_CREATE_INFO};
    return get<PFN_vkCreateFence>("vkCreateFence")(device_, &info, nullptr, &fence);
  }
  const VkDevice device_ = reinterpret_cast<VkDevice>(std::uintptr_t{0x40000});
};

TEST_F(LayerItself, CountsWhatIsAlive) {
  const auto destroy = get<PFN_vkDestroyFence>("vkDestroyFence");
  VkFence fence = VK_NULL_HANDLE;
  ASSERT_EQ(create(fence), VK_SUCCESS);
  EXPECT_EQ(the_layer().live().at("VkFence"), 1U);
  destroy(device_, fence, nullptr);
  EXPECT_TRUE(the_layer().live().empty());
  EXPECT_TRUE(the_layer().misuses().empty());
  destroy(device_, fence, nullptr);
  EXPECT_EQ(the_layer().misuses(), std::vector<std::string>{"a VkFence is destroyed that is not alive"});
}

TEST_F(LayerItself, FailsTheCallThatItIsTold) {
  the_layer().arm({"vkCreateFence", 2, VK_ERROR_OUT_OF_DEVICE_MEMORY});
  VkFence fence = VK_NULL_HANDLE;
  EXPECT_EQ(create(fence), VK_SUCCESS);
  EXPECT_FALSE(the_layer().has_fired());
  EXPECT_EQ(create(fence), VK_ERROR_OUT_OF_DEVICE_MEMORY);
  EXPECT_TRUE(the_layer().has_fired());
  EXPECT_NE(fence, VkFence{}) << "what a failed call leaves is anything";
  EXPECT_EQ(the_layer().live().at("VkFence"), 1U);
}

TEST_F(LayerItself, KnowsWhatCommandBuffersDo) {
  const auto begin = get<PFN_vkBeginCommandBuffer>("vkBeginCommandBuffer");
  const auto end = get<PFN_vkEndCommandBuffer>("vkEndCommandBuffer");
  const auto submit = get<PFN_vkQueueSubmit>("vkQueueSubmit");
  const VkCommandBuffer commands = reinterpret_cast<VkCommandBuffer>(std::uintptr_t{0x20000});
  const VkFence fence = reinterpret_cast<VkFence>(std::uintptr_t{0x60000});
  const VkCommandBufferBeginInfo info{VK_STRUCTURE_TYPE_COMMAND_BUFFER_BEGIN_INFO};
  VkSubmitInfo work{VK_STRUCTURE_TYPE_SUBMIT_INFO};
  work.commandBufferCount = 1;
  work.pCommandBuffers = &commands;
  EXPECT_EQ(begin(commands, &info), VK_SUCCESS);
  EXPECT_NE(begin(commands, &info), VK_SUCCESS);
  EXPECT_EQ(end(commands), VK_SUCCESS);
  EXPECT_EQ(submit(VK_NULL_HANDLE, 1, &work, fence), VK_SUCCESS);
  EXPECT_NE(begin(commands, &info), VK_SUCCESS) << "it runs";
  EXPECT_EQ(the_layer().misuses().size(), 2U);
}

}  // namespace
}  // namespace vkattn::tests
