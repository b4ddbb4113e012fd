// Formats the tool's output: see console.hpp.
#include "console.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <utility>

#if defined(_WIN32)
#ifndef NOMINMAX
#define NOMINMAX
#endif
#include <io.h>
#include <windows.h>
#else
#include <sys/ioctl.h>
#include <unistd.h>
#endif

namespace vkattn::console {

std::string fixed(double value, int digits) {
  std::array<char, 400> text{};
  const int length = std::snprintf(text.data(), text.size(), "%.*f", digits, value);
  return {text.data(), static_cast<std::size_t>(std::clamp(length, 0, static_cast<int>(text.size()) - 1))};
}

std::string significant(double value) {
  const double magnitude = std::abs(value);
  // The thresholds are where rounding changes the number of digits, so that 9.996 becomes 10.0 and not 10.00.
  if (magnitude < 0.9995) return fixed(value, 3);
  if (magnitude < 9.995) return fixed(value, 2);
  if (magnitude < 99.95) return fixed(value, 1);
  return fixed(value, 0);
}

std::string duration(double nanoseconds) {
  if (nanoseconds < 999.5) return fixed(nanoseconds, 0) + " ns";
  if (nanoseconds < 999.5e3) return significant(nanoseconds * 1e-3) + " us";
  if (nanoseconds < 999.5e6) return significant(nanoseconds * 1e-6) + " ms";
  if (nanoseconds < 120e9) return significant(nanoseconds * 1e-9) + " s";
  if (nanoseconds < 7200e9) return significant(nanoseconds * 1e-9 / 60) + " min";
  return significant(nanoseconds * 1e-9 / 3600) + " h";
}

std::string bytes(double count) {
  constexpr std::array<std::string_view, 6> kUnits = {"B", "KiB", "MiB", "GiB", "TiB", "PiB"};
  std::size_t unit = 0;
  while (count >= 1024 && unit + 1 < kUnits.size()) {
    count /= 1024;
    ++unit;
  }
  const bool whole = std::abs(count - std::round(count)) < 0.005;
  return (whole ? fixed(count, 0) : significant(count)) + " " + std::string(kUnits[unit]);
}

std::string percent(double share) {
  const double value = share * 100;
  return (value < 9.95 ? fixed(value, 1) : fixed(value, 0)) + " %";
}

std::string count(std::uint64_t number, std::string_view noun) {
  return std::to_string(number) + " " + std::string(noun) + (number == 1 ? "" : "s");
}

namespace {

bool is_terminal(std::FILE* stream) {
#if defined(_WIN32)
  return _isatty(_fileno(stream)) != 0;
#else
  return isatty(fileno(stream)) != 0;
#endif
}

/// The terminal's columns; 0 if the stream is no terminal, or the terminal does not know them.
std::size_t terminal_columns(std::FILE* stream) {
  if (!is_terminal(stream)) return 0;
#if defined(_WIN32)
  CONSOLE_SCREEN_BUFFER_INFO info{};
  if (GetConsoleScreenBufferInfo(GetStdHandle(stream == stdout ? STD_OUTPUT_HANDLE : STD_ERROR_HANDLE),
                                 &info) == 0)
    return 0;
  return static_cast<std::size_t>(info.srWindow.Right - info.srWindow.Left + 1);
#else
  winsize size{};
  return ioctl(fileno(stream), TIOCGWINSZ, &size) == 0 ? size.ws_col : 0;
#endif
}

}  // namespace

std::size_t line_width() {
  constexpr std::size_t kPlain = 80;
  const std::size_t columns = terminal_columns(stdout);
  return columns == 0 ? kPlain : std::clamp<std::size_t>(columns, 72, 160);
}

std::string colored(std::string_view text, Color color) {
  const char* const none = std::getenv("NO_COLOR");
  const char* const terminal = std::getenv("TERM");
  const bool is_dumb = terminal == nullptr || std::string_view(terminal) == "dumb";
  if (!is_terminal(stdout) || (none != nullptr && *none != '\0') || is_dumb) return std::string(text);
  const char* const code = color == Color::kRed ? "31" : color == Color::kGreen ? "32" : "33";
  return "\x1b[" + std::string(code) + "m" + std::string(text) + "\x1b[0m";
}

std::string date_text() {
  const std::time_t now = std::time(nullptr);
  const std::tm* const utc = std::gmtime(&now);  // std::gmtime is safe here, because only one thread calls it
  std::array<char, 64> text{};
  if (utc == nullptr || std::strftime(text.data(), text.size(), "%Y-%m-%d %H:%M UTC", utc) == 0) return {};
  return text.data();
}

std::size_t display_width(std::string_view text) {
  return static_cast<std::size_t>(std::count_if(
      text.begin(), text.end(), [](char c) { return (static_cast<unsigned char>(c) & 0xc0U) != 0x80U; }));
}

std::string pad_right(std::string_view text, std::size_t width) {
  const std::size_t used = display_width(text);
  return std::string(text) + std::string(used < width ? width - used : 0, ' ');
}

std::string pad_left(std::string_view text, std::size_t width) {
  const std::size_t used = display_width(text);
  return std::string(used < width ? width - used : 0, ' ') + std::string(text);
}

std::vector<std::string> wrap(std::string_view text, std::size_t width) {
  std::vector<std::string> lines(1);
  while (!text.empty()) {
    const std::size_t end = std::min(text.find(' '), text.size());
    const std::string_view word = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    if (word.empty()) continue;
    if (!lines.back().empty() && display_width(lines.back()) + 1 + display_width(word) > width)
      lines.emplace_back();
    if (!lines.back().empty()) lines.back() += ' ';
    lines.back() += word;
  }
  return lines;
}

namespace {

/// Puts the label before the first line, and spaces before the others.
std::string label_lines(std::string_view label, const std::vector<std::string>& lines,
                        std::size_t label_width, std::size_t indent) {
  std::string result;
  for (const std::string& line : lines) {
    const std::string start = result.empty() ? pad_right(label, label_width) : std::string(label_width, ' ');
    result += std::string(indent, ' ') + start + line + "\n";
  }
  return result;
}

std::size_t room(std::size_t width, std::size_t margin) {
  return width > margin ? width - margin : 1;
}

}  // namespace

std::string labelled(std::string_view label, std::string_view text, std::size_t label_width,
                     std::size_t indent, std::size_t width) {
  return label_lines(label, wrap(text, room(width, indent + label_width)), label_width, indent);
}

std::string labelled_list(std::string_view label, const std::vector<std::string>& entries,
                          std::size_t label_width, std::size_t indent, std::size_t width) {
  std::vector<std::string> lines(1);
  for (std::size_t i = 0; i < entries.size(); ++i) {
    const std::string entry = entries[i] + (i + 1 < entries.size() ? "," : "");
    const std::size_t used = display_width(lines.back()) + 1 + display_width(entry);
    if (!lines.back().empty() && used > room(width, indent + label_width)) lines.emplace_back();
    lines.back() += (lines.back().empty() ? "" : " ") + entry;
  }
  return label_lines(label, lines, label_width, indent);
}

std::string printable(std::string_view text) {
  std::string result(text);
  for (char& c : result) {
    if (static_cast<unsigned char>(c) < 0x20U || c == 0x7f) c = '?';
  }
  return result;
}

std::string shell_word(std::string_view word) {
  constexpr std::string_view kPlain =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_=./:,+@%";
  if (!word.empty() && word.find_first_not_of(kPlain) == std::string_view::npos) return std::string(word);
  std::string quoted = "'";
  for (const char c : word) quoted += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return quoted + "'";
}

bool stdout_is_terminal() {
  return is_terminal(stdout);
}

bool stderr_is_terminal() {
  return is_terminal(stderr);
}

namespace {

bool progress_stands = false;  // on the terminal of standard error

}  // namespace

void ProgressBar::update(double share, std::string_view what) {
  const auto now = std::chrono::steady_clock::now();
  if (!stderr_is_terminal()) {
    if (line_seconds_.count() == 0 || now - last_draw_ < line_seconds_) return;
    std::fprintf(stderr, "%s\n", printable(what).c_str());
    last_draw_ = now;
    return;
  }
  if (what == drawn_text_ && is_just_drawn()) return;
  constexpr std::size_t kBarWidth = 20;
  const double bounded = std::clamp(std::isfinite(share) ? share : 0.0, 0.0, 1.0);
  const auto filled = static_cast<std::size_t>(std::lround(bounded * static_cast<double>(kBarWidth)));
  const std::string bar = std::string(filled, '#') + std::string(kBarWidth - filled, '.');
  const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(now - start_).count();
  std::array<char, 64> numbers{};
  std::snprintf(numbers.data(), numbers.size(), " %3.0f %%  %lld:%02lld  ", bounded * 100,
                static_cast<long long>(seconds / 60), static_cast<long long>(seconds % 60));
  std::string text = "[" + bar + "]" + numbers.data() + printable(what);
  // A line that wraps in the terminal could not be overwritten.
  const std::size_t columns = terminal_columns(stderr);
  text.resize(std::min(text.size(), (columns == 0 ? 80 : columns) - 1));
  std::fprintf(stderr, "\r%s\x1b[K", text.c_str());
  std::fflush(stderr);
  progress_stands = true;
  drawn_text_ = what;
  last_draw_ = now;
}

void ProgressBar::update_step(double share, std::string_view what) {
  if (!is_just_drawn()) update(share, what);
}

bool ProgressBar::is_just_drawn() const {
  return progress_stands && std::chrono::steady_clock::now() - last_draw_ < std::chrono::milliseconds(100);
}

void ProgressBar::clear() {
  if (!std::exchange(progress_stands, false)) return;
  std::fputs("\r\x1b[K", stderr);
  std::fflush(stderr);
}

}  // namespace vkattn::console
