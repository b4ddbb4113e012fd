// Help for debugging: texts of the caller's log, names of Vulkan objects, labels in command buffers.
#pragma once

#include <cstdint>
#include <string>
#include <type_traits>

#include "common/message.hpp"
#include "vulkan/device_state.hpp"

namespace vkattn::detail {

[[nodiscard]] inline bool is_logged(const Log& log, LogLevel level) noexcept {
  return log.write != nullptr && level >= log.least;
}

/// Makes the text only if somebody listens.
template <class... Parts>
void write_log(const Log& log, LogLevel level, const Parts&... parts) {
  if (is_logged(log, level)) log.write(log.user, level, message(parts...).c_str());
}

/// Logs a text that exists already, and allocates nothing.
inline void write_text(const Log& log, LogLevel level, const char* text) noexcept {
  if (is_logged(log, level)) log.write(log.user, level, text);
}

/// Warns that a plan records nothing.
inline void warn_not_compiled(const Log& log) noexcept {
  write_text(log, LogLevel::kWarning, "a plan that is not compiled records nothing: call compile() before");
}

/// Logs the description of a device or plan, without the newline at the end of describe().
template <class Described>
void log_description(const Log& log, const Described& object) {
  if (!is_logged(log, LogLevel::kDetail)) return;
  std::string text = object.describe();
  if (text.ends_with('\n')) text.pop_back();
  write_text(log, LogLevel::kDetail, text.c_str());
}

/// The object's name in captures and validation messages: "vkattn " and `name`. The device is what has the
/// functions and the handle.
template <class Owner, class Handle>
void name_object(const Owner& device, VkObjectType type, Handle handle, const std::string& name) {
  if (device.vk.vkSetDebugUtilsObjectNameEXT == nullptr) return;
  const std::string whole = message("vkattn ", name);
  VkDebugUtilsObjectNameInfoEXT info{VK_STRUCTURE_TYPE_DEBUG_UTILS_OBJECT_NAME_INFO_EXT};
  info.objectType = type;
  if constexpr (std::is_pointer_v<Handle>) {  // numbers on 32-bit machines
    info.objectHandle = reinterpret_cast<std::uintptr_t>(handle);
  } else {
    info.objectHandle = handle;
  }
  info.pObjectName = whole.c_str();
  device.vk.vkSetDebugUtilsObjectNameEXT(device.device, &info);
}

/// A labelled region of a command buffer, one after the other; the last one ends with this object.
class CommandLabels {
 public:
  CommandLabels(const DeviceFunctions& vk, VkCommandBuffer commands) noexcept
      : vk_(vk), commands_(commands) {}
  CommandLabels(const CommandLabels&) = delete;
  CommandLabels& operator=(const CommandLabels&) = delete;
  ~CommandLabels() { end(); }

  void begin(const std::string& label) noexcept {
    if (vk_.vkCmdBeginDebugUtilsLabelEXT == nullptr) return;
    end();
    VkDebugUtilsLabelEXT info{VK_STRUCTURE_TYPE_DEBUG_UTILS_LABEL_EXT};
    info.pLabelName = label.c_str();
    vk_.vkCmdBeginDebugUtilsLabelEXT(commands_, &info);
    is_open_ = true;
  }

 private:
  void end() noexcept {
    if (is_open_) vk_.vkCmdEndDebugUtilsLabelEXT(commands_);
    is_open_ = false;
  }

  const DeviceFunctions& vk_;
  VkCommandBuffer commands_;
  bool is_open_ = false;
};

}  // namespace vkattn::detail
