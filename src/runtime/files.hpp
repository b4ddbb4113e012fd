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

/// The variable's value as a path; empty if it is unset.
[[nodiscard]] std::filesystem::path environment_path(const char* name);

/// RuntimeOptions::cache_dir, else VKATTN_CACHE_DIR, else XDG_CACHE_HOME/vkattn, else on Windows
/// LOCALAPPDATA/vkattn/cache, else HOME/.cache/vkattn; empty where there is none of them.
[[nodiscard]] std::filesystem::path cache_directory(const RuntimeOptions& options);

/// `stem`-vendor-device-uuid`suffix`: a file of its own for each device and driver.
[[nodiscard]] std::string device_file_name(std::string_view stem,
                                           const VkPhysicalDeviceProperties& properties,
                                           std::string_view suffix);

/// Writes a new file beside the old one, which then takes its place. Makes the folder if there is none. If
/// several programs write at once, one of the files wins: to change a file that was read before, hold a
/// FileLock.
[[nodiscard]] Result<void> replace_file(const std::filesystem::path& path,
                                        std::span<const std::string_view> pieces);

/// The right to change a file, which one program or thread has at a time. A program that reads a file,
/// changes the contents and writes them holds it from before the reading until after the writing: otherwise
/// it loses what others wrote meanwhile. Held until destroyed, or until the program ends in any way.
class FileLock {
 public:
  enum class Status { kTaken, kBusy, kImpossible };

  /// A program that holds a file for longer is stopped, or tests a device.
  static constexpr std::chrono::seconds kPatience{20};

  /// Tries for so long. Locks a file `lock-NAME` beside `path`, as others replace the file itself, and it may
  /// not exist. Makes that file; on systems other than Windows it is removed with the lock. kImpossible: it
  /// cannot be made, or its file system has no locks.
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
