// Drawing of a plot: the chart above, a table of its points beneath.
#include "plot.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <numbers>
#include <vector>

#include "console.hpp"
#include "plot_canvas.hpp"
#include "plot_colors.hpp"

namespace vkattn::bench {
namespace {

constexpr PlotBox kFrame = {86, 84, 1082, 540};
constexpr double kTableTop = 704;
constexpr double kTableRow = 24;
constexpr double kTableLeft = 40, kTableRight = 1168;
constexpr double kBottomMargin = 22;
/// Columns of the table: left edges of words, right edges of numbers.
constexpr double kNameColumn = kTableLeft + 30, kProblemColumn = 284, kKernelColumn = 662;
constexpr double kMedianColumn = 790, kIntensityColumn = 874, kRateColumn = 956;
constexpr double kShareColumn = 984, kLimitColumn = 1084;
constexpr double kMarkerRadius = 5;
constexpr double kDiscRadius = 8.5;  // behind a number of the table

constexpr Color kUnderRoof = {0.955, 0.97, 0.99};
constexpr Color kRoofInk = {0.20, 0.27, 0.38};

constexpr TextStyle kLabelText = {12, kInk, false, TextAlign::kLeft, true};
constexpr TextStyle kRoofText = {12, kRoofInk, true, TextAlign::kLeft, true};

const Color& kernel_color(std::size_t index) {
  return kSeriesColors.at(std::min(index, kSeriesColors.size() - 1));
}

struct Unit {
  double size = 1e9;
  const char* name = "GFLOP/s";
};

std::string rate_text(double rate, const Unit& unit) {
  return console::significant(rate / unit.size) + " " + unit.name;
}

std::string memory_text(double rate) {
  return rate >= 1e12 ? console::significant(rate * 1e-12) + " TB/s"
                      : console::significant(rate * 1e-9) + " GB/s";
}

/// Draws one plot.
class Plot {
 public:
  Plot(const Canvas& canvas, const PlotData& data)
      : canvas_(canvas), data_(data), unit_(unit_of(data)), x_(x_axis(data)), y_(y_axis(data)) {
    for (const PlotPoint& point : data.points)
      anchors_.push_back(at(point.intensity, point.flops_per_second));
  }

  void draw() {
    draw_captions();
    canvas_.clipped(kFrame, [&] { draw_area(); });
    draw_grid();
    canvas_.clipped(kFrame, [&] { draw_roofs(); });
    canvas_.outline(kFrame, {kSoftInk, 1, false});
    draw_kernel_key();
    label_roofs();
    draw_points();
    draw_table();
  }

 private:
  static Unit unit_of(const PlotData& data) {
    const bool tera = !data.compute.empty() && data.compute.front().rate >= 2e12;
    return tera ? Unit{1e12, "TFLOP/s"} : Unit{};
  }

  /// From left of the leftmost point and roof edge to right of the rightmost.
  static LogAxis x_axis(const PlotData& data) {
    double low = data.points.front().intensity, high = low;
    for (const PlotPoint& point : data.points) {
      low = std::min(low, point.intensity);
      high = std::max(high, point.intensity);
    }
    if (!data.compute.empty() && !data.memory.empty()) {
      const double edge = data.compute.front().rate / data.memory.front().rate;
      low = std::min(low, edge);
      high = std::max(high, edge);
    }
    return {low / 3.5, high * 3.5, kFrame.x, kFrame.right()};
  }

  static LogAxis y_axis(const PlotData& data) {
    double low = data.points.front().flops_per_second, high = low;
    for (const PlotPoint& point : data.points) {
      low = std::min(low, point.flops_per_second);
      high = std::max(high, point.flops_per_second);
    }
    for (const PlotRoof& roof : data.compute) {
      low = std::min(low, roof.rate);
      high = std::max(high, roof.rate);
    }
    return {low / 2.5, high * 2.2, kFrame.bottom(), kFrame.y};
  }

  [[nodiscard]] PlotPosition at(double intensity, double rate) const {
    return {x_.position(intensity), y_.position(rate)};
  }

  void draw_captions() const {
    const TextStyle title = {21, kInk, true};
    const TextStyle caption = {13, kSoftInk};
    const double width = kTableRight - kTableLeft;
    canvas_.text({kTableLeft, 38}, canvas_.fitted(data_.title, title, width), title);
    canvas_.text({kTableLeft, 62}, canvas_.fitted(data_.caption, caption, width), caption);
  }

