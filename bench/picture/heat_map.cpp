// Draws heat maps: panels in rows, with a bar of the colours at their right.
#include "heat_map.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <numbers>
#include <span>

#include "console.hpp"
#include "head.hpp"

namespace vkattn::picture {
namespace {

constexpr double kLeastWidth = 660;  // for title and caption
constexpr double kLargestCell = 56;  // larger cells would make a panel of two by two too large
constexpr double kReadableCell = 9;  // each cell of at least this size has a label of its own
constexpr double kReadablePanel = 64 * kReadableCell;
constexpr double kTallestPanel = 640;
constexpr double kCellWithNumber = 30, kCellWithGaps = 13;
constexpr double kPanelGap = 26;    // between panels
constexpr double kPanelHead = 44;   // title and note
constexpr double kLeastSlot = 236;  // room for a panel's note
constexpr double kAxisTitle = 22;
constexpr double kMostLabel = 104;
constexpr Stroke kTickMark = {kSoftInk, 0.8};
constexpr double kScaleGap = 34, kScaleWidth = 16, kScaleText = 64;

enum class LabelTurn { kNone, kSlanted, kUpright };

/// The number of panels side by side.
std::size_t panels_across(std::size_t panels) {
  constexpr std::array<std::size_t, 10> kAcross = {1, 1, 2, 3, 2, 3, 3, 4, 4, 3};
  return panels < kAcross.size() ? kAcross.at(panels) : 4;
}

/// The places of all parts.
struct Layout {
  std::size_t across = 1, down = 1;
  double cell = 1, panel_width = 0, panel_height = 0, slot_width = 0, slot_height = 0;
  double left = 0, top = 0;  // place of the first slot
  double width = 0, height = 0;
  TextStyle label;
  LabelTurn turn = LabelTurn::kNone;
  double row_label_width = 0, column_label_height = 0;
  std::size_t row_stride = 1, column_stride = 1;
};

/// Rounds to half units, which are whole pixels of a PNG. This keeps cells sharp.
double whole_pixels(double length) {
  return std::max(0.5, std::floor(length * 2) / 2);
}

double cell_size(const HeatMap& map, std::size_t across, double row_label_width) {
  const auto columns = static_cast<double>(map.columns()), rows = static_cast<double>(map.rows());
  const double sides =
      2 * kPictureMargin + kAxisTitle + row_label_width + kScaleGap + kScaleWidth + kScaleText;
  const double gaps = kPanelGap * static_cast<double>(across - 1);
  const double panel = (kPictureWidth - sides - gaps) / static_cast<double>(across);
  const double fitting = std::min({panel / columns, kTallestPanel / rows, kLargestCell});
  const double readable = std::min(kReadableCell, kReadablePanel / std::max(columns, rows));
  return whole_pixels(std::max(fitting, readable));
}

/// Decides which labels of columns are drawn, and how they are turned to fit.
void place_column_labels(const HeatMap& map, double text_width, Layout& layout) {
  constexpr double kBeside = 8;
  if (map.labels_are_numbers || text_width + kBeside <= layout.cell) {
    layout.column_stride = label_stride(layout.cell, text_width + kBeside, map.labels_are_numbers);
    layout.column_label_height = layout.label.size + 8;
    return;
  }
  const double line = layout.label.size + 0.5;
  layout.column_stride = label_stride(layout.cell, line, false);
  const double apart = layout.cell * static_cast<double>(layout.column_stride);
  layout.turn = apart >= line * std::numbers::sqrt2 ? LabelTurn::kSlanted : LabelTurn::kUpright;
  layout.column_label_height =
      8 + (layout.turn == LabelTurn::kSlanted ? (text_width + layout.label.size) / std::numbers::sqrt2
                                              : text_width);
}

Head head_of(const HeatMap& map, double width) {
  return {{map.title, map.caption, map.warning, {}}, width};
}

Layout make_layout(const HeatMap& map) {
  Layout layout;
  layout.across = panels_across(map.panels.size());
  layout.down = (map.panels.size() + layout.across - 1) / layout.across;
  layout.label = {12, kInk};
  const auto width_of = [&](const std::vector<std::string>& labels) {
    return std::min(kMostLabel, widest(labels, layout.label));
  };
  layout.row_label_width = width_of(map.row_labels) + 10;
  layout.cell = cell_size(map, layout.across, layout.row_label_width);
  layout.label.size = std::clamp(layout.cell - 1, 8.5, 12.0);
  layout.row_stride = label_stride(layout.cell, layout.label.size + 0.5, map.labels_are_numbers);
  place_column_labels(map, width_of(map.column_labels), layout);
  layout.panel_width = layout.cell * static_cast<double>(map.columns());
  layout.panel_height = layout.cell * static_cast<double>(map.rows());
  layout.slot_width = std::max(layout.panel_width, kLeastSlot);
  layout.slot_height = kPanelHead + layout.panel_height + layout.column_label_height + kAxisTitle + kPanelGap;
  layout.left = kPictureMargin + kAxisTitle + layout.row_label_width;
  const auto slots = static_cast<double>(layout.across);
  layout.width = std::max(kLeastWidth, layout.left + slots * layout.slot_width + (slots - 1) * kPanelGap +
                                           kScaleGap + kScaleWidth + kScaleText + kPictureMargin);
  layout.top = head_of(map, layout.width).bottom() + 20;
  constexpr double kLeastBar = 190;
  layout.height = layout.top + std::max(static_cast<double>(layout.down) * layout.slot_height,
                                        kPanelHead + kLeastBar + kPanelGap);
  return layout;
}

class MapDrawing {
 public:
  MapDrawing(Canvas& canvas, const HeatMap& map, const Layout& layout)
      : canvas_(canvas), map_(map), layout_(layout), top_(largest(map.panels)) {}

