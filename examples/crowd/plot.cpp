#include "crowd/plot.hpp"

#include <cairo.h>

#include <algorithm>
#include <cstdio>

namespace crowd {

namespace {

constexpr int kWidth = 1000, kHeight = 560;
constexpr double kLeft = 70, kRight = 20, kPanelHeight = 200;

struct Panel {
  double top;
  double most;  // milliseconds at the upper edge
  [[nodiscard]] double y(double ms) const { return top + kPanelHeight * (1 - std::min(ms / most, 1.0)); }
};

void text(cairo_t* cairo, double x, double y, const char* words) {
  cairo_set_source_rgb(cairo, 0.15, 0.15, 0.15);
  cairo_move_to(cairo, x, y);
  cairo_show_text(cairo, words);
}

void axis(cairo_t* cairo, const Panel& panel, const char* title) {
  text(cairo, kLeft, panel.top - 12, title);
  constexpr int kTicks = 4;
  for (int i = 0; i <= kTicks; ++i) {
    const double ms = panel.most * i / kTicks;
    cairo_set_source_rgb(cairo, 0.88, 0.88, 0.88);
    cairo_move_to(cairo, kLeft, panel.y(ms));
    cairo_line_to(cairo, kWidth - kRight, panel.y(ms));
    cairo_stroke(cairo);
    char label[32];
    std::snprintf(label, sizeof(label), "%.2f ms", ms);
    text(cairo, 8, panel.y(ms) + 4, label);
  }
}

void limit(cairo_t* cairo, const Panel& panel, double ms, const char* name) {
  cairo_set_source_rgb(cairo, 0.8, 0.1, 0.1);
  cairo_move_to(cairo, kLeft, panel.y(ms));
  cairo_line_to(cairo, kWidth - kRight, panel.y(ms));
  cairo_stroke(cairo);
  char label[64];
  std::snprintf(label, sizeof(label), "%s %.2f ms", name, ms);
  text(cairo, kWidth - kRight - 150, panel.y(ms) - 5, label);
}

void bars(cairo_t* cairo, const Panel& panel, const std::vector<double>& values, double allowed) {
  const double width = (kWidth - kLeft - kRight) / static_cast<double>(values.size());
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (values[i] > allowed) {
      cairo_set_source_rgb(cairo, 0.9, 0.5, 0.1);
    } else {
      cairo_set_source_rgb(cairo, 0.2, 0.45, 0.75);
    }
    const double y = panel.y(values[i]);
    cairo_rectangle(cairo, kLeft + width * static_cast<double>(i), y, std::max(width * 0.85, 0.5),
                    panel.top + kPanelHeight - y);
    cairo_fill(cairo);
  }
}

}  // namespace

bool draw(const FrameTimes& times, const std::string& path) {
  cairo_surface_t* const surface = cairo_image_surface_create(CAIRO_FORMAT_RGB24, kWidth, kHeight);
  cairo_t* const cairo = cairo_create(surface);
  cairo_set_source_rgb(cairo, 1, 1, 1);
  cairo_paint(cairo);
  cairo_set_font_size(cairo, 13);
  const Panel frames{50, 2 * times.frame_ms};
  axis(cairo, frames, "From frame to frame");
  bars(cairo, frames, times.interval, 1.1 * times.frame_ms);
  limit(cairo, frames, times.frame_ms, "frame time");
  const Panel slices{310, 2 * times.budget_ms};
  axis(cairo, slices,
       "Attention in the frame, on the device (orange: above the budget; cut off at twice of it)");
  bars(cairo, slices, times.attention, times.budget_ms);
  limit(cairo, slices, times.budget_ms, "budget");
  char label[64];
  std::snprintf(label, sizeof(label), "%zu frames", times.interval.size());
  text(cairo, kLeft, kHeight - 20, label);
  const bool written = cairo_surface_write_to_png(surface, path.c_str()) == CAIRO_STATUS_SUCCESS;
  cairo_destroy(cairo);
  cairo_surface_destroy(surface);
  return written;
}

}  // namespace crowd
