// The terminal: progress, interrupts, refusals, and options with numbers.
#pragma once

#include <CLI/CLI.hpp>

#include <chrono>
#include <cstdint>
#include <functional>
#include <iomanip>
#include <sstream>
#include <string>
#include <type_traits>

#include "common_device.hpp"
#include "console.hpp"

namespace decoder {

using Clock = std::chrono::steady_clock;
[[nodiscard]] double seconds_since(Clock::time_point begin);

using example::refuse;

// Progress, each 10 s if there is no terminal.
struct ProgressLine : vkattn::console::ProgressBar {
  ProgressLine() : ProgressBar(10) {}
};

// While it lives, the first Ctrl-C only sets a flag, and prints a notice. The second ends the program at
// once.
class Interrupts {
 public:
  explicit Interrupts(std::string notice = {});
  Interrupts(const Interrupts&) = delete;
  Interrupts& operator=(const Interrupts&) = delete;
  ~Interrupts();
  [[nodiscard]] static bool came();

 private:
  std::string notice_;
  void (*before_)(int);
};

// Adds an option with a number. Its help and its error name the range.
template <class Number>
CLI::Option* add_number(CLI::App& app, const std::string& name, Number& number, const std::string& text,
                        double least, double most) {
  const auto in_range = [=](const std::string& word) {
    std::conditional_t<std::is_integral_v<Number>, std::int64_t, double> value = 0;
    std::istringstream stream(word);
    if (!(stream >> value) || !stream.eof())
      return "'" + word + "' is no " + (std::is_integral_v<Number> ? "whole number" : "number");
    const auto given = static_cast<double>(value);
    if (given >= least && given <= most) return std::string();
    std::ostringstream message;
    message << std::setprecision(10) << word << " is not from " << least << " to " << most;
    return message.str();
  };
  return app.add_option(name, number, text)->option_text("N")->check(CLI::Validator(in_range, ""));
}

// Writes out what was printed. Ends the program if that fails.
void flush_output();

// Reads the options and runs the program; returns its exit code. Refused options, and exceptions such as
// those of a lack of memory, end it with one sentence. Every refusal erases the progress that stands.
int run_program(CLI::App& app, int argc, char** argv, const std::function<void()>& program);

}  // namespace decoder
