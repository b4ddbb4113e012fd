#include "decoder/terminal.hpp"

#include <algorithm>
#include <cmath>
#include <csignal>
#include <cstdio>
#include <cstdlib>

#if defined(_WIN32)
#include <io.h>
#else
#include <unistd.h>
#endif

namespace decoder {

namespace {

volatile std::sig_atomic_t is_interrupted = 0;

}  // namespace

double seconds_since(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

bool is_terminal(int stream) {
#if defined(_WIN32)
  return _isatty(stream) != 0;
#else
  return isatty(stream) != 0;
#endif
}

void refuse(const std::string& sentence) {
  std::fflush(stdout);
  std::fprintf(stderr, "%s\n", sentence.c_str());
  std::exit(1);
}

void ProgressLine::tell(const std::string& text, double share) {
  const auto least = is_terminal_ ? std::chrono::milliseconds(200) : std::chrono::seconds(10);
  if (Clock::now() - shown_at_ >= least) show(text, share);
}

void ProgressLine::show(const std::string& text, double share) {
  constexpr std::size_t kBar = 24;
  const auto filled = static_cast<std::size_t>(std::lround(std::clamp(share, 0.0, 1.0) * kBar));
  const std::string bar =
      share < 0 ? "" : "[" + std::string(filled, '#') + std::string(kBar - filled, '.') + "] ";
  if (is_terminal_)
    std::fprintf(stderr, "\r%s%s\x1b[K", bar.c_str(), text.c_str());
  else
    std::fprintf(stderr, "%s\n", text.c_str());
  shown_ = true;
  shown_at_ = Clock::now();
}

void ProgressLine::remove() {
  if (is_terminal_ && shown_) std::fprintf(stderr, "\r\x1b[K");
  shown_ = false;
}

Interrupts::Interrupts()
    : before_((is_interrupted = 0, std::signal(SIGINT, [](int) { is_interrupted = 1; }))) {}

Interrupts::~Interrupts() {
  (void)std::signal(SIGINT, before_);
}

bool Interrupts::came() {
  return is_interrupted != 0;
}

std::string failure_text(const CLI::App* /*app*/, const CLI::Error& error) {
  const std::string text = error.what();
  const bool is_of_option = text.starts_with("--") && error.get_name() == "ArgumentMismatch";
  return (is_of_option ? text.substr(0, text.find(':')) + " needs one value" : text) +
         "; --help lists the options\n";
}

}  // namespace decoder
