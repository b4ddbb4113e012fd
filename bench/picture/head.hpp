// The part above the data in every picture: title, caption and legend.
#pragma once

#include <string>
#include <vector>

#include "canvas.hpp"

namespace vkattn::picture {

/// How a series is drawn, also in the legend.
enum class Look {
  kLine,   ///< with a mark at each point if there are few points
  kThin,   ///< pale, for noisy data
  kDots,   ///< a dot for each point, no line
  kBand,   ///< pale and wide, below the others, for expected data
  kRoof,   ///< a bound
  kDashed  ///< another bound
};

struct LegendEntry {
  std::string name;
  Look look = Look::kLine;
  std::size_t color = 0;
};

struct HeadText {
  std::string title;    ///< empty for a chart on a page that has a title
  std::string caption;  ///< device, driver, date
  std::string warning;  ///< drawn so that nobody misses it
  std::vector<LegendEntry> legend;
};

class Head {
 public:
  Head(HeadText text, double width);

  /// y from which data may be drawn
  [[nodiscard]] double bottom() const;
  void draw(Canvas& canvas) const;

 private:
  HeadText text_;
  double width_;
  std::vector<std::string> caption_, warning_;  // as lines
  std::vector<Position> places_;                // places of the legend's entries
};

/// The line of a series. Its width is 0 for dots, which have no line.
[[nodiscard]] Stroke stroke_of(Look look, std::size_t color);
inline constexpr double kMarkRadius = 4, kDotRadius = 2.6;

}  // namespace vkattn::picture
