// A layer between the library and a driver, which a test hands out through vkGetInstanceProcAddr: it counts
// the calls of each Vulkan function, fails one of them where it is told to, and knows which objects are alive
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
  /// Forgets everything, and passes calls on to this driver.
  void use(PFN_vkGetInstanceProcAddr below);

  /// Counts from here on, and fails the call of the fault; the calls of an empty function are none.
  void arm(Fault fault = {});
  /// Whether the fault's call has come.
  [[nodiscard]] bool has_fired() const { return has_fired_; }
  /// That the device which is alive has given VK_ERROR_DEVICE_LOST: what can, gives it again.
  [[nodiscard]] bool is_lost() const { return is_lost_; }
  /// Of each function since arm().
  [[nodiscard]] const std::map<std::string, std::uint32_t>& calls() const { return calls_; }
  /// How many objects of each type are alive.
  [[nodiscard]] std::map<std::string, std::size_t> live() const;
  /// Sentences on what a program may not do: what is not alive destroyed, a command buffer begun that runs,
  /// ….
  [[nodiscard]] const std::vector<std::string>& misuses() const { return misuses_; }

  /// For the layer's functions.
  /// @{
  [[nodiscard]] VkResult enter(std::string_view function);
  void created(const std::string& type, std::uint64_t handle, std::uint64_t parent = 0);
  /// False where it is not alive: then the driver must not see it.
  [[nodiscard]] bool destroyed(const std::string& type, std::uint64_t handle);
  void misuse(std::string sentence) { misuses_.push_back(std::move(sentence)); }
  [[nodiscard]] bool begins(VkCommandBuffer commands);
  [[nodiscard]] bool ends(VkCommandBuffer commands);
  /// It failed: the command buffer can be begun, and nothing else.
  void cannot_end(VkCommandBuffer commands) { commands_[commands] = Commands::kInitial; }
  [[nodiscard]] bool submits(VkCommandBuffer commands, VkFence fence);
  void submitted(VkCommandBuffer commands, VkFence fence);
  /// Nothing runs any more.
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
  std::map<std::pair<std::string, std::uint64_t>, std::uint64_t> live_;  ///< with what they go together with
  std::map<VkCommandBuffer, Commands> commands_;
  std::set<VkFence> signalled_;
  std::vector<std::string> misuses_;
};

[[nodiscard]] Layer& the_layer();

/// Those of the library's that give a VkResult.
[[nodiscard]] std::vector<std::string> functions_with_results();

/// What a program gets in the place of the loader's.
VKAPI_ATTR PFN_vkVoidFunction VKAPI_CALL layer_get_instance_proc_addr(VkInstance instance, const char* name);

}  // namespace vkattn::tests
