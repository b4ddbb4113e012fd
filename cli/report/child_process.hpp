// A program run by this one, with a limit of time: what happens to it does not happen here.
#pragma once

#include <chrono>
#include <string>
#include <vector>

namespace vkattn::cli {

struct ChildResult {
  enum class End {
    kExited,      ///< by itself
    kSignalled,   ///< by a signal: it crashed
    kTimedOut,    ///< it was ended at the limit
    kNotStarted,  ///< `err` says why
  };
  End end = End::kNotStarted;
  int code = 0;          ///< exit code or signal
  std::string out, err;  ///< the first 16 MiB of each stream
  double seconds = 0;
};

/// Runs `words`, the first of which is the program's path, to its end or to the limit, and gives what it
/// printed. It gets nothing to read. At the limit it is asked to end, and a second later it is killed; one
/// that does not end then, as inside of a driver that hangs, is left behind. Where a signal of
/// on_interrupt.hpp ends this program, the child ends too, and on Linux also where this program is killed or
/// crashes. For one thread, and one child at a time.
[[nodiscard]] ChildResult run_child(const std::vector<std::string>& words, std::chrono::milliseconds limit);

}  // namespace vkattn::cli
