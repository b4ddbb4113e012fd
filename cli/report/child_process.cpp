// Child processes: see child_process.hpp.
#include "report/child_process.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstddef>
#include <optional>
#include <system_error>
#include <thread>

#include "on_interrupt.hpp"

#ifndef _WIN32
#include <fcntl.h>
#include <poll.h>
#include <signal.h>  // NOLINT(modernize-deprecated-headers): <csignal> lacks kill
#include <sys/wait.h>
#include <unistd.h>
#ifdef __linux__
#include <sys/prctl.h>
#endif

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
  /// Waits for a number, and gives 0 where the stream ends without one.
  [[nodiscard]] int read_number() const {
    int number = 0;
    pollfd stream{read_, POLLIN, 0};
    while (::poll(&stream, 1, -1) == -1 && errno == EINTR) {
    }
    return ::read(read_, &number, sizeof number) == sizeof number ? number : 0;
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

/// Holds signals back that could end this thread's program, until destroyed.
class SignalsHeldBack {
 public:
  SignalsHeldBack() {
    sigset_t all;
    ::sigfillset(&all);
    ::pthread_sigmask(SIG_SETMASK, &all, &before_);
  }
  SignalsHeldBack(const SignalsHeldBack&) = delete;
  SignalsHeldBack& operator=(const SignalsHeldBack&) = delete;
  ~SignalsHeldBack() { ::pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
  [[nodiscard]] const sigset_t& before() const { return before_; }

 private:
  sigset_t before_{};
};

/// The parent's handlers are for the parent's files; what it ignores stays ignored.
void forget_handlers() {
  for (int signal = 1; signal < NSIG; ++signal) {
    struct sigaction action {};
    const bool known = ::sigaction(signal, nullptr, &action) == 0;
    const bool is_caught =
        (action.sa_flags & SA_SIGINFO) != 0 || (action.sa_handler != SIG_IGN && action.sa_handler != SIG_DFL);
    if (known && is_caught) (void)::signal(signal, SIG_DFL);
  }
}

/// That a descriptor is a stream of the program which is to run; it may be that already, where the parent has
/// none of its own.
bool becomes(int descriptor, int stream) {
  return descriptor == stream ? ::fcntl(stream, F_SETFD, 0) != -1 : ::dup2(descriptor, stream) != -1;
}

/// Makes this process, which fork() has just made, the program. Gives errno where that failed. Calls only
/// what POSIX allows here: another thread may have held any lock.
int become(char* const* arguments, const Stream& out, const Stream& err, const sigset_t& signals,
           pid_t parent) {
#ifdef __linux__
  // A parent that is killed cannot clean up.
  if (::prctl(PR_SET_PDEATHSIG, SIGTERM) != 0) return errno;
#endif
  if (::getppid() != parent) ::_exit(1);  // it ended meanwhile
  const int nothing = ::open("/dev/null", O_RDONLY);
  if (nothing == -1 || ::dup2(nothing, STDIN_FILENO) == -1) return errno;
  if (nothing != STDIN_FILENO) (void)::close(nothing);
  if (!becomes(out.writing(), STDOUT_FILENO) || !becomes(err.writing(), STDERR_FILENO)) return errno;
  forget_handlers();
  ::pthread_sigmask(SIG_SETMASK, &signals, nullptr);
  ::execve(arguments[0], arguments, environ);
  return errno;
}

/// 0, or what the system said. Not posix_spawn(), which cannot ask for a signal at the parent's end.
int spawn(const std::vector<std::string>& words, const Stream& out, const Stream& err,
          const SignalsHeldBack& held_back, pid_t& child) {
  std::vector<char*> arguments;
  for (const std::string& word : words) arguments.push_back(const_cast<char*>(word.c_str()));
  arguments.push_back(nullptr);
  Stream failure;  // ends without a word where the program starts
  if (!failure.is_open()) return errno;
  const pid_t parent = ::getpid();
  const pid_t started = ::fork();
  if (started == -1) return errno;
  if (started == 0) {
    const int error = become(arguments.data(), out, err, held_back.before(), parent);
    ::_exit(::write(failure.writing(), &error, sizeof error) == sizeof error ? 127 : 126);
  }
  failure.close_writing();
  const int error = failure.read_number();
  if (error == 0) {
    child = started;
  } else {
    (void)::waitpid(started, nullptr, 0);
  }
  return error;
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
  std::optional<EndedOnInterrupt> ended_with_this;
  int spawned = errno;  // of the streams
  if (out.is_open() && err.is_open()) {
    const SignalsHeldBack held_back;  // until the handler knows the child
    spawned = spawn(words, out, err, held_back, child);
    if (spawned == 0) ended_with_this.emplace(child);
  }
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
