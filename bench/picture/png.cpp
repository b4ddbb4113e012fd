// Draws PNG with cairo, which also measures text.
#include <cairo.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <memory>
#include <numbers>

#include "canvas.hpp"

namespace vkattn::picture {
namespace {

constexpr double kPngScale = 2;
constexpr const char* kFont = "DejaVu Sans";  // cairo takes another font if this is not installed

struct SurfaceDeleter {
  void operator()(cairo_surface_t* surface) const { cairo_surface_destroy(surface); }
};
struct ContextDeleter {
  void operator()(cairo_t* context) const { cairo_destroy(context); }
};
using Surface = std::unique_ptr<cairo_surface_t, SurfaceDeleter>;
using Context = std::unique_ptr<cairo_t, ContextDeleter>;

/// cairo calls this to append bytes to the std::string behind `closure`.
cairo_status_t append(void* closure, const unsigned char* data, unsigned int length) {
  try {
    static_cast<std::string*>(closure)->append(reinterpret_cast<const char*>(data), length);
  } catch (...) {
    return CAIRO_STATUS_NO_MEMORY;
  }
  return CAIRO_STATUS_SUCCESS;
}

Surface make_surface(double width, double height) {
  return Surface(
      cairo_image_surface_create(CAIRO_FORMAT_RGB24, static_cast<int>(width), static_cast<int>(height)));
}

void set_font(cairo_t* context, const TextStyle& style) {
  cairo_select_font_face(context, kFont, CAIRO_FONT_SLANT_NORMAL,
                         style.bold ? CAIRO_FONT_WEIGHT_BOLD : CAIRO_FONT_WEIGHT_NORMAL);
  cairo_set_font_size(context, style.size);
}

/// A pixel in CAIRO_FORMAT_RGB24.
std::uint32_t packed(const Color& color) {
  const auto byte = [](double part) {
    return static_cast<std::uint32_t>(std::lround(std::clamp(part, 0.0, 1.0) * 255));
  };
  return byte(color.red) << 16U | byte(color.green) << 8U | byte(color.blue);
}

/// The image has as many pixels for each cell as the PNG has, because a viewer may smooth an image that it
/// enlarges.
Surface image_of_cells(const Box& box, std::size_t columns, std::span<const Color> colors) {
  const std::size_t rows = colors.size() / columns;
  const auto pixels = [](double length, std::size_t count) {
    return std::max<std::size_t>(
        1, static_cast<std::size_t>(std::lround(length * kPngScale / static_cast<double>(count))));
  };
  const std::size_t across = pixels(box.width, columns), down = pixels(box.height, rows);
  Surface image = make_surface(static_cast<double>(across * columns), static_cast<double>(down * rows));
  if (cairo_surface_status(image.get()) != CAIRO_STATUS_SUCCESS) return image;
  cairo_surface_flush(image.get());
  unsigned char* const bytes = cairo_image_surface_get_data(image.get());
  const auto stride = static_cast<std::size_t>(cairo_image_surface_get_stride(image.get()));
  for (std::size_t y = 0; y < down * rows; ++y) {
    for (std::size_t x = 0; x < across * columns; ++x) {
      const std::uint32_t pixel = packed(colors[y / down * columns + x / across]);
      std::memcpy(bytes + y * stride + x * sizeof(pixel), &pixel, sizeof(pixel));
    }
  }
  cairo_surface_mark_dirty(image.get());
  return image;
}

/// Draws on a context that it does not own.
class PngCanvas : public Canvas {
 public:
  explicit PngCanvas(cairo_t* context) : context_(context) {
    cairo_set_line_join(context, CAIRO_LINE_JOIN_ROUND);
  }

  using Canvas::disc;
  using Canvas::fill;
  using Canvas::text;

  void fill(std::span<const Position> corners, const Color& color) override {
    trace(corners);
    cairo_close_path(context_);
    set(color);
    cairo_fill(context_);
  }

  void lines(std::span<const Position> corners, const Stroke& stroke) override {
    constexpr std::array kDashes = {5.0, 4.0};
    trace(corners);
    set(stroke.color);
    cairo_set_line_width(context_, stroke.width);
    cairo_set_dash(context_, kDashes.data(), stroke.dashed ? static_cast<int>(kDashes.size()) : 0, 0);
    cairo_stroke(context_);
  }

  void disc(const Position& center, double radius, const Color& color, const std::string& /*hint*/) override {
    cairo_new_path(context_);
    cairo_arc(context_, center.x, center.y, radius, 0, 2 * std::numbers::pi);
    set(color);
    cairo_fill_preserve(context_);
    if (radius < kLeastBorderedRadius) return;
    set(kWhite);
    cairo_set_line_width(context_, 1);
    cairo_set_dash(context_, nullptr, 0, 0);
    cairo_stroke(context_);
  }

