// What pictures are drawn with: lines, areas and text on a PNG or SVG, by cairo.
#pragma once

#include <vkattn/result.hpp>

#include <cairo.h>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "plot_colors.hpp"
#include "plot_format.hpp"
#include "plot_layout.hpp"

namespace vkattn::bench {

inline constexpr double kPictureWidth = 1200, kPictureMargin = 40;  ///< of whole pictures, in pixels

struct Stroke {
  Color color;
  double width = 1;
  bool dashed = false;
};

enum class TextAlign { kLeft, kCenter, kRight };

struct TextStyle {
  double size = 12;
  Color color;
  bool bold = false;
  TextAlign align = TextAlign::kLeft;
  bool halo = false;  ///< white around the letters, for text over lines
};

/// Draws on a cairo context that it does not own.
class Canvas {
 public:
  explicit Canvas(cairo_t* context) : context_(context) {}

  void fill(std::span<const PlotPosition> corners, const Color& color) const;
  void fill(const PlotBox& box, const Color& color) const;
  /// Rows of so many cells, from the top, fill the box without gaps.
  void cells(const PlotBox& box, std::size_t columns, std::span<const Color> colors) const;
  void line(const PlotLine& line, const Stroke& stroke) const;
  void lines(std::span<const PlotPosition> corners, const Stroke& stroke) const;
  void outline(const PlotBox& box, const Stroke& stroke) const;
  void disc(const PlotPosition& center, double radius, const Color& color, const Stroke& border) const;
  /// At the left end, center or right end of the text's base line, turned by an angle around it.
  void text(const PlotPosition& at, const std::string& text, const TextStyle& style, double angle = 0) const;
  [[nodiscard]] double text_width(const std::string& text, const TextStyle& style) const;
  /// Cut at its end where it is too wide, with an ellipsis.
  [[nodiscard]] std::string fitted(std::string text, const TextStyle& style, double width) const;
  /// What `draw` draws stays inside the box.
  void clipped(const PlotBox& box, const std::function<void()>& draw) const;

 private:
  void set(const Color& color) const;
  void set(const Stroke& stroke) const;
  void set_font(const TextStyle& style) const;
  cairo_t* context_;
};

/// The width of the widest of them.
[[nodiscard]] double widest(std::span<const std::string> texts, const TextStyle& style);

/// Lines that are no wider, but for single words; none of an empty text.
[[nodiscard]] std::vector<std::string> wrapped(const std::string& text, const TextStyle& style, double width);

/// The bytes of a white picture of that size with what `draw` draws. A PNG has two pixels to a unit, for fine
/// screens.
[[nodiscard]] Result<std::string> draw_file(PlotFormat format, double width, double height,
                                            const std::function<void(const Canvas&)>& draw);

}  // namespace vkattn::bench
