// The terminal: progress on one line, interrupts, refusals, and options with numbers.
#pragma once

#include <CLI/CLI.hpp>

#include <chrono>
#include <cstdint>
#include <iomanip>
#include <sstream>
#include <string>
#include <type_traits>

namespace decoder {

using Clock = std::chrono::steady_clock;
[[nodiscard]] double seconds_since(Clock::time_point begin);

// Whether a person looks at the stream (1: stdout, 2: stderr).
[[nodiscard]] bool is_terminal(int stream);

// Prints the sentence and ends the program with 1.
[[noreturn]] void refuse(const std::string& sentence);

// At a terminal, one line that is drawn again and again, and removed; elsewhere a line every ten seconds.
class ProgressLine {
 public:
  ~ProgressLine() { remove(); }
  // Shows the text if it is time for another line. `share` fills a bar; below 0 there is none.
  void tell(const std::string& text, double share = -1);
  void show(const std::string& text, double share);
  void remove();

 private:
  bool is_terminal_ = is_terminal(2), shown_ = false;
  Clock::time_point shown_at_ = Clock::now();
};

// While it lives, Ctrl-C only sets a flag.
class Interrupts {
 public:
  Interrupts();
  Interrupts(const Interrupts&) = delete;
  Interrupts& operator=(const Interrupts&) = delete;
  ~Interrupts();
  [[nodiscard]] static bool came();

 private:
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

// One sentence, in this project's words if the library of options has only its own.
[[nodiscard]] std::string failure_text(const CLI::App* app, const CLI::Error& error);

}  // namespace decoder
