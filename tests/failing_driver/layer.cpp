// The state of the layer: see layer.hpp.
#include "failing_driver/layer.hpp"

#include <algorithm>

namespace vkattn::tests {

Layer& the_layer() {
  static Layer layer;
  return layer;
}

void Layer::use(PFN_vkGetInstanceProcAddr below) {
  *this = Layer();
  driver_ = below;
}

void Layer::arm(Fault fault) {
  fault_ = std::move(fault);
  has_fired_ = false;
  calls_.clear();
}

std::map<std::string, std::size_t> Layer::live() const {
  std::map<std::string, std::size_t> counts;
  for (const auto& [object, parent] : live_) ++counts[object.first];
  return counts;
}

VkResult Layer::enter(std::string_view function) {
  const std::string name(function);
  const std::uint32_t call = ++calls_[name];
  if (name == fault_.function && call == fault_.call) {
    has_fired_ = true;
    is_lost_ = is_lost_ || (fault_.error == VK_ERROR_DEVICE_LOST && name != "vkCreateDevice");
    return fault_.error;
  }
  if (!is_lost_ || name == "vkCreateDevice") return VK_SUCCESS;
  const std::vector<VkResult> errors = documented_errors(name);
  const bool can_tell = std::find(errors.begin(), errors.end(), VK_ERROR_DEVICE_LOST) != errors.end();
  return can_tell ? VK_ERROR_DEVICE_LOST : VK_SUCCESS;
}

void Layer::created(const std::string& type, std::uint64_t handle, std::uint64_t parent) {
  live_[{type, handle}] = parent;
}

bool Layer::is_running() const {
  return !is_lost_ && std::any_of(commands_.begin(), commands_.end(),
                                  [](const auto& entry) { return entry.second == Commands::kRunning; });
}

bool Layer::destroyed(const std::string& type, std::uint64_t handle) {
  if (handle == 0) return true;
  if (live_.erase({type, handle}) == 0) {
    misuse("a " + type + " is destroyed that is not alive");
    return false;
  }
  if (is_running()) misuse("a " + type + " is destroyed while commands run");
  // Destroying a pool destroys its sets and command buffers.
  std::erase_if(live_, [&](const auto& entry) { return entry.second == handle; });
  std::erase_if(commands_, [&](const auto& entry) {
    return live_.count({"VkCommandBuffer", reinterpret_cast<std::uintptr_t>(entry.first)}) == 0;
  });
  if (type == "VkDevice") {
    is_lost_ = false;
    for (const auto& [object, parent] : live_) {
      if (object.first != "VkInstance" && object.first != "VkDebugUtilsMessengerEXT") {
        misuse("a VkDevice is destroyed before a " + object.first);
      }
    }
  }
  return true;
}

bool Layer::begins(VkCommandBuffer commands) {
  Commands& state = commands_[commands];
  const bool is_free = state == Commands::kInitial || state == Commands::kExecutable;
  if (!is_free) misuse("a command buffer is begun that is recorded or runs");
  state = Commands::kRecording;
  return is_free;
}

bool Layer::ends(VkCommandBuffer commands) {
  Commands& state = commands_[commands];
  const bool is_recording = state == Commands::kRecording;
  if (!is_recording) misuse("a command buffer is ended that was not begun");
  state = Commands::kExecutable;
  return is_recording;
}

bool Layer::submits(VkCommandBuffer commands, VkFence fence) {
  const bool is_ready = commands_[commands] == Commands::kExecutable;
  if (!is_ready) misuse("a command buffer is submitted that was not ended");
  const bool is_reset = signalled_.count(fence) == 0;
  if (!is_reset) misuse("a fence is submitted that is signalled");
  return is_ready && is_reset;
}

void Layer::submitted(VkCommandBuffer commands, VkFence fence) {
  commands_[commands] = Commands::kRunning;
  signalled_.insert(fence);
}

void Layer::waited() {
  for (auto& [commands, state] : commands_) {
    if (state == Commands::kRunning) state = Commands::kExecutable;
  }
}

}  // namespace vkattn::tests
