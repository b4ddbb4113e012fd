// What pictures are drawn with: lines, areas and text, on an SVG or a PNG. Lengths are in the picture's
// units; y grows downwards.
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

inline constexpr double kPictureWidth = 1200, kPictureMargin = 40;  ///< of whole pictures

enum class Format { kPng, kSvg };

/// By the ending of a file's name, case ignored; none for any other ending.
[[nodiscard]] std::optional<Format> format_of(std::string_view file_name);

/// An error that says what to install, where this build cannot draw because cairo was not there.
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
  /// With a white border where it is not small. A page shows `hint` under the pointer.
  virtual void disc(const Position& center, double radius, const Color& color, const std::string& hint) = 0;
  /// At the left end, center or right end of the text's base line, turned by an angle around it.
  virtual void text(const Position& at, const std::string& text, const TextStyle& style, double angle) = 0;
  /// Rows of so many cells, from the top, fill the box without gaps.
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
/// The width of the widest of them.
[[nodiscard]] double widest(std::span<const std::string> texts, const TextStyle& style);
/// Cut at its end where it is too wide, with an ellipsis.
[[nodiscard]] std::string fitted(std::string text, const TextStyle& style, double width);
/// Lines that are no wider, but for single words; none of an empty text.
[[nodiscard]] std::vector<std::string> wrapped(const std::string& text, const TextStyle& style, double width);

/// The text with what HTML and SVG would take for their own written out.
[[nodiscard]] std::string escaped(std::string_view text);

using Draw = std::function<void(Canvas&)>;

/// The bytes of a white picture of that size with what `draw` draws. A PNG has two pixels to a unit, for fine
/// screens.
[[nodiscard]] Result<std::string> draw_file(Format format, double width, double height, const Draw& draw);

/// For programs without a tool's care: writes what was drawn.
[[nodiscard]] Result<void> write_file(const std::string& path, const Result<std::string>& picture);

/// The end of a caption: which device, and the time of the call.
[[nodiscard]] std::string device_and_date(const std::string& device);

/// Elements of SVG for a page that has page_style(), without a background.
[[nodiscard]] std::string draw_for_page(double width, double height, const std::string& name,
                                        const Draw& draw);

/// A page's style sheet, light or dark as the reader's system is: --paper and --ink, and on dark paper the
/// colours of SVG pictures (kColorPairs) too.
[[nodiscard]] std::string page_style();

/// Parts of draw_file(): one file for each format. Cells are an image in either.
[[nodiscard]] std::string draw_svg(double width, double height, const Draw& draw);
[[nodiscard]] Result<std::string> draw_png(double width, double height, const Draw& draw);
[[nodiscard]] std::string png_of_cells(const Box& box, std::size_t columns, std::span<const Color> colors);

}  // namespace vkattn::picture
