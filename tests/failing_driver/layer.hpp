// A layer between the library and a driver, which a test passes through vkGetInstanceProcAddr. It counts the
// calls of each Vulkan function, makes one of them fail if it is told to, and knows which objects are alive
// and what command buffers are doing. The driver below may be a real one.
#pragma once

#include <vulkan/vulkan_core.h>

#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "failing_driver/faults.hpp"

namespace vkattn::tests {

class Layer {
 public:
  /// Forgets everything, and passes calls on to this driver from now on.
  void use(PFN_vkGetInstanceProcAddr below);

  /// Counts from now on, and makes the fault's call fail. A fault without a function never occurs.
  void arm(Fault fault = {});
  /// Whether the fault's call has happened.
  [[nodiscard]] bool has_fired() const { return has_fired_; }
  /// Whether the living device has returned VK_ERROR_DEVICE_LOST. Every function that can then returns it
  /// again.
  [[nodiscard]] bool is_lost() const { return is_lost_; }
  /// The calls of each function since arm().
  [[nodiscard]] const std::map<std::string, std::uint32_t>& calls() const { return calls_; }
  /// The number of live objects of each type.
  [[nodiscard]] std::map<std::string, std::size_t> live() const;
  /// Sentences about forbidden uses, for example destroying an object that is not alive, or beginning a
  /// command buffer that runs.
  [[nodiscard]] const std::vector<std::string>& misuses() const { return misuses_; }

  /// Called by the layer's functions.
  /// @{
  [[nodiscard]] VkResult enter(std::string_view function);
  void created(const std::string& type, std::uint64_t handle, std::uint64_t parent = 0);
  /// False if the object is not alive. Then the driver must not see the call.
  [[nodiscard]] bool destroyed(const std::string& type, std::uint64_t handle);
  void misuse(std::string sentence) { misuses_.push_back(std::move(sentence)); }
  [[nodiscard]] bool begins(VkCommandBuffer commands);
  [[nodiscard]] bool ends(VkCommandBuffer commands);
  /// Ending the command buffer failed: it can be begun again, and nothing else.
  void cannot_end(VkCommandBuffer commands) { commands_[commands] = Commands::kInitial; }
  [[nodiscard]] bool submits(VkCommandBuffer commands, VkFence fence);
  void submitted(VkCommandBuffer commands, VkFence fence);
  /// Nothing is running on the device any more.
  void waited();
  void reset_fence(VkFence fence) { signalled_.erase(fence); }
  [[nodiscard]] PFN_vkVoidFunction find(const char* name, PFN_vkVoidFunction below);
  [[nodiscard]] PFN_vkGetInstanceProcAddr driver() const { return driver_; }
  /// @}

 private:
  enum class Commands : std::uint8_t { kInitial, kRecording, kExecutable, kRunning };
  [[nodiscard]] bool is_running() const;

  PFN_vkGetInstanceProcAddr driver_ = nullptr;
  Fault fault_;
  bool has_fired_ = false, is_lost_ = false;
  std::map<std::string, std::uint32_t> calls_;
  std::map<std::pair<std::string, std::uint64_t>, std::uint64_t> live_;  ///< each object and its pool
  std::map<VkCommandBuffer, Commands> commands_;
  std::set<VkFence> signalled_;
  std::vector<std::string> misuses_;
};

[[nodiscard]] Layer& the_layer();

/// The library's functions that return a VkResult.
[[nodiscard]] std::vector<std::string> functions_with_results();

/// Programs get this in place of the loader's function.
VKAPI_ATTR PFN_vkVoidFunction VKAPI_CALL layer_get_instance_proc_addr(VkInstance instance, const char* name);

}  // namespace vkattn::tests
