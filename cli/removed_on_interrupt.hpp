// A file that does not outlive the program where a signal ends it.
#pragma once

#include <cstddef>
#include <filesystem>
#include <limits>

namespace vkattn {

/// As long as one of these lives, SIGINT, SIGTERM and SIGHUP unlink its file and then do what they did
/// before: the program ends by that signal, with the status that shells know. Signals that are ignored stay
/// so, and with the last of these goes the handler. Of more than 16 at a time some are not unlinked. Does
/// nothing on Windows. For one thread.
class RemovedOnInterrupt {
 public:
  RemovedOnInterrupt() = default;
  /// The file need not be there yet.
  explicit RemovedOnInterrupt(const std::filesystem::path& path);
  RemovedOnInterrupt(RemovedOnInterrupt&& other) noexcept;
  RemovedOnInterrupt& operator=(RemovedOnInterrupt&& other) noexcept;
  RemovedOnInterrupt(const RemovedOnInterrupt&) = delete;
  RemovedOnInterrupt& operator=(const RemovedOnInterrupt&) = delete;
  ~RemovedOnInterrupt() { release(); }

  /// From here on the file stays.
  void release() noexcept;

 private:
  static constexpr std::size_t kNone = std::numeric_limits<std::size_t>::max();
  std::size_t slot_ = kNone;
};

}  // namespace vkattn
