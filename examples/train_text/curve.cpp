// The picture of a training: see curve.hpp.
#include "train_text/curve.hpp"

#include <cairo.h>

#include <algorithm>
#include <cmath>
#include <cstdio>

namespace train_text {

namespace {

constexpr int kWidth = 1000, kHeight = 560;
constexpr double kLeft = 60, kRight = 970, kTop = 60, kBottom = 490;

struct Color {
  double red, green, blue;
};
constexpr Color kInk{0.15, 0.15, 0.15}, kGrid{0.9, 0.9, 0.9}, kEach{0.75, 0.83, 0.92},
    kMean{0.12, 0.35, 0.65}, kLevel{0.8, 0.35, 0.1}, kKeptBack{0.1, 0.5, 0.25};

class Canvas {
 public:
  Canvas(cairo_t* cairo, const Curve& curve)
      : cairo_(cairo), steps_(static_cast<double>(curve.losses.size())), most_(std::log(curve.vocabulary)) {
    for (const float loss : curve.losses) most_ = std::max(most_, std::min(static_cast<double>(loss), 20.0));
    most_ = std::ceil(most_ * 2) / 2;
  }
  [[nodiscard]] double most() const { return most_; }
  [[nodiscard]] double x(double step) const {
    return kLeft + (kRight - kLeft) * step / std::max(steps_, 1.0);
  }
  [[nodiscard]] double y(double loss) const {
    return kBottom - (kBottom - kTop) * std::clamp(loss / most_, 0.0, 1.0);
  }
  void color(const Color& c) const { cairo_set_source_rgb(cairo_, c.red, c.green, c.blue); }
  void line(double x0, double y0, double x1, double y1) const {
    cairo_move_to(cairo_, x0, y0);
    cairo_line_to(cairo_, x1, y1);
    cairo_stroke(cairo_);
  }
  // The place of x in the text.
  enum class Place { kBegin, kMiddle, kEnd };
  void text(double x, double y, const std::string& words, Place place = Place::kBegin) const {
    cairo_text_extents_t extents;
    cairo_text_extents(cairo_, words.c_str(), &extents);
    const double shift = place == Place::kBegin    ? 0
                         : place == Place::kMiddle ? extents.width / 2
                                                   : extents.width;
    cairo_move_to(cairo_, x - shift, y);
    cairo_show_text(cairo_, words.c_str());
  }
  template <class Value>
  void curve(std::size_t steps, const Value& value) const {
    cairo_new_path(cairo_);  // does not continue from an earlier text
    for (std::size_t i = 0; i < steps; ++i) cairo_line_to(cairo_, x(static_cast<double>(i + 1)), y(value(i)));
    cairo_stroke(cairo_);
  }

 private:
  cairo_t* cairo_;
  double steps_, most_;
};

std::string number(double value, const char* format) {
  char text[32];
  std::snprintf(text, sizeof(text), format, value);
  return text;
}

// A step of 1, 2 or 5 times a power of ten that gives 4 to 10 ticks.
double tick(double all) {
  const double power = std::pow(10, std::floor(std::log10(std::max(all, 1.0) / 4)));
  for (const double factor : {1.0, 2.0, 5.0}) {
    if (all / (factor * power) <= 10) return std::max(factor * power, 1.0);
  }
  return std::max(10 * power, 1.0);
}

void draw_axes(const Canvas& canvas, std::size_t steps) {
  for (double loss = 0; loss <= canvas.most() + 1e-9; loss += 0.5) {
    canvas.color(kGrid);
    canvas.line(kLeft, canvas.y(loss), kRight, canvas.y(loss));
    canvas.color(kInk);
    canvas.text(kLeft - 8, canvas.y(loss) + 4, number(loss, "%.1f"), Canvas::Place::kEnd);
  }
  const double all = static_cast<double>(steps);
  for (double step = 0; step <= all; step += tick(all)) {
    canvas.color(kInk);
    canvas.line(canvas.x(step), kBottom, canvas.x(step), kBottom + 5);
    canvas.text(canvas.x(step), kBottom + 20, number(step, "%.0f"), Canvas::Place::kMiddle);
  }
  canvas.text((kLeft + kRight) / 2, kBottom + 40, "step", Canvas::Place::kMiddle);
}

void draw_level(const Canvas& canvas, double loss, const Color& color, const std::string& words) {
  canvas.color(color);
  canvas.line(kLeft, canvas.y(loss), kRight, canvas.y(loss));
  canvas.text(kRight, canvas.y(loss) - 5, words, Canvas::Place::kEnd);
}

}  // namespace

bool has_pictures() {
  return true;
}

bool draw(const Curve& curve, const std::string& path) {
  cairo_surface_t* const surface = cairo_image_surface_create(CAIRO_FORMAT_RGB24, kWidth, kHeight);
  cairo_t* const cairo = cairo_create(surface);
  cairo_set_source_rgb(cairo, 1, 1, 1);
  cairo_paint(cairo);
  cairo_select_font_face(cairo, "sans-serif", CAIRO_FONT_SLANT_NORMAL, CAIRO_FONT_WEIGHT_NORMAL);
  const Canvas canvas(cairo, curve);
  const std::size_t steps = curve.losses.size();
  canvas.color(kInk);
  cairo_set_font_size(cairo, 16);
  canvas.text(kLeft, 30, "Loss in nats for each character: pale, each step; dark, the mean over a few");
  cairo_set_font_size(cairo, 13);
  cairo_set_line_width(cairo, 1);
  draw_axes(canvas, steps);
  const double uniform = std::log(curve.vocabulary);
  draw_level(canvas, uniform, kLevel,
             "ln(" + number(curve.vocabulary, "%.0f") + ") = " + number(uniform, "%.2f") + ": all alike");
  draw_level(canvas, uniform / 2, kLevel, "half of it");
  canvas.color(kEach);
  canvas.curve(steps, [&](std::size_t i) { return static_cast<double>(curve.losses[i]); });
  cairo_set_line_width(cairo, 2);
  canvas.color(kMean);
  canvas.curve(steps, [&](std::size_t i) { return smoothed(curve.losses, i); });
  if (curve.kept_back > 0) {
    canvas.color(kKeptBack);
    cairo_arc(cairo, canvas.x(static_cast<double>(steps)), canvas.y(curve.kept_back), 5, 0, 6.2832);
    cairo_fill(cairo);
    // The text stands on the side where the curve is not.
    const bool is_above = curve.kept_back >= smoothed(curve.losses, steps - 1);
    canvas.text(kRight - 10, canvas.y(curve.kept_back) + (is_above ? -12 : 26),
                "text that was not learned from: " + number(curve.kept_back, "%.2f"), Canvas::Place::kEnd);
  }
  canvas.color(kInk);
  canvas.text(kLeft, kHeight - 10, curve.caption);
  const bool written = cairo_surface_write_to_png(surface, path.c_str()) == CAIRO_STATUS_SUCCESS;
  cairo_destroy(cairo);
  cairo_surface_destroy(surface);
  return written;
}

}  // namespace train_text
