#include "decoder/terminal.hpp"

#include <csignal>
#include <string>

namespace decoder {

namespace {

volatile std::sig_atomic_t is_interrupted = 0;

}  // namespace

double seconds_since(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

Interrupts::Interrupts()
    : before_((is_interrupted = 0, std::signal(SIGINT, [](int) { is_interrupted = 1; }))) {}

Interrupts::~Interrupts() {
  (void)std::signal(SIGINT, before_);
}

bool Interrupts::came() {
  return is_interrupted != 0;
}

void set_up(CLI::App& app) {
  example::before_refusal = ProgressLine::clear;
  app.failure_message([](const CLI::App*, const CLI::Error& error) {
    const std::string text = error.what();
    const bool is_of_option = text.starts_with("--") && error.get_name() == "ArgumentMismatch";
    return (is_of_option ? text.substr(0, text.find(':')) + " needs one value" : text) +
           "; --help lists the options\n";
  });
}

}  // namespace decoder
