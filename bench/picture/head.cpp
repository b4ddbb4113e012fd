// See head.hpp.
#include "head.hpp"

#include <utility>

namespace vkattn::picture {
namespace {

constexpr double kTitleLine = 38, kCaptionLine = 20, kLegendLine = 22, kAbove = 14;
constexpr double kSample = 26, kBetween = 28;
constexpr TextStyle kWarningText = {13, kSeriesColors[1], true}, kLegendText = {13, kInk};

}  // namespace

Stroke stroke_of(Look look, std::size_t color) {
  constexpr Color kBand = {0.82, 0.84, 0.87}, kThin = {0.70, 0.80, 0.90};
  switch (look) {
    case Look::kLine:
      return {series_color(color), 2};
    case Look::kThin:
      return {kThin, 1};
    case Look::kDots:
      return {series_color(color), 0};
    case Look::kBand:
      return {kBand, 8};
    case Look::kRoof:
      return {kRoofInk, 1.8};
    case Look::kDashed:
      return {kRoofInk, 1.4, true};
  }
  return {};
}

Head::Head(HeadText text, double width) : text_(std::move(text)), width_(width - 2 * kPictureMargin) {
  if (!text_.title.empty()) {
    caption_ = wrapped(text_.caption, kCaptionText, width_);
    warning_ = wrapped(text_.warning, kWarningText, width_);
  }
  Position place = {0, 0};
  for (const LegendEntry& entry : text_.legend) {
    const double taken = kSample + 8 + text_width(entry.name, kLegendText);
    if (place.x > 0 && place.x + taken > width_) place = {0, place.y + kLegendLine};
    places_.push_back(place);
    place.x += taken + kBetween;
  }
  const double top = bottom() - (places_.empty() ? 0 : places_.back().y) - kAbove;
  for (Position& each : places_) each = {each.x + kPictureMargin, each.y + top};
}

double Head::bottom() const {
  const double title = text_.title.empty() ? 0 : kTitleLine + 6;
  const double lines = kCaptionLine * static_cast<double>(caption_.size() + warning_.size());
  const double rows = places_.empty() ? 0 : places_.back().y - places_.front().y + kLegendLine + kAbove;
  return title + lines + rows;
}

void Head::draw(Canvas& canvas) const {
  double y = kTitleLine;
  if (!text_.title.empty())
    canvas.text({kPictureMargin, y}, fitted(text_.title, kTitleText, width_), kTitleText);
  y += 4;
  for (const std::string& line : caption_)
    canvas.text({kPictureMargin, y += kCaptionLine}, line, kCaptionText);
  for (const std::string& line : warning_)
    canvas.text({kPictureMargin, y += kCaptionLine}, line, kWarningText);
  for (std::size_t i = 0; i < places_.size(); ++i) {
    const LegendEntry& entry = text_.legend[i];
    const Position at = places_[i];
    const Stroke stroke = stroke_of(entry.look, entry.color);
    if (stroke.width > 0) canvas.line({at.x, at.y - 4}, {at.x + kSample, at.y - 4}, stroke);
    if (entry.look == Look::kLine || entry.look == Look::kDots)
      canvas.disc({at.x + kSample / 2, at.y - 4}, kMarkRadius, stroke.color);
    canvas.text({at.x + kSample + 8, at.y}, entry.name, kLegendText);
  }
}

}  // namespace vkattn::picture
