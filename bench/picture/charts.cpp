// Draws line charts: see charts.hpp.
#include "charts.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <numbers>
#include <optional>
#include <set>

#include "console.hpp"

namespace vkattn::picture {
namespace {

constexpr double kHead = 54, kFoot = 58, kGap = 30, kAxisName = 22;
constexpr std::size_t kMostMarks = 64;  // marks of a line

/// A length or size in short form: 1024 is 1k.
std::string short_number(double x) {
  constexpr double kKilo = 1024;
  return x >= kKilo && std::fmod(x, kKilo) == 0 ? console::fixed(x / kKilo, 0) + "k" : console::fixed(x, 0);
}

/// Maps the x values of a page's points to places in a frame.
class XAxis {
 public:
  explicit XAxis(const ChartPage& page) : is_logarithmic_(page.is_logarithmic) {
    for (const Chart& chart : page.charts) {
      for (const Series& series : chart.series) {
        for (const Position& point : series.points) values_.insert(point.x);
      }
    }
  }
  [[nodiscard]] const std::set<double>& values() const { return values_; }

  [[nodiscard]] double position(double value, const Box& frame) const {
    constexpr double kBeside = 0.04;  // share of the frame left and right of logarithmic points
    const double first = *values_.begin(), last = *values_.rbegin();
    if (!is_logarithmic_) return frame.x + frame.width * value / last;
    const double share = last > first ? std::log(value / first) / std::log(last / first) : 0.5;
    return frame.x + frame.width * (kBeside + share * (1 - 2 * kBeside));
  }

  [[nodiscard]] std::vector<Tick> ticks(const Box& frame) const {
    if (!is_logarithmic_) return linear_ticks();
    std::vector<Tick> ticks;
    double end = 0;
    for (const double value : values_) {
      const std::string text = short_number(value);
      const double at = position(value, frame), half = text_width(text, kAcrossText) / 2;
      ticks.push_back({value, at - half < end ? "" : text});
      if (at - half >= end) end = at + half + 6;
    }
    return ticks;
  }

 private:
  [[nodiscard]] std::vector<Tick> linear_ticks() const {
    std::vector<Tick> ticks = ticks_to_largest(*values_.rbegin(), false);
    ticks.back().label = console::fixed(ticks.back().value, 0);
    return ticks;
  }
  std::set<double> values_;
  bool is_logarithmic_;
};

/// Maps a chart's values to heights in a frame.
class YAxis {
 public:
  YAxis(const Chart& chart, const Box& frame) : frame_(frame) {
    double low = 0, high = 0;
    const auto take = [&](double value) {
      high = std::max(high, value);
      if (value > 0) low = low == 0 ? value : std::min(low, value);
    };
    for (const Series& series : chart.series) {
      for (const Position& point : series.points) take(point.y);
    }
    for (const Level& level : chart.levels) take(level.value);
    if (chart.is_logarithmic && low > 0) {
      const double top = round_up(high);
      log_.emplace(round_down(std::min(low, top / 2)), top, frame.bottom(), frame.y);
    } else {
      scale_ = RoundScale(chart.top > 0 ? chart.top : high);
    }
  }

  [[nodiscard]] double top() const { return log_ ? log_->high() : scale_.top(); }
  [[nodiscard]] bool is_above(double value) const { return value > top() * (1 + 1e-9); }
  /// 0 lies at the bottom of a logarithmic axis. A value above the axis lies at the top.
  [[nodiscard]] double position(double value) const {
    if (log_) return log_->position(std::clamp(value, log_->low(), log_->high()));
    return frame_.bottom() - frame_.height * std::clamp(value / scale_.top(), 0.0, 1.0);
  }
  [[nodiscard]] std::vector<Tick> ticks() const { return log_ ? log_->ticks() : scale_.ticks(); }

