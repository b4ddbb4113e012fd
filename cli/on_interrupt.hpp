// Files and a child process that must not outlive the program if a signal ends it.
//
// While an object of these classes lives, SIGINT, SIGTERM, SIGHUP and SIGQUIT clean up and then do what they
// did before. So the program ends by that signal, with the status that shells expect. An ignored signal stays
// ignored. The last object removes the handler. On Windows nothing happens. Only one thread may use these
// classes.
#pragma once

#include <cstddef>
#include <filesystem>
#include <limits>

namespace vkattn {

/// A file that the signals unlink. If there are more than 16 at a time, some are not unlinked.
class RemovedOnInterrupt {
 public:
  RemovedOnInterrupt() = default;
  /// The file need not exist yet.
  explicit RemovedOnInterrupt(const std::filesystem::path& path);
  RemovedOnInterrupt(RemovedOnInterrupt&& other) noexcept;
  RemovedOnInterrupt& operator=(RemovedOnInterrupt&& other) noexcept;
  RemovedOnInterrupt(const RemovedOnInterrupt&) = delete;
  RemovedOnInterrupt& operator=(const RemovedOnInterrupt&) = delete;
  ~RemovedOnInterrupt() { release(); }

  /// From now on the file stays.
  void release() noexcept;

 private:
  static constexpr std::size_t kNone = std::numeric_limits<std::size_t>::max();
  std::size_t slot_ = kNone;
};

#ifndef _WIN32
/// A child process that the signals ask to end by SIGTERM, and kill if it has not ended a second later. At
/// most one object may exist at a time.
class EndedOnInterrupt {
 public:
  explicit EndedOnInterrupt(int process);
  EndedOnInterrupt(const EndedOnInterrupt&) = delete;
  EndedOnInterrupt& operator=(const EndedOnInterrupt&) = delete;
  /// The process has been waited for, or may live on.
  ~EndedOnInterrupt();
};
#endif

}  // namespace vkattn