  /// What the roofs allow.
  void draw_area() const {
    if (data_.compute.empty() || data_.memory.empty()) return;
    const double flat = data_.compute.front().rate;
    const double edge = flat / data_.memory.back().rate;
    const double left = data_.memory.back().rate * x_.low();
    const std::array corners = {
        PlotPosition{kFrame.x, y_.position(std::min(left, flat))}, at(std::max(edge, x_.low()), flat),
        PlotPosition{kFrame.right(), y_.position(flat)}, PlotPosition{kFrame.right(), kFrame.bottom()},
        PlotPosition{kFrame.x, kFrame.bottom()}};
    canvas_.fill(corners, kUnderRoof);
  }

  void draw_grid() const {
    const TextStyle across = {12, kSoftInk, false, TextAlign::kCenter};
    const TextStyle upright = {12, kSoftInk, false, TextAlign::kRight};
    const TextStyle title = {13, kInk, false, TextAlign::kCenter};
    for (const PlotTick& tick : x_.ticks()) {
      const double x = x_.position(tick.value);
      canvas_.line({{x, kFrame.y}, {x, kFrame.bottom()}},
                   {tick.label.empty() ? kFaintGrid : kGrid, 1, false});
      canvas_.text({x, kFrame.bottom() + 19}, tick.label, across);
    }
    for (const PlotTick& tick :
         LogAxis(y_.low() / unit_.size, y_.high() / unit_.size, kFrame.bottom(), kFrame.y).ticks()) {
      const double y = y_.position(tick.value * unit_.size);
      canvas_.line({{kFrame.x, y}, {kFrame.right(), y}}, {tick.label.empty() ? kFaintGrid : kGrid, 1, false});
      canvas_.text({kFrame.x - 8, y + 4}, tick.label, upright);
    }
    canvas_.text({kFrame.center().x, kFrame.bottom() + 43},
                 "arithmetic intensity: visible FLOP for each byte that has to move", title);
    canvas_.text({34, kFrame.center().y}, unit_.name, title, -std::numbers::pi / 2);
  }

  /// The part of a slope inside the frame, below the highest flat roof.
  [[nodiscard]] PlotLine slope_line(const PlotRoof& roof) const {
    const double top = data_.compute.empty() ? y_.high() : data_.compute.front().rate;
    const double from = std::max(x_.low(), y_.low() / roof.rate);
    const double to = std::min(x_.high(), top / roof.rate);
    return {at(from, from * roof.rate), at(to, to * roof.rate)};
  }

  /// From where the fastest memory reaches it.
  [[nodiscard]] PlotLine flat_line(const PlotRoof& roof) const {
    const double from = data_.memory.empty() ? x_.low() : roof.rate / data_.memory.back().rate;
    return {at(std::max(from, x_.low()), roof.rate), at(x_.high(), roof.rate)};
  }

  void draw_roofs() {
    for (std::size_t i = 0; i < data_.memory.size(); ++i) {
      const PlotLine line = slope_line(data_.memory[i]);
      if (line.to.x <= line.from.x) continue;
      canvas_.line(line, {kRoofInk, 1.8, i != 0});
      lines_.push_back(line);
    }
    for (std::size_t i = 0; i < data_.compute.size(); ++i) {
      const PlotLine line = flat_line(data_.compute[i]);
      canvas_.line(line, {kRoofInk, i == 0 ? 1.8 : 1.2, i != 0});
      lines_.push_back(line);
    }
  }

  void label_roofs() {
    for (const PlotRoof& roof : data_.compute) label_flat(roof);
    for (const PlotRoof& roof : data_.memory) {
      if (!label_slope(roof, true)) label_slope(roof, false);
    }
  }

  [[nodiscard]] bool is_free(const PlotBox& box) const {
    const auto taken = [&](const PlotBox& other) { return other.overlaps(box); };
    const auto covered = [&](const PlotPosition& anchor) {
      return box.overlaps(
          {anchor.x - kMarkerRadius, anchor.y - kMarkerRadius, 2 * kMarkerRadius, 2 * kMarkerRadius});
    };
    return kFrame.contains(box) && std::none_of(taken_.begin(), taken_.end(), taken) &&
           std::none_of(anchors_.begin(), anchors_.end(), covered);
  }

  [[nodiscard]] bool is_off_roofs(const PlotBox& box) const {
    return std::none_of(lines_.begin(), lines_.end(),
                        [&](const PlotLine& line) { return line.crosses(box); });
  }