 private:
  Box frame_;
  std::optional<LogAxis> log_;
  RoundScale scale_{1};
};

/// The text below a chart's title: its note, and the number of points that its frame has no room for.
std::string note_of(const Chart& chart, const YAxis& y) {
  std::size_t above = 0;
  double largest = 0;
  for (const Series& series : chart.series) {
    for (const Position& point : series.points) {
      if (!y.is_above(point.y)) continue;
      ++above;
      largest = std::max(largest, point.y);
    }
  }
  if (above == 0) return chart.note;
  return chart.note + (chart.note.empty() ? "" : "  \xc2\xb7  ") +
         "marks at the edge: " + std::to_string(above) + " above " + console::significant(y.top()) +
         ", the largest " + console::significant(largest);
}

void draw_edge_mark(Canvas& canvas, double x, const Box& frame, const Color& color) {
  constexpr double kWide = 4, kHigh = 8;
  canvas.fill(
      std::array<Position, 3>{{{x - kWide, frame.y + kHigh}, {x + kWide, frame.y + kHigh}, {x, frame.y}}},
      color);
}

class ChartDrawing {
 public:
  explicit ChartDrawing(const ChartPage& page)
      : page_(page),
        head_(head_text(page), page.width),
        x_(page),
        across_(std::min(page.across, page.charts.size())) {
    for (const Chart& chart : page.charts) {
      for (const Tick& tick : YAxis(chart, {0, 0, 1, page.frame_height}).ticks())
        left_ = std::max(left_, text_width(tick.label, kUprightText) + 12);
      for (const Level& level : chart.levels)
        right_ = std::max(right_, text_width(level.name, kNoteText) + 10);
    }
    for (const Chart& chart : page.charts) {
      if (!chart.y_axis.empty()) name_ = kAxisName;
    }
  }

  [[nodiscard]] const std::set<double>& values() const { return x_.values(); }
  [[nodiscard]] double height() const {
    const std::size_t down = (page_.charts.size() + across_ - 1) / across_;
    return head_.bottom() + static_cast<double>(down) * slot_height();
  }

  void draw(Canvas& canvas) const {
    head_.draw(canvas);
    for (std::size_t i = 0; i < page_.charts.size(); ++i) draw_chart(canvas, page_.charts[i], frame_of(i));
  }

 private:
  /// Each name once, in the order of appearance. A single series has the name of its chart.
  static HeadText head_text(const ChartPage& page) {
    HeadText text = {page.title, page.caption, "", {}};
    for (const Chart& chart : page.charts) {
      for (const Series& series : chart.series) {
        const auto is_known = [&](const LegendEntry& entry) { return entry.name == series.name; };
        if (!series.points.empty() && std::ranges::none_of(text.legend, is_known))
          text.legend.push_back({series.name, series.look, series.color});
      }
    }
    if (text.legend.size() == 1) text.legend.clear();
    return text;
  }

  [[nodiscard]] double slot_height() const { return kHead + page_.frame_height + kFoot; }

  [[nodiscard]] Box frame_of(std::size_t index) const {
    const double slot = (page_.width - 2 * kPictureMargin - kGap * static_cast<double>(across_ - 1)) /
                        static_cast<double>(across_);
    const auto column = static_cast<double>(index % across_), row = static_cast<double>(index / across_);
    return {kPictureMargin + column * (slot + kGap) + name_ + left_,
            head_.bottom() + row * slot_height() + kHead, slot - name_ - left_ - right_, page_.frame_height};
  }

  void draw_chart(Canvas& canvas, const Chart& chart, const Box& frame) const {
    const YAxis y(chart, frame);
    const double begin = frame.x - left_ - name_, width = frame.right() + right_ - begin;
    canvas.text({begin, frame.y - 32}, fitted(chart.title, kPanelTitleText, width), kPanelTitleText);
    canvas.text({begin, frame.y - 14}, fitted(note_of(chart, y), kNoteText, width), kNoteText);
    draw_axes(canvas, chart, frame, y);
    // Draws expected and noisy series first, so that they lie below the others.
    for (const bool is_beneath : {true, false}) {
      for (const Series& series : chart.series) {
        if ((series.look == Look::kBand || series.look == Look::kThin) == is_beneath)
          draw_series(canvas, series, frame, y);
      }
    }
    for (const Level& level : chart.levels) draw_level(canvas, level, frame, y);
  }