  void draw() const {
    head_of(map_, layout_.width).draw(canvas_);
    for (std::size_t i = 0; i < map_.panels.size(); ++i) draw_panel(i);
    draw_bar();
  }

 private:
  static double largest(std::span<const HeatPanel> panels) {
    double value = 0;
    for (const HeatPanel& panel : panels) {
      for (const double each : panel.values) value = std::isnan(each) ? value : std::max(value, each);
    }
    return value > 0 && std::isfinite(value) ? value : 1;
  }

  [[nodiscard]] double top_of(const HeatPanel& panel) const {
    return map_.has_scale_for_each ? largest({&panel, 1}) : top_;
  }
  /// The place of a value on the way from the first colour to the last.
  [[nodiscard]] double share_of(double value, double top) const {
    return map_.scale == HeatScale::kLinear ? value / top : std::sqrt(value / top);
  }
  [[nodiscard]] Color color_of(double value, double top) const {
    return std::isnan(value) ? kNoNumber : scale_color(share_of(value, top));
  }

  [[nodiscard]] Box panel_box(std::size_t index) const {
    const auto column = static_cast<double>(index % layout_.across);
    const auto row = static_cast<double>(index / layout_.across);
    return {layout_.left + column * (layout_.slot_width + kPanelGap),
            layout_.top + row * layout_.slot_height + kPanelHead, layout_.panel_width, layout_.panel_height};
  }

  void draw_panel(std::size_t index) const {
    const HeatPanel& panel = map_.panels[index];
    const Box box = panel_box(index);
    canvas_.text({box.x, box.y - 26}, fitted(panel.title, kPanelTitleText, layout_.slot_width),
                 kPanelTitleText);
    canvas_.text({box.x, box.y - 9}, fitted(panel.note, kNoteText, layout_.slot_width), kNoteText);
    std::vector<Color> colors;
    colors.reserve(panel.values.size());
    const double top = top_of(panel);
    for (const double value : panel.values) colors.push_back(color_of(value, top));
    canvas_.cells(box, map_.columns(), colors);
    if (layout_.cell >= kCellWithGaps) draw_gaps(box);
    if (layout_.cell >= kCellWithNumber) draw_numbers(panel, box, colors);
    if (index % layout_.across == 0) draw_row_labels(box);
    draw_column_labels(box);
  }

  void draw_gaps(const Box& box) const {
    const Stroke gap = {kWhite, 1};
    for (std::size_t i = 1; i < map_.columns(); ++i) {
      const double x = box.x + layout_.cell * static_cast<double>(i);
      canvas_.line({x, box.y}, {x, box.bottom()}, gap);
    }
    for (std::size_t i = 1; i < map_.rows(); ++i) {
      const double y = box.y + layout_.cell * static_cast<double>(i);
      canvas_.line({box.x, y}, {box.right(), y}, gap);
    }
  }

  void draw_numbers(const HeatPanel& panel, const Box& box, const std::vector<Color>& colors) const {
    TextStyle style = {std::min(13.0, layout_.cell * 0.36), kInk, false, TextAlign::kCenter};
    for (std::size_t i = 0; i < panel.values.size(); ++i) {
      const double value = panel.values[i];
      if (std::isnan(value)) continue;
      style.color = contrast(kWhite, colors[i]) > contrast(kInk, colors[i]) ? kWhite : kInk;
      const Position center = {box.x + layout_.cell * (static_cast<double>(i % map_.columns()) + 0.5),
                               box.y + layout_.cell * (static_cast<double>(i / map_.columns()) + 0.5)};
      canvas_.text({center.x, center.y + style.size * 0.36}, value == 0 ? "0" : console::fixed(value, 2),
                   style);
    }
  }