  /// At the right end, above its line, or below it, or further left: the first place that is free.
  void label_flat(const PlotRoof& roof) {
    const std::string text = roof.name + "  " + rate_text(roof.rate, unit_);
    const double width = canvas_.text_width(text, kRoofText);
    const double y = y_.position(roof.rate);
    constexpr double kHeight = 15;
    for (double right = kFrame.right() - 8; right - width > kFrame.x; right -= 20) {
      for (const double top : {y - kHeight - 3, y + 4}) {
        const PlotBox box = {right - width, top, width, kHeight};
        if (!is_free(box) || !is_off_roofs(box)) continue;
        canvas_.text({box.x, box.y + 12}, text, kRoofText);
        taken_.push_back(box);
        return;
      }
    }
  }

  /// Along its line, above or below it, where no point is in the way; false where there is no such place.
  bool label_slope(const PlotRoof& roof, bool off_roofs) {
    const PlotLine line = slope_line(roof);
    const double run = line.to.x - line.from.x, rise = line.to.y - line.from.y;
    const double length = std::hypot(run, rise);
    const std::string text = roof.name + "  " + memory_text(roof.rate);
    const double width = canvas_.text_width(text, kRoofText);
    if (run <= 0) return false;
    constexpr double kAbove = -7, kBelow = 16;  // from the line to the text's base line
    for (const double share : {0.5, 0.4, 0.6, 0.3, 0.7, 0.2, 0.8, 0.1, 0.9, 0.0, 1.0}) {
      for (const double off : {kAbove, kBelow}) {
        const double start = (length - width) * share;
        const auto point = [&](double far, double away) {
          return PlotPosition{line.from.x + (run * far - rise * away) / length,
                              line.from.y + (rise * far + run * away) / length};
        };
        const std::vector<PlotBox> pieces =
            pieces_along(width, [&](double far) { return point(start + far, off - 4); });
        const auto usable = [&](const PlotBox& piece) {
          return is_free(piece) && (!off_roofs || is_off_roofs(piece));
        };
        if (start < 0 || !std::all_of(pieces.begin(), pieces.end(), usable)) continue;
        canvas_.text(point(start, off), text, kRoofText, std::atan2(rise, run));
        taken_.insert(taken_.end(), pieces.begin(), pieces.end());
        return true;
      }
    }
    return false;
  }

  /// Turned text as a row of small boxes.
  template <class PointAt>
  static std::vector<PlotBox> pieces_along(double width, const PointAt& point_at) {
    constexpr double kPiece = 14;
    std::vector<PlotBox> pieces;
    for (double far = 0; far < width + kPiece / 2; far += kPiece / 2) {
      const PlotPosition center = point_at(std::min(far, width));
      pieces.push_back({center.x - kPiece / 2, center.y - kPiece / 2, kPiece, kPiece});
    }
    return pieces;
  }

  /// Which colour is which kernel, where there is more than one.
  void draw_kernel_key() {
    if (data_.kernels.size() < 2) return;
    double x = kFrame.x + 16;
    const double y = kFrame.y + 20;
    for (std::size_t i = 0; i < data_.kernels.size(); ++i) {
      canvas_.disc({x, y}, kMarkerRadius, kernel_color(i), {kWhite, 1, false});
      canvas_.text({x + 10, y + 4}, data_.kernels[i], kLabelText);
      x += canvas_.text_width(data_.kernels[i], kLabelText) + 30;
    }
    taken_.push_back({kFrame.x, kFrame.y, x - kFrame.x - 10, 34});
  }

  /// A number, and the name where that few points leave room for names.
  [[nodiscard]] std::string label_text(std::size_t index) const {
    constexpr std::size_t kMostNames = 20;
    const PlotPoint& point = data_.points[index];
    if (data_.points.size() == 1) return point.name;
    return std::to_string(point.number) + (data_.points.size() <= kMostNames ? "  " + point.name : "");
  }

  void draw_points() const {
    std::vector<PlotLabel> labels;
    for (std::size_t i = 0; i < anchors_.size(); ++i) {
      const std::string number = std::to_string(data_.points[i].number);
      constexpr double kHeight = 14;
      labels.push_back({anchors_[i], canvas_.text_width(label_text(i), kLabelText), kHeight,
                        canvas_.text_width(number, kLabelText)});
    }
    const PlotBox inner = {kFrame.x + 4, kFrame.y + 4, kFrame.width - 8, kFrame.height - 8};
    const std::vector<PlacedLabel> placed = place_labels(labels, {inner, taken_, lines_, kMarkerRadius + 1});
    for (const PlacedLabel& label : placed) {
      if (label.placed && label.leader) canvas_.line(label.line, {kSoftInk, 0.8, false});
    }
    for (std::size_t i = 0; i < anchors_.size(); ++i) {
      canvas_.disc(anchors_[i], kMarkerRadius, kernel_color(data_.points[i].kernel_index),
                   {kWhite, 1.2, false});
    }
    for (std::size_t i = 0; i < anchors_.size(); ++i) {
      if (!placed[i].placed) continue;
      const std::string text = placed[i].shortened ? std::to_string(data_.points[i].number) : label_text(i);
      canvas_.text({placed[i].box.x, placed[i].box.y + 11}, text, kLabelText);
    }
  }

