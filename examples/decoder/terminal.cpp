#include "decoder/terminal.hpp"

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <exception>
#include <new>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>

#ifdef _WIN32
#include <io.h>
#else
#include <unistd.h>
#endif

namespace decoder {

namespace {

volatile std::sig_atomic_t is_interrupted = 0;
std::string_view notice;  // of the Interrupts that live, set before their handler

// Handlers may not use streams.
void print_notice() {
  const int error = errno;
#ifdef _WIN32
  const auto written = ::_write(2, notice.data(), static_cast<unsigned>(notice.size()));
#else
  const auto written = ::write(STDERR_FILENO, notice.data(), notice.size());
#endif
  static_cast<void>(written);  // if nobody can read it, the flag is set all the same
  errno = error;
}

void take_interrupt(int) {
  is_interrupted = 1;
  (void)std::signal(SIGINT, SIG_DFL);
  print_notice();
}

}  // namespace

double seconds_since(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

Interrupts::Interrupts(std::string text) : notice_(std::move(text)) {
  if (!notice_.empty()) notice_ = (vkattn::console::stderr_is_terminal() ? "\r\x1b[K" : "") + notice_ + "\n";
  notice = notice_;
  is_interrupted = 0;
  before_ = std::signal(SIGINT, take_interrupt);
}

Interrupts::~Interrupts() {
  (void)std::signal(SIGINT, before_);
}

bool Interrupts::came() {
  return is_interrupted != 0;
}

void flush_output() {
  errno = 0;
  if (std::fflush(stdout) == 0 && std::ferror(stdout) == 0) return;
  const std::string why = errno == 0 ? "" : ": " + std::generic_category().message(errno);
  refuse("standard output cannot be written" + why);
}

int run_program(CLI::App& app, int argc, char** argv, const std::function<void()>& program) {
  example::before_refusal = ProgressLine::clear;
  app.failure_message([](const CLI::App*, const CLI::Error& error) {
    const std::string text = error.what();
    const bool is_of_option = text.starts_with("--") && error.get_name() == "ArgumentMismatch";
    return (is_of_option ? text.substr(0, text.find(':')) + " needs one value" : text) +
           "; --help lists the options\n";
  });
  CLI11_PARSE(app, argc, argv);
  try {
    program();
    flush_output();
    return 0;
  } catch (const std::bad_alloc&) {
    refuse("no host memory is left");
  } catch (const std::exception& error) {
    refuse(std::string("the program cannot go on: ") + error.what());
  }
}

}  // namespace decoder
