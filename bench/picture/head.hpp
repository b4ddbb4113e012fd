// What stands above the data of every picture: title, caption and legend.
#pragma once

#include <string>
#include <vector>

#include "canvas.hpp"

namespace vkattn::picture {

/// How a series is drawn, and its sample in the legend.
enum class Look {
  kLine,   ///< with a mark at each point where these are few
  kThin,   ///< pale, for what is noisy
  kDots,   ///< a point each, no line
  kBand,   ///< pale and wide, beneath the others: what is expected
  kRoof,   ///< a bound
  kDashed  ///< another bound
};

struct LegendEntry {
  std::string name;
  Look look = Look::kLine;
  std::size_t color = 0;
};

struct HeadText {
  std::string title;    ///< empty: a chart on a page that has a title
  std::string caption;  ///< device, driver, date
  std::string warning;  ///< drawn so that nobody misses it
  std::vector<LegendEntry> legend;
};

class Head {
 public:
  Head(HeadText text, double width);

  /// Where the data may begin.
  [[nodiscard]] double bottom() const;
  void draw(Canvas& canvas) const;

 private:
  HeadText text_;
  double width_;
  std::vector<std::string> caption_, warning_;  // in lines
  std::vector<Position> places_;                // of the legend's entries
};

/// The line of a series; of dots none (its width is 0).
[[nodiscard]] Stroke stroke_of(Look look, std::size_t color);
inline constexpr double kMarkRadius = 4, kDotRadius = 2.6;

}  // namespace vkattn::picture
