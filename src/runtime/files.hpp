// Files that the runtime keeps between runs.
#pragma once

#include <vulkan/vulkan_core.h>

#include <vkattn/runtime.hpp>

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>

namespace vkattn::detail {

/// The variable's value as a path; empty where it is unset.
[[nodiscard]] std::filesystem::path environment_path(const char* name);

/// RuntimeOptions::cache_dir, else VKATTN_CACHE_DIR, else XDG_CACHE_HOME/vkattn, else on Windows
/// LOCALAPPDATA/vkattn/cache, else HOME/.cache/vkattn; empty where there is none of them.
[[nodiscard]] std::filesystem::path cache_directory(const RuntimeOptions& options);

/// `stem`-vendor-device-uuid`suffix`: a file of its own for each device and driver.
[[nodiscard]] std::string device_file_name(std::string_view stem,
                                           const VkPhysicalDeviceProperties& properties,
                                           std::string_view suffix);

/// Writes a new file beside the old one, which then takes its place, and makes the folder where there is
/// none. Where several write at once, the file is that of one of them: FileLock is for who has read it
/// before.
[[nodiscard]] Result<void> replace_file(const std::filesystem::path& path,
                                        std::span<const std::string_view> pieces);

/// The right to change a file, which one program or thread has at a time. Whoever reads a file, changes what
/// it read and writes that, holds it from before the reading until after the writing: else the last one who
/// writes loses what others wrote. Held until destroyed or until its program ends, however it ends.
class FileLock {
 public:
  enum class Status { kTaken, kBusy, kImpossible };

  /// Whoever has a file for longer is stopped, or tests a device.
  static constexpr std::chrono::seconds kPatience{20};

  /// Tries for that long. What is locked is a file `lock-NAME` beside `path`, which is made, and on systems
  /// other than Windows removed with the lock; the file itself is replaced by others, and may not be there.
  /// kImpossible: that file cannot be made, or its file system has no locks.
  [[nodiscard]] Status take(const std::filesystem::path& path, std::chrono::milliseconds timeout = kPatience);
  FileLock() = default;
  FileLock(const FileLock&) = delete;
  FileLock& operator=(const FileLock&) = delete;
  ~FileLock();

 private:
  [[nodiscard]] Status try_once();
  std::filesystem::path lock_;
  std::intptr_t file_ = -1;  ///< a descriptor, or on Windows a handle
};

}  // namespace vkattn::detail
