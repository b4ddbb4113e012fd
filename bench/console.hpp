// Formats what the tool prints: numbers with units, aligned columns, a progress bar. It knows no Vulkan.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace vkattn::console {

/// `value` with `digits` digits after the point.
[[nodiscard]] std::string fixed(double value, int digits);
/// Three significant digits without an exponent: 0.123, 1.23, 12.3, 123, 1234.
[[nodiscard]] std::string significant(double value);
/// 812 ns, 1.23 us, 45.6 ms, 7.89 s, 12.3 min.
[[nodiscard]] std::string duration(double nanoseconds);
/// 96 B, 32 KiB, 1.5 GiB.
[[nodiscard]] std::string bytes(double count);
/// 12.3 %, 0.4 %, 140 %.
[[nodiscard]] std::string percent(double share);
/// "1 run", "3 runs".
[[nodiscard]] std::string count(std::uint64_t number, std::string_view noun);

/// Columns of a line of standard output: those of the terminal, from 72 to 160; 80 if it is no terminal.
[[nodiscard]] std::size_t line_width();
/// The text in the colour, if standard output is a terminal and NO_COLOR (no-color.org) is not set.
enum class Color { kRed, kGreen, kYellow };
[[nodiscard]] std::string colored(std::string_view text, Color color);
/// The time of the call: "2026-01-31 12:00 UTC".
[[nodiscard]] std::string date_text();

/// Columns that the text takes on a terminal. It counts code points and knows no wide characters.
[[nodiscard]] std::size_t display_width(std::string_view text);
/// The text with spaces after it, up to `width` columns.
[[nodiscard]] std::string pad_right(std::string_view text, std::size_t width);
/// The text with spaces before it, up to `width` columns.
[[nodiscard]] std::string pad_left(std::string_view text, std::size_t width);
/// Breaks the text at spaces so that no line is longer than `width`, except a single longer word.
[[nodiscard]] std::vector<std::string> wrap(std::string_view text, std::size_t width);
/// A label in a column of `label_width`, and the text beside it, wrapped so that lines have at most `width`
/// columns.
[[nodiscard]] std::string labelled(std::string_view label, std::string_view text, std::size_t label_width,
                                   std::size_t indent = 0, std::size_t width = line_width());
/// Does the same for entries joined by commas. Lines break between entries only.
[[nodiscard]] std::string labelled_list(std::string_view label, const std::vector<std::string>& entries,
                                        std::size_t label_width, std::size_t indent = 0,
                                        std::size_t width = line_width());
/// Replaces control characters (in file names and driver strings) by '?', so that they cannot move the
/// cursor.
[[nodiscard]] std::string printable(std::string_view text);

/// A word as a shell needs it: quoted if necessary.
[[nodiscard]] std::string shell_word(std::string_view word);

[[nodiscard]] bool stdout_is_terminal();
[[nodiscard]] bool stderr_is_terminal();

/// One line on standard error that is overwritten again and again, with the time since the bar was made. The
/// destructor erases the line.
class ProgressBar {
 public:
  /// If standard error is no terminal, its text is printed every `line_seconds`, or never if that is 0.
  explicit ProgressBar(int line_seconds = 0) : line_seconds_(line_seconds) {}
  ProgressBar(const ProgressBar&) = delete;
  ProgressBar& operator=(const ProgressBar&) = delete;
  ~ProgressBar() { clear(); }

  /// Shows that `share` of the whole is done, 0 to 1. A text that stands is drawn at most ten times a second.
  void update(double share, std::string_view what);
  /// Shows the progress of many steps, each of which changes the text: it too is drawn ten times a second.
  void update_step(double share, std::string_view what);
  /// Erases the line that stands, if there is one, so that something else can be printed.
  static void clear();

 private:
  [[nodiscard]] bool is_just_drawn() const;

  std::chrono::seconds line_seconds_;
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
  std::string drawn_text_;
  std::chrono::steady_clock::time_point last_draw_ = start_;
};

}  // namespace vkattn::console
