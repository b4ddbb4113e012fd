// Keeps what a signal handler may read at any time: a table of file names, and the number of a process.
#include "on_interrupt.hpp"

#include <utility>

#ifndef _WIN32
#include <poll.h>
#include <signal.h>  // NOLINT(modernize-deprecated-headers): <csignal> lacks sigaction
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <string>
#endif

namespace vkattn {

#ifndef _WIN32
namespace {

/// A file name that is complete while `used` is set. No file system takes longer names.
struct Slot {
  std::atomic<bool> used = false;
  std::array<char, 4096> path{};
};
static_assert(std::atomic<bool>::is_always_lock_free && std::atomic<pid_t>::is_always_lock_free,
              "or a signal handler could not read them");

struct Caught {
  int signal = 0;
  bool installed = false;
  struct sigaction before {};
};

std::array<Slot, 16> slots;
std::atomic<pid_t> child = 0;  ///< 0 if there is no child
std::array<Caught, 4> caught{Caught{SIGINT}, Caught{SIGTERM}, Caught{SIGHUP}, Caught{SIGQUIT}};

/// Asks the child to end first, because it may have files to remove. Leaves its status to the code that waits
/// for it.
void end_child(pid_t process) {
  constexpr int kStepMs = 5;
  constexpr int kSteps = 1000 / kStepMs;
  for (const int signal : {SIGTERM, SIGKILL}) {
    (void)::kill(process, signal);
    for (int step = 0; step < kSteps; ++step) {
      siginfo_t info{};
      if (::waitid(P_PID, static_cast<id_t>(process), &info, WEXITED | WNOHANG | WNOWAIT) != 0) return;
      if (info.si_pid == process) return;
      (void)::poll(nullptr, 0, kStepMs);
    }
  }
}

/// Calls only what POSIX allows in a handler. The signal is blocked here. So the raised signal arrives when
/// this function has returned, and the earlier handler takes it.
extern "C" void clean_up_and_end(int signal) {
  const int error = errno;
  for (const Slot& slot : slots) {
    if (slot.used.load(std::memory_order_acquire)) ::unlink(slot.path.data());
  }
  if (const pid_t process = child.load(); process != 0) end_child(process);
  for (const Caught& each : caught) {
    if (each.signal == signal) ::sigaction(signal, &each.before, nullptr);
  }
  ::raise(signal);
  errno = error;
}

void install() {
  struct sigaction action {};
  action.sa_handler = clean_up_and_end;
  ::sigemptyset(&action.sa_mask);
  for (const Caught& each : caught) ::sigaddset(&action.sa_mask, each.signal);
  for (Caught& each : caught) {
    // nohup and shells without job control ignore a signal for a reason, so it stays ignored.
    const bool known = ::sigaction(each.signal, nullptr, &each.before) == 0;
    const bool ignored = (each.before.sa_flags & SA_SIGINFO) == 0 && each.before.sa_handler == SIG_IGN;
    each.installed = known && !ignored && ::sigaction(each.signal, &action, nullptr) == 0;
  }
}

void restore() {
  for (Caught& each : caught) {
    if (each.installed) ::sigaction(each.signal, &each.before, nullptr);
    each.installed = false;
  }
}

bool none_used() {
  return child == 0 &&
         std::none_of(slots.begin(), slots.end(), [](const Slot& slot) { return slot.used.load(); });
}

}  // namespace

RemovedOnInterrupt::RemovedOnInterrupt(const std::filesystem::path& path) {
  const std::string name = path.string();
  const auto free = std::find_if(slots.begin(), slots.end(), [](const Slot& slot) { return !slot.used; });
  if (free == slots.end() || name.size() >= free->path.size()) return;
  if (none_used()) install();
  std::copy(name.begin(), name.end(), free->path.begin());
  free->path[name.size()] = '\0';
  free->used.store(true, std::memory_order_release);
  slot_ = static_cast<std::size_t>(free - slots.begin());
}

void RemovedOnInterrupt::release() noexcept {
  const std::size_t slot = std::exchange(slot_, kNone);
  if (slot == kNone) return;
  slots[slot].used = false;
  if (none_used()) restore();
}

EndedOnInterrupt::EndedOnInterrupt(int process) {
  if (none_used()) install();
  child = process;
}

EndedOnInterrupt::~EndedOnInterrupt() {
  child = 0;
  if (none_used()) restore();
}
#else
RemovedOnInterrupt::RemovedOnInterrupt(const std::filesystem::path& /*path*/) {}

void RemovedOnInterrupt::release() noexcept {
  slot_ = kNone;
}
#endif

RemovedOnInterrupt::RemovedOnInterrupt(RemovedOnInterrupt&& other) noexcept
    : slot_(std::exchange(other.slot_, kNone)) {}

RemovedOnInterrupt& RemovedOnInterrupt::operator=(RemovedOnInterrupt&& other) noexcept {
  std::swap(slot_, other.slot_);
  return *this;
}

}  // namespace vkattn