  void draw_axes(Canvas& canvas, const Chart& chart, const Box& frame, const YAxis& y) const {
    for (const Tick& tick : y.ticks()) {
      const double at = y.position(tick.value);
      canvas.line({frame.x, at}, {frame.right(), at}, {tick.label.empty() ? kFaintGrid : kGrid});
      if (!tick.label.empty()) canvas.text({frame.x - 8, at + 4}, tick.label, kUprightText);
    }
    for (const Tick& tick : x_.ticks(frame)) {
      const double at = x_.position(tick.value, frame);
      canvas.line({at, frame.y}, {at, frame.bottom()}, {kGrid});
      if (!tick.label.empty()) canvas.text({at, frame.bottom() + 18}, tick.label, kAcrossText);
    }
    canvas.text({frame.center().x, frame.bottom() + 38}, page_.x_axis, kAcrossText);
    if (!chart.y_axis.empty())
      canvas.text({frame.x - left_ - 6, frame.center().y}, chart.y_axis, kAcrossText, -std::numbers::pi / 2);
    canvas.outline(frame, {kSoftInk});
  }

  static void draw_level(Canvas& canvas, const Level& level, const Box& frame, const YAxis& y) {
    const double at = y.position(level.value);
    canvas.line({frame.x, at}, {frame.right(), at}, {kSeriesColors[1], 1.2});
    canvas.text({frame.right() + 8, at + 4}, level.name, {kNoteText.size, kSeriesColors[1]});
  }

  void draw_series(Canvas& canvas, const Series& series, const Box& frame, const YAxis& y) const {
    const Stroke stroke = stroke_of(series.look, series.color);
    std::vector<Position> places;
    for (const Position& point : series.points)
      places.push_back({x_.position(point.x, frame), y.position(point.y)});
    if (stroke.width > 0 && places.size() > 1) canvas.lines(places, stroke);
    const bool is_marked = series.look == Look::kLine && places.size() <= kMostMarks;
    for (std::size_t i = 0; i < places.size(); ++i) {
      const Position& point = series.points[i];
      if (y.is_above(point.y)) {
        draw_edge_mark(canvas, places[i].x, frame, stroke.color);
      } else if (is_marked || series.look == Look::kDots) {
        const std::string hint =
            is_marked ? series.name + ", " + console::fixed(point.x, 0) + ": " + console::significant(point.y)
                      : "";
        canvas.disc(places[i], is_marked || places.size() == 1 ? kMarkRadius : kDotRadius, stroke.color,
                    hint);
      }
    }
  }

  const ChartPage& page_;
  Head head_;
  XAxis x_;
  std::size_t across_;
  double left_ = 0, right_ = 0,
         name_ = 0;  // room beside a frame for ticks, for names of levels, and for the axis's name
};

}  // namespace

Result<std::string> draw_charts(const ChartPage& page, Format format) {
  if (page.charts.empty() || ChartDrawing(page).values().size() < 2) {
    return Error{
        ErrorCode::kInvalidArgument, {}, "there is nothing to draw: a chart needs at least two points"};
  }
  const ChartDrawing drawing(page);
  return draw_file(format, page.width, drawing.height(), [&](Canvas& canvas) { drawing.draw(canvas); });
}

std::string draw_chart_for_page(const Chart& chart, const std::string& x_axis) {
  ChartPage page;
  page.x_axis = x_axis;
  page.charts.push_back(chart);
  page.width = 560 + 2 * kPictureMargin;
  page.frame_height = 218;
  page.across = 1;
  std::erase_if(page.charts[0].series, [](const Series& series) { return series.points.empty(); });
  if (page.charts[0].series.empty()) return {};
  const ChartDrawing drawing(page);
  return draw_for_page(page.width, drawing.height(), chart.title,
                       [&](Canvas& canvas) { drawing.draw(canvas); });
}

}  // namespace vkattn::picture
