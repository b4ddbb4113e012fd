// See compile_notice.hpp.
#include "compile_notice.hpp"

#include <atomic>
#include <cstdio>
#include <system_error>
#include <utility>

#ifdef _WIN32
#include <io.h>
#else
#include <unistd.h>
#endif

namespace vkattn::python {
namespace {

std::atomic<bool> is_written = false;
std::atomic<std::chrono::milliseconds> patience_now = CompileNotice::kPatience;

bool is_terminal() {
#ifdef _WIN32
  return _isatty(_fileno(stderr)) != 0;
#else
  return isatty(STDERR_FILENO) != 0;
#endif
}

}  // namespace

CompileNotice::CompileNotice(std::string device_name) : device_name_(std::move(device_name)) {
  if (is_written || !is_terminal()) return;
  try {
    thread_ = std::thread([this] { wait(); });
  } catch (const std::system_error&) {  // no thread can be had: no line
  }
}

CompileNotice::~CompileNotice() {
  {
    const std::lock_guard lock(mutex_);
    has_ended_ = true;
  }
  ended_.notify_one();
  if (thread_.joinable()) thread_.join();
}

void CompileNotice::wait() {
  std::unique_lock lock(mutex_);
  const bool in_time = ended_.wait_for(lock, patience_now.load(), [this] { return has_ended_; });
  if (in_time || is_written.exchange(true)) return;
  std::fprintf(stderr, "vkattn: %s compiles shaders, once for each kind of problem; later runs are quick\n",
               device_name_.c_str());
}

void set_patience(std::chrono::milliseconds patience) {
  patience_now = patience;
}

}  // namespace vkattn::python