  void text(const Position& at, const std::string& text, const TextStyle& style, double angle) override {
    const double width = style.align == TextAlign::kLeft ? 0 : text_width(text, style);
    cairo_save(context_);
    set_font(context_, style);
    cairo_translate(context_, at.x, at.y);
    cairo_rotate(context_, angle);
    cairo_move_to(context_, style.align == TextAlign::kCenter ? -width / 2 : -width, 0);
    set(style.color);
    cairo_show_text(context_, text.c_str());
    cairo_restore(context_);
  }

  void cells(const Box& box, std::size_t columns, std::span<const Color> colors) override {
    const Surface image = image_of_cells(box, columns, colors);
    if (cairo_surface_status(image.get()) != CAIRO_STATUS_SUCCESS) {
      cairo_set_source_surface(context_, image.get(), 0, 0);  // draw_png() sees the context's status
      return;
    }
    cairo_save(context_);
    cairo_translate(context_, box.x, box.y);
    cairo_scale(context_, box.width / cairo_image_surface_get_width(image.get()),
                box.height / cairo_image_surface_get_height(image.get()));
    cairo_set_source_surface(context_, image.get(), 0, 0);
    cairo_pattern_set_filter(cairo_get_source(context_), CAIRO_FILTER_NEAREST);
    cairo_paint(context_);
    cairo_restore(context_);
  }

 private:
  void set(const Color& color) const { cairo_set_source_rgb(context_, color.red, color.green, color.blue); }
  void trace(std::span<const Position> corners) const {
    cairo_new_path(context_);
    for (const Position& corner : corners) cairo_line_to(context_, corner.x, corner.y);
  }
  cairo_t* context_;
};

}  // namespace

Result<void> check_support() {
  return {};
}

double text_width(const std::string& text, const TextStyle& style) {
  thread_local const Context scratch(cairo_create(make_surface(1, 1).get()));
  cairo_text_extents_t extents{};
  set_font(scratch.get(), style);
  cairo_text_extents(scratch.get(), text.c_str(), &extents);
  return extents.x_advance;
}

std::string missing_glyphs(std::span<const std::string> texts) {
  const Context scratch(cairo_create(make_surface(1, 1).get()));
  set_font(scratch.get(), {});
  cairo_scaled_font_t* const font = cairo_get_scaled_font(scratch.get());
  std::string missing;
  for (const std::string& text : texts) {
    cairo_glyph_t* glyphs = nullptr;
    int count = 0;
    cairo_text_cluster_t* clusters = nullptr;  // the bytes of each character, and the glyphs that they become
    int cluster_count = 0;
    cairo_text_cluster_flags_t flags{};
    cairo_scaled_font_text_to_glyphs(font, 0, 0, text.data(), static_cast<int>(text.size()), &glyphs, &count,
                                     &clusters, &cluster_count, &flags);
    std::size_t byte = 0;
    int glyph = 0;
    for (int i = 0; i < cluster_count; ++i) {
      const std::string character = text.substr(byte, static_cast<std::size_t>(clusters[i].num_bytes));
      const bool is_there =
          clusters[i].num_glyphs == 0 || glyphs[glyph].index != 0;  // 0: the font's empty box
      if (!is_there && missing.find(character) == std::string::npos) missing += character;
      byte += character.size();
      glyph += clusters[i].num_glyphs;
    }
    cairo_glyph_free(glyphs);
    cairo_text_cluster_free(clusters);
  }
  return missing;
}

std::string png_of_cells(const Box& box, std::size_t columns, std::span<const Color> colors) {
  std::string bytes;
  cairo_surface_write_to_png_stream(image_of_cells(box, columns, colors).get(), append, &bytes);
  return bytes;
}

Result<std::string> draw_png(double width, double height, const Draw& draw) {
  std::string bytes;
  const Surface surface = make_surface(width * kPngScale, height * kPngScale);
  cairo_surface_set_device_scale(surface.get(), kPngScale, kPngScale);
  const Context context(cairo_create(surface.get()));
  PngCanvas canvas(context.get());
  canvas.Canvas::fill(Box{0, 0, width, height}, kWhite);
  draw(canvas);
  cairo_status_t status = cairo_status(context.get());
  if (status == CAIRO_STATUS_SUCCESS)
    status = cairo_surface_write_to_png_stream(surface.get(), append, &bytes);
  if (status == CAIRO_STATUS_SUCCESS) return bytes;
  return Error{ErrorCode::kIo,
               {},
               "the picture of " + std::to_string(std::lround(width)) + " x " +
                   std::to_string(std::lround(height)) +
                   " could not be drawn: " + cairo_status_to_string(status)};
}

}  // namespace vkattn::picture
