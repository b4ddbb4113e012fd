#include "engine/picture.hpp"

#include "picture/head.hpp"

namespace engine {

namespace picture = vkattn::picture;

vkattn::Result<void> save(const FramePicture& frame, const std::string& path) {
  constexpr double kZoom = 4, kLeft = 62, kBottom = 44;
  std::vector<picture::Color> colors;
  for (const std::uint32_t pixel : frame.pixels) {
    const auto part = [&](unsigned shift) { return static_cast<double>(pixel >> shift & 255U) / 255; };
    colors.push_back({part(0), part(8), part(16)});
  }
  const double width = kZoom * frame.width,
               height = kZoom * static_cast<double>(frame.pixels.size() / frame.width);
  const double whole_width = width + kLeft + picture::kPictureMargin;
  const picture::Head head({"A frame of a renderer: attention's output as bars",
                            "one query over " + std::to_string(frame.keys) + " keys  \xc2\xb7  " +
                                picture::device_and_date(frame.device),
                            "",
                            {}},
                           whole_width);
  const picture::Box box = {kLeft, head.bottom() + 22, width, height};
  const auto draw = [&](picture::Canvas& canvas) {
    head.draw(canvas);
    canvas.cells(box, frame.width, colors);
    for (const int value : {-1, 0, 1}) {
      const double y = box.center().y - value * box.height / 2;
      canvas.line({box.x - 4, y}, {box.x, y}, {picture::kSoftInk});
      canvas.text({box.x - 8, y + 4}, std::to_string(value), picture::kUprightText);
    }
    for (std::uint32_t i = 0; i < frame.heads; ++i)
      canvas.text({box.x + box.width * (i + 0.5) / frame.heads, box.bottom() + 19},
                  "head " + std::to_string(i), picture::kAcrossText);
  };
  return picture::write_file(path,
                             draw_file(picture::Format::kPng, whole_width, box.bottom() + kBottom, draw));
}

}  // namespace engine
