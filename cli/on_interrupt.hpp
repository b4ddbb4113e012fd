// What does not outlive the program where a signal ends it: files, and a child process.
//
// As long as an object of these classes lives, SIGINT, SIGTERM, SIGHUP and SIGQUIT clean up and then do what
// they did before: the program ends by that signal, with the status that shells know. Signals that are
// ignored stay so, and with the last object goes the handler. Nothing of it on Windows. For one thread.
#pragma once

#include <cstddef>
#include <filesystem>
#include <limits>

namespace vkattn {

/// A file that the signals unlink. Of more than 16 at a time some are not unlinked.
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

#ifndef _WIN32
/// A child process that the signals ask to end, by SIGTERM, and kill where it has not ended a second later.
/// One object at a time.
class EndedOnInterrupt {
 public:
  explicit EndedOnInterrupt(int process);
  EndedOnInterrupt(const EndedOnInterrupt&) = delete;
  EndedOnInterrupt& operator=(const EndedOnInterrupt&) = delete;
  /// The process was waited for, or may live on.
  ~EndedOnInterrupt();
};
#endif

}  // namespace vkattn
