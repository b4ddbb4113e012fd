// Child processes: see child_process.hpp.
#include "report/child_process.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstddef>
#include <system_error>
#include <thread>

#ifndef _WIN32
#include <fcntl.h>
#include <poll.h>
#include <signal.h>  // NOLINT(modernize-deprecated-headers): <csignal> lacks kill
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

extern char** environ;
#endif

namespace vkattn::cli {

#ifdef _WIN32
ChildResult run_child(const std::vector<std::string>& /*words*/, std::chrono::milliseconds /*limit*/) {
  ChildResult result;
  result.err = "child processes are not supported on this system";
  return result;
}
#else

namespace {

using Clock = std::chrono::steady_clock;

/// The reading end of a stream of the child's.
class Stream {
 public:
  Stream() {
    std::array<int, 2> ends{-1, -1};
    if (::pipe(ends.data()) != 0) return;
    read_ = ends[0];
    write_ = ends[1];
    // No other child may hold it open.
    (void)::fcntl(read_, F_SETFD, FD_CLOEXEC);
    (void)::fcntl(write_, F_SETFD, FD_CLOEXEC);
    (void)::fcntl(read_, F_SETFL, O_NONBLOCK);
  }
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;
  ~Stream() {
    close_writing();
    if (read_ != -1) (void)::close(read_);
  }

  [[nodiscard]] bool is_open() const { return read_ != -1; }
  [[nodiscard]] int reading() const { return read_; }
  [[nodiscard]] int writing() const { return write_; }
  void close_writing() {
    if (write_ != -1) (void)::close(write_);
    write_ = -1;
  }
  /// What has come; false at the end.
  [[nodiscard]] bool read_into(std::string& text) const {
    constexpr std::size_t kMost = std::size_t{16} << 20U;
    std::array<char, 65536> piece{};
    for (;;) {
      const ssize_t bytes = ::read(read_, piece.data(), piece.size());
      if (bytes == 0) return false;
      if (bytes < 0) return errno == EAGAIN || errno == EINTR;
      text.append(piece.data(), std::min(static_cast<std::size_t>(bytes), kMost - text.size()));
    }
  }

 private:
  int read_ = -1, write_ = -1;
};

/// 0, or what the system said.
int spawn(const std::vector<std::string>& words, const Stream& out, const Stream& err, pid_t& child) {
  std::vector<char*> arguments;
  for (const std::string& word : words) arguments.push_back(const_cast<char*>(word.c_str()));
  arguments.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_adddup2(&actions, out.writing(), STDOUT_FILENO);
  posix_spawn_file_actions_adddup2(&actions, err.writing(), STDERR_FILENO);
  const int status = ::posix_spawn(&child, arguments[0], &actions, nullptr, arguments.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  return status;
}

/// Reads both streams until they end or the time does. A process that ended may have left its streams to
/// another; so this looks at the process too.
void read_until(Clock::time_point end, pid_t child, const Stream& out, const Stream& err,
                ChildResult& result) {
  constexpr int kStepMs = 50;
  bool more_out = true, more_err = true;
  while ((more_out || more_err) && Clock::now() < end) {
    std::array<pollfd, 2> streams{{{more_out ? out.reading() : -1, POLLIN, 0}, {err.reading(), POLLIN, 0}}};
    if (!more_err) streams[1].fd = -1;
    (void)::poll(streams.data(), streams.size(), kStepMs);
    siginfo_t info{};
    const bool ended = ::waitid(P_PID, static_cast<id_t>(child), &info, WEXITED | WNOHANG | WNOWAIT) == 0 &&
                       info.si_pid == child;
    more_out = more_out && out.read_into(result.out);
    more_err = more_err && err.read_into(result.err);
    if (ended) return;
  }
}

/// True once the process has ended, within that time.
bool wait_until(Clock::time_point end, pid_t child, int& status) {
  for (;;) {
    const pid_t ended = ::waitpid(child, &status, WNOHANG);
    if (ended == child) return true;
    if (ended < 0 && errno != EINTR) return false;
    if (Clock::now() >= end) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
}

}  // namespace

ChildResult run_child(const std::vector<std::string>& words, std::chrono::milliseconds limit) {
  ChildResult result;
  Stream out, err;
  pid_t child = -1;
  const Clock::time_point begin = Clock::now();
  const int spawned = out.is_open() && err.is_open() ? spawn(words, out, err, child) : errno;
  if (spawned != 0) {
    result.err = words[0] + " cannot be started: " + std::generic_category().message(spawned);
    return result;
  }
  out.close_writing();
  err.close_writing();
  read_until(begin + limit, child, out, err, result);
  int status = 0;
  const bool ended = wait_until(begin + limit, child, status);
  // Asked first: it may have a file that it would remove.
  for (const int signal : {SIGTERM, SIGKILL}) {
    if (ended) break;
    (void)::kill(child, signal);
    if (wait_until(Clock::now() + std::chrono::seconds(signal == SIGTERM ? 1 : 5), child, status)) break;
  }
  result.seconds = std::chrono::duration<double>(Clock::now() - begin).count();
  result.end = !ended                ? ChildResult::End::kTimedOut
               : WIFSIGNALED(status) ? ChildResult::End::kSignalled
                                     : ChildResult::End::kExited;
  result.code = WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status);
  return result;
}
#endif

}  // namespace vkattn::cli
