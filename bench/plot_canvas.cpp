// Drawing by cairo.
#include "plot_canvas.hpp"

#include <cairo-svg.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <numbers>

#include "common/message.hpp"

namespace vkattn::bench {
namespace {

constexpr double kPngScale = 2;
constexpr const char* kFont = "DejaVu Sans";  // cairo takes another where it is not installed

struct SurfaceDeleter {
  void operator()(cairo_surface_t* surface) const { cairo_surface_destroy(surface); }
};
struct ContextDeleter {
  void operator()(cairo_t* context) const { cairo_destroy(context); }
};
using Surface = std::unique_ptr<cairo_surface_t, SurfaceDeleter>;
using Context = std::unique_ptr<cairo_t, ContextDeleter>;

/// For cairo: appends to the std::string behind `closure`.
cairo_status_t append(void* closure, const unsigned char* data, unsigned int length) {
  try {
    static_cast<std::string*>(closure)->append(reinterpret_cast<const char*>(data), length);
  } catch (...) {
    return CAIRO_STATUS_NO_MEMORY;
  }
  return CAIRO_STATUS_SUCCESS;
}

Surface make_surface(PlotFormat format, double width, double height, std::string& bytes) {
  if (format == PlotFormat::kSvg) {
    return Surface(cairo_svg_surface_create_for_stream(append, &bytes, width, height));
  }
  Surface surface(cairo_image_surface_create(CAIRO_FORMAT_RGB24, static_cast<int>(width * kPngScale),
                                             static_cast<int>(height * kPngScale)));
  cairo_surface_set_device_scale(surface.get(), kPngScale, kPngScale);
  return surface;
}

/// A pixel of CAIRO_FORMAT_RGB24.
std::uint32_t packed(const Color& color) {
  const auto byte = [](double part) {
    return static_cast<std::uint32_t>(std::lround(std::clamp(part, 0.0, 1.0) * 255));
  };
  return byte(color.red) << 16U | byte(color.green) << 8U | byte(color.blue);
}

bool is_continuation(char c) {
  return (static_cast<unsigned char>(c) & 0xc0U) == 0x80U;
}

}  // namespace

void Canvas::set(const Color& color) const {
  cairo_set_source_rgba(context_, color.red, color.green, color.blue, color.alpha);
}

void Canvas::set(const Stroke& stroke) const {
  constexpr std::array kDashes = {5.0, 4.0};
  set(stroke.color);
  cairo_set_line_width(context_, stroke.width);
  cairo_set_dash(context_, kDashes.data(), stroke.dashed ? static_cast<int>(kDashes.size()) : 0, 0);
}

void Canvas::set_font(const TextStyle& style) const {
  cairo_select_font_face(context_, kFont, CAIRO_FONT_SLANT_NORMAL,
                         style.bold ? CAIRO_FONT_WEIGHT_BOLD : CAIRO_FONT_WEIGHT_NORMAL);
  cairo_set_font_size(context_, style.size);
}

void Canvas::fill(std::span<const PlotPosition> corners, const Color& color) const {
  cairo_new_path(context_);
  for (const PlotPosition& corner : corners) cairo_line_to(context_, corner.x, corner.y);
  cairo_close_path(context_);
  set(color);
  cairo_fill(context_);
}

void Canvas::fill(const PlotBox& box, const Color& color) const {
  cairo_rectangle(context_, box.x, box.y, box.width, box.height);
  set(color);
  cairo_fill(context_);
}

void Canvas::cells(const PlotBox& box, std::size_t columns, std::span<const Color> colors) const {
  const std::size_t rows = columns == 0 ? 0 : colors.size() / columns;
  if (rows == 0) return;
  // Each cell is as many pixels of an image as it has on a PNG: an image that a viewer enlarges may be
  // smoothed.
  const auto pixels = [](double length, std::size_t count) {
    return std::max(1, static_cast<int>(std::lround(length * kPngScale / static_cast<double>(count))));
  };
  const int across = pixels(box.width, columns), down = pixels(box.height, rows);
  const int width = across * static_cast<int>(columns), height = down * static_cast<int>(rows);
  const Surface image(cairo_image_surface_create(CAIRO_FORMAT_RGB24, width, height));
  if (cairo_surface_status(image.get()) != CAIRO_STATUS_SUCCESS) return;
  cairo_surface_flush(image.get());
  unsigned char* const bytes = cairo_image_surface_get_data(image.get());
  const int stride = cairo_image_surface_get_stride(image.get());
  for (int y = 0; y < height; ++y) {
    for (int x = 0; x < width; ++x) {
      const std::size_t cell =
          static_cast<std::size_t>(y / down) * columns + static_cast<std::size_t>(x / across);
      const std::uint32_t pixel = packed(colors[cell]);
      std::memcpy(bytes + static_cast<std::ptrdiff_t>(y) * stride + static_cast<std::ptrdiff_t>(x) * 4,
                  &pixel, sizeof(pixel));
    }
  }
  cairo_surface_mark_dirty(image.get());
  cairo_save(context_);
  cairo_translate(context_, box.x, box.y);
  cairo_scale(context_, box.width / width, box.height / height);
  cairo_set_source_surface(context_, image.get(), 0, 0);
  cairo_pattern_set_filter(cairo_get_source(context_), CAIRO_FILTER_NEAREST);
  cairo_paint(context_);
  cairo_restore(context_);
}

void Canvas::line(const PlotLine& line, const Stroke& stroke) const {
  cairo_move_to(context_, line.from.x, line.from.y);
  cairo_line_to(context_, line.to.x, line.to.y);
  set(stroke);
  cairo_stroke(context_);
}

void Canvas::lines(std::span<const PlotPosition> corners, const Stroke& stroke) const {
  cairo_new_path(context_);
  for (const PlotPosition& corner : corners) cairo_line_to(context_, corner.x, corner.y);
  set(stroke);
  cairo_set_line_join(context_, CAIRO_LINE_JOIN_ROUND);
  cairo_stroke(context_);
}

void Canvas::outline(const PlotBox& box, const Stroke& stroke) const {
  cairo_rectangle(context_, box.x, box.y, box.width, box.height);
  set(stroke);
  cairo_stroke(context_);
}

void Canvas::disc(const PlotPosition& center, double radius, const Color& color, const Stroke& border) const {
  cairo_new_path(context_);
  cairo_arc(context_, center.x, center.y, radius, 0, 2 * std::numbers::pi);
  set(color);
  cairo_fill_preserve(context_);
  set(border);
  cairo_stroke(context_);
}

void Canvas::text(const PlotPosition& at, const std::string& text, const TextStyle& style,
                  double angle) const {
  constexpr double kHaloWidth = 3.5;
  const double width = style.align == TextAlign::kLeft ? 0 : text_width(text, style);
  const double start = style.align == TextAlign::kCenter ? -width / 2 : -width;
  cairo_save(context_);
  set_font(style);
  cairo_translate(context_, at.x, at.y);
  cairo_rotate(context_, angle);
  cairo_move_to(context_, start, 0);
  if (style.halo) {
    cairo_text_path(context_, text.c_str());
    set(Stroke{{1, 1, 1, 0.85}, kHaloWidth, false});
    cairo_set_line_join(context_, CAIRO_LINE_JOIN_ROUND);
    cairo_stroke(context_);
    cairo_move_to(context_, start, 0);
  }
  set(style.color);
  cairo_show_text(context_, text.c_str());
  cairo_new_path(context_);
  cairo_restore(context_);
}

double Canvas::text_width(const std::string& text, const TextStyle& style) const {
  cairo_text_extents_t extents{};
  set_font(style);
  cairo_text_extents(context_, text.c_str(), &extents);
  return extents.x_advance;
}

std::string Canvas::fitted(std::string text, const TextStyle& style, double width) const {
  constexpr const char* kEllipsis = "\xe2\x80\xa6";
  if (text_width(text, style) <= width) return text;
  while (!text.empty() && text_width(text + kEllipsis, style) > width) {
    while (text.size() > 1 && is_continuation(text.back())) text.pop_back();
    text.pop_back();
  }
  return text + kEllipsis;
}

void Canvas::clipped(const PlotBox& box, const std::function<void()>& draw) const {
  cairo_save(context_);
  cairo_rectangle(context_, box.x, box.y, box.width, box.height);
  cairo_clip(context_);
  draw();
  cairo_restore(context_);
}

namespace {

/// A canvas to measure text on.
template <class Measure>
void on_scratch(Measure&& measure) {
  const Surface surface(cairo_image_surface_create(CAIRO_FORMAT_RGB24, 1, 1));
  const Context context(cairo_create(surface.get()));
  measure(Canvas(context.get()));
}

}  // namespace

double widest(std::span<const std::string> texts, const TextStyle& style) {
  double width = 0;
  on_scratch([&](const Canvas& canvas) {
    for (const std::string& text : texts) width = std::max(width, canvas.text_width(text, style));
  });
  return width;
}

std::vector<std::string> wrapped(const std::string& text, const TextStyle& style, double width) {
  std::vector<std::string> lines;
  on_scratch([&](const Canvas& canvas) {
    for (std::size_t begin = 0; begin < text.size();) {
      const std::size_t end = std::min(text.find(' ', begin), text.size());
      const std::string word = text.substr(begin, end - begin);
      begin = end + 1;
      if (!lines.empty() && canvas.text_width(lines.back() + " " + word, style) <= width) {
        lines.back() += " " + word;
      } else if (!word.empty()) {
        lines.push_back(word);
      }
    }
  });
  return lines;
}

Result<std::string> draw_file(PlotFormat format, double width, double height,
                              const std::function<void(const Canvas&)>& draw) {
  std::string bytes;
  const Surface surface = make_surface(format, width, height, bytes);
  cairo_status_t status = cairo_surface_status(surface.get());
  if (status == CAIRO_STATUS_SUCCESS) {
    const Context context(cairo_create(surface.get()));
    const Canvas canvas(context.get());
    canvas.fill(PlotBox{0, 0, width, height}, Color{1, 1, 1});
    draw(canvas);
    status = cairo_status(context.get());
  }
  if (status == CAIRO_STATUS_SUCCESS && format == PlotFormat::kPng) {
    status = cairo_surface_write_to_png_stream(surface.get(), append, &bytes);
  }
  cairo_surface_finish(surface.get());  // an SVG is written now
  if (status == CAIRO_STATUS_SUCCESS) status = cairo_surface_status(surface.get());
  if (status != CAIRO_STATUS_SUCCESS) {
    return Error{ErrorCode::kIo,
                 {},
                 detail::message("the picture of ", width, " x ", height,
                                 " could not be drawn: ", cairo_status_to_string(status))};
  }
  return bytes;
}

}  // namespace vkattn::bench
