// Draws lines, areas and text on an SVG or a PNG. Lengths are in units of the picture. y grows downwards.
#pragma once

#include <vkattn/result.hpp>

#include <cstddef>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "axes.hpp"
#include "colors.hpp"

namespace vkattn::picture {

inline constexpr double kPictureWidth = 1200, kPictureMargin = 40;  ///< of a whole picture

enum class Format { kPng, kSvg };

/// The format that a file's name ends with, case ignored. Nothing for any other ending.
[[nodiscard]] std::optional<Format> format_of(std::string_view file_name);

/// An error that says what to install, if this build cannot draw because cairo was not found.
[[nodiscard]] Result<void> check_support();

struct Stroke {
  Color color;
  double width = 1;
  bool dashed = false;
};

inline constexpr double kLeastBorderedRadius = 3;

enum class TextAlign { kLeft, kCenter, kRight };

struct TextStyle {
  double size = 12;
  Color color = kInk;
  bool bold = false;
  TextAlign align = TextAlign::kLeft;
};

inline constexpr TextStyle kTitleText = {21, kInk, true}, kPanelTitleText = {14, kInk, true};
inline constexpr TextStyle kCaptionText = {13, kSoftInk}, kNoteText = {11.5, kSoftInk};
inline constexpr TextStyle kAcrossText = {12, kSoftInk, false, TextAlign::kCenter};
inline constexpr TextStyle kUprightText = {12, kSoftInk, false, TextAlign::kRight};

class Canvas {
 public:
  Canvas() = default;
  Canvas(const Canvas&) = delete;
  Canvas& operator=(const Canvas&) = delete;
  virtual ~Canvas() = default;

  virtual void fill(std::span<const Position> corners, const Color& color) = 0;
  virtual void lines(std::span<const Position> corners, const Stroke& stroke) = 0;
  /// Draws a disc, with a white border unless it is small. A page shows `hint` under the pointer.
  virtual void disc(const Position& center, double radius, const Color& color, const std::string& hint) = 0;
  /// Places the left end, the center or the right end of the text's base line, and turns the text around that
  /// point.
  virtual void text(const Position& at, const std::string& text, const TextStyle& style, double angle) = 0;
  /// Fills the box without gaps, with rows of `columns` cells, from the top.
  virtual void cells(const Box& box, std::size_t columns, std::span<const Color> colors) = 0;

  void fill(const Box& box, const Color& color);
  void line(const Position& from, const Position& to, const Stroke& stroke);
  void outline(const Box& box, const Stroke& stroke);
  void disc(const Position& center, double radius, const Color& color) { disc(center, radius, color, ""); }
  void text(const Position& at, const std::string& text, const TextStyle& style) {
    this->text(at, text, style, 0);
  }
};

[[nodiscard]] double text_width(const std::string& text, const TextStyle& style);
/// The width of the widest of the texts.
[[nodiscard]] double widest(std::span<const std::string> texts, const TextStyle& style);
/// The text, cut at its end and with an ellipsis if it is too wide.
[[nodiscard]] std::string fitted(std::string text, const TextStyle& style, double width);
/// Lines that are no wider than `width`, except a single wider word. No lines for an empty text.
[[nodiscard]] std::vector<std::string> wrapped(const std::string& text, const TextStyle& style, double width);

/// The characters of the texts for which the font of a PNG has no glyph, each once. An SVG has its viewer's
/// fonts.
[[nodiscard]] std::string missing_glyphs(std::span<const std::string> texts);

/// The text with characters replaced that HTML and SVG would take for markup.
[[nodiscard]] std::string escaped(std::string_view text);

using Draw = std::function<void(Canvas&)>;

/// The bytes of a white picture of that size, with what `draw` draws. A PNG has two pixels for each unit, for
/// fine screens.
[[nodiscard]] Result<std::string> draw_file(Format format, double width, double height, const Draw& draw);

/// For programs that need no atomic files: writes the picture.
[[nodiscard]] Result<void> write_file(const std::string& path, const Result<std::string>& picture);

/// The end of a caption: the device, and the time of the call.
[[nodiscard]] std::string device_and_date(const std::string& device);

/// Elements of SVG for a page that has page_style(), without a background.
[[nodiscard]] std::string draw_for_page(double width, double height, const std::string& name,
                                        const Draw& draw);

/// A page's style sheet, light or dark as the reader's system is: --paper and --ink, and on dark paper the
/// colours of SVG pictures (kColorPairs) too.
[[nodiscard]] std::string page_style();

/// The parts of draw_file(), in one file for each format. Both draw cells as an image.
[[nodiscard]] std::string draw_svg(double width, double height, const Draw& draw);
[[nodiscard]] Result<std::string> draw_png(double width, double height, const Draw& draw);
[[nodiscard]] std::string png_of_cells(const Box& box, std::size_t columns, std::span<const Color> colors);

}  // namespace vkattn::picture
