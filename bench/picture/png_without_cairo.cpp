// Replaces png.cpp if cairo was not found.
#include "canvas.hpp"

namespace vkattn::picture {

Result<void> check_support() {
  return Error{ErrorCode::kUnsupported,
               {},
               "--plot is not in this build: install cairo's development files (Debian: libcairo2-dev and "
               "pkg-config), configure again and rebuild"};
}

Result<std::string> draw_png(double /*width*/, double /*height*/, const Draw& /*draw*/) {
  return check_support().error();
}

std::string png_of_cells(const Box& /*box*/, std::size_t /*columns*/, std::span<const Color> /*colors*/) {
  return {};
}

std::string missing_glyphs(std::span<const std::string> /*texts*/) {
  return {};
}

double text_width(const std::string& text, const TextStyle& style) {
  constexpr double kMean = 0.58,
                   kBold = 0.66;  // mean width of a character in DejaVu Sans, as a share of the font's size
  double characters = 0;
  for (const char c : text) characters += (static_cast<unsigned char>(c) & 0xc0U) == 0x80U ? 0 : 1;
  return characters * style.size * (style.bold ? kBold : kMean);
}

}  // namespace vkattn::picture