  void draw_row_labels(const Box& box) const {
    TextStyle style = layout_.label;
    style.align = TextAlign::kRight;
    for (std::size_t i = 0; i < map_.rows(); i += layout_.row_stride) {
      const double y = box.y + layout_.cell * (static_cast<double>(i) + 0.5);
      if (layout_.row_stride > 1) canvas_.line({box.x - 4, y}, {box.x, y}, kTickMark);
      canvas_.text({box.x - 6, y + style.size * 0.36}, fitted(map_.row_labels[i], style, kMostLabel), style);
    }
    canvas_.text({kPictureMargin + 8, box.center().y}, map_.row_axis, kAcrossText, -std::numbers::pi / 2);
  }

  void draw_column_labels(const Box& box) const {
    TextStyle style = layout_.label;
    const bool turned = layout_.turn != LabelTurn::kNone;
    style.align = turned ? TextAlign::kRight : TextAlign::kCenter;
    const double angle = layout_.turn == LabelTurn::kSlanted   ? -std::numbers::pi / 4
                         : layout_.turn == LabelTurn::kUpright ? -std::numbers::pi / 2
                                                               : 0;
    for (std::size_t i = 0; i < map_.columns(); i += layout_.column_stride) {
      const double x = box.x + layout_.cell * (static_cast<double>(i) + 0.5);
      if (layout_.column_stride > 1) canvas_.line({x, box.bottom()}, {x, box.bottom() + 4}, kTickMark);
      const Position at = turned ? Position{x + style.size * 0.36, box.bottom() + 9}
                                 : Position{x, box.bottom() + style.size + 5};
      canvas_.text(at, fitted(map_.column_labels[i], style, kMostLabel), style, angle);
    }
    canvas_.text({box.center().x, box.bottom() + layout_.column_label_height + 14}, map_.column_axis,
                 kAcrossText);
  }

  void draw_bar() const {
    constexpr std::size_t kSteps = 128;
    constexpr double kLeast = 120, kMost = 320;
    const Box first = panel_box(0), last = panel_box(layout_.across - 1);
    const double x = std::max(last.right(), last.x + layout_.slot_width) + kScaleGap;
    const Box bar = {x, first.y, kScaleWidth, std::clamp(first.height, kLeast, kMost)};
    std::vector<Color> colors;
    for (std::size_t i = 0; i < kSteps; ++i) {
      colors.push_back(scale_color(1 - (static_cast<double>(i) + 0.5) / kSteps));
    }
    canvas_.cells(bar, 1, colors);
    canvas_.text({bar.x, bar.y - 9}, map_.scale_axis, {12, kSoftInk});
    const TextStyle text = {12, kInk};
    for (const Tick& tick : bar_ticks()) {
      const double y = bar.bottom() - bar.height * share_of(tick.value, top_);
      canvas_.line({bar.right(), y}, {bar.right() + 4, y}, kTickMark);
      canvas_.text({bar.right() + 8, y + 4}, tick.label, text);
    }
    if (map_.no_number.empty()) return;
    const Box sample = {bar.x, bar.bottom() + 22, kScaleWidth, kScaleWidth};
    canvas_.fill(sample, kNoNumber);
    canvas_.text({sample.right() + 8, sample.bottom() - 4}, map_.no_number, text);
  }

  /// The ticks of the bar. If each panel has a scale of its own, the panel's note has its largest value.
  [[nodiscard]] std::vector<Tick> bar_ticks() const {
    if (map_.has_scale_for_each) return {{0, "0"}, {top_, "largest"}};
    return ticks_to_largest(top_, map_.scale == HeatScale::kSquareRoot);
  }

  Canvas& canvas_;
  const HeatMap& map_;
  const Layout& layout_;
  double top_;  // the largest value
};

}  // namespace

Result<std::string> draw_heat_map(const HeatMap& map, Format format) {
  const auto refusal = [](const std::string& sentence) {
    return Error{ErrorCode::kInvalidArgument, {}, sentence};
  };
  if (map.panels.empty() || map.rows() == 0 || map.columns() == 0)
    return refusal("there is nothing to draw: a heat map needs a panel, a row and a column");
  if (map.panels.size() > kMostHeatPanels || std::max(map.rows(), map.columns()) > kMostHeatCells) {
    return refusal("a heat map has room for " + std::to_string(kMostHeatPanels) + " panels of " +
                   std::to_string(kMostHeatCells) + " rows and columns, and these are " +
                   std::to_string(map.panels.size()) + " of " + std::to_string(map.rows()) + " x " +
                   std::to_string(map.columns()));
  }
  const Layout layout = make_layout(map);
  return draw_file(format, layout.width, layout.height,
                   [&](Canvas& canvas) { MapDrawing(canvas, map, layout).draw(); });
}

}  // namespace vkattn::picture