  void draw_table() const {
    double y = kTableTop;
    const TextStyle head = {12, kSoftInk, true};
    TextStyle head_right = head;
    head_right.align = TextAlign::kRight;
    canvas_.text({kNameColumn, y}, "problem", head);
    canvas_.text({kKernelColumn, y}, "kernel", head);
    canvas_.text({kMedianColumn, y}, "median", head_right);
    canvas_.text({kIntensityColumn, y}, "FLOP/byte", head_right);
    canvas_.text({kRateColumn, y}, unit_.name, head_right);
    canvas_.text({kShareColumn, y}, "share of its roof", head);
    canvas_.line({{kTableLeft, y + 8}, {kTableRight, y + 8}}, {kGrid, 1, false});
    for (const PlotPoint& point : data_.points) {
      y += kTableRow;
      draw_row(point, y);
    }
    if (!data_.note.empty()) canvas_.text({kTableLeft, y + kTableRow + 2}, data_.note, {12, kSoftInk});
  }

  /// One point; `y` is the base line of its text.
  void draw_row(const PlotPoint& point, double y) const {
    const TextStyle text = {12.5, kInk};
    const TextStyle soft = {12, kSoftInk};
    const TextStyle right = {12.5, kInk, false, TextAlign::kRight};
    const TextStyle number = {point.number < 100 ? 10.5 : 8.5, kWhite, true, TextAlign::kCenter};
    const PlotPosition center = {kTableLeft + 10, y - 4.5};
    canvas_.disc(center, kDiscRadius, kernel_color(point.kernel_index), {kWhite, 0.5, false});
    canvas_.text({center.x, center.y + 4}, std::to_string(point.number), number);
    const double end = (point.problem.empty() ? kKernelColumn : kProblemColumn) - 12;
    canvas_.text({kNameColumn, y}, canvas_.fitted(point.name, text, end - kNameColumn), text);
    canvas_.text({kProblemColumn, y},
                 canvas_.fitted(point.problem, soft, kKernelColumn - kProblemColumn - 12), soft);
    canvas_.text({kKernelColumn, y}, point.kernel, text);
    canvas_.text({kMedianColumn, y}, console::duration(point.median_ns), right);
    canvas_.text({kIntensityColumn, y}, console::significant(point.intensity), right);
    canvas_.text({kRateColumn, y}, console::significant(point.flops_per_second / unit_.size), right);
    draw_share(point, y);
  }

  void draw_share(const PlotPoint& point, double y) const {
    constexpr double kBarWidth = 46, kBarHeight = 10;
    const TextStyle soft = {12, kSoftInk};
    const PlotBox whole = {kShareColumn, y - kBarHeight + 1, kBarWidth, kBarHeight};
    PlotBox part = whole;
    part.width *= std::clamp(point.roof_share, 0.0, 1.0);
    canvas_.fill(whole, kGrid);
    canvas_.fill(part, kernel_color(point.kernel_index));
    canvas_.text({kLimitColumn - 8, y}, point.limit.empty() ? "-" : console::percent(point.roof_share),
                 {12.5, kInk, false, TextAlign::kRight});
    canvas_.text({kLimitColumn, y}, canvas_.fitted(point.limit, soft, kTableRight - kLimitColumn), soft);
  }

  const Canvas& canvas_;
  const PlotData& data_;
  Unit unit_;
  LogAxis x_, y_;
  std::vector<PlotPosition> anchors_;  ///< the points
  std::vector<PlotLine> lines_;        ///< the roofs, for labels to keep off
  std::vector<PlotBox> taken_;         ///< by text that is there already
};

}  // namespace

Result<void> check_plot_support() {
  return {};
}

Result<std::string> draw_plot(const PlotData& data, PlotFormat format) {
  if (data.points.empty()) {
    return Error{
        ErrorCode::kInvalidArgument, {}, "no problem was measured, so that there is nothing to plot"};
  }
  const double rows = static_cast<double>(data.points.size()) + (data.note.empty() ? 0 : 1);
  const double height = kTableTop + rows * kTableRow + kBottomMargin;
  return draw_file(format, kPictureWidth, height, [&](const Canvas& canvas) { Plot(canvas, data).draw(); });
}

}  // namespace vkattn::bench
