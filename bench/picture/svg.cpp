// Writes SVG. Text stays text, so that files are small and can be searched.
#include <array>
#include <cstdint>
#include <numbers>
#include <utility>

#include "canvas.hpp"
#include "console.hpp"

namespace vkattn::picture {
namespace {

std::string number(double value) {
  std::string text = console::fixed(value, 2);
  text.erase(text.find_last_not_of('0') + 1);
  if (text.back() == '.') text.pop_back();
  return text == "-0" ? "0" : text;
}

std::string hexadecimal(const Color& color) {
  constexpr const char* kDigits = "0123456789abcdef";
  std::string text = "#";
  for (const double part : {color.red, color.green, color.blue}) {
    const auto byte = static_cast<unsigned>(part * 255 + 0.5);
    text += {kDigits[byte / 16], kDigits[byte % 16]};
  }
  return text;
}

std::string base64(std::string_view bytes) {
  constexpr const char* kDigits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string text;
  for (std::size_t i = 0; i < bytes.size(); i += 3) {
    std::uint32_t word = 0;
    for (std::size_t k = i; k < i + 3; ++k)
      word = word << 8U | (k < bytes.size() ? static_cast<unsigned char>(bytes[k]) : 0U);
    for (std::size_t k = 0; k < 4; ++k)
      text += i + k > bytes.size() ? '=' : kDigits[word >> (18 - 6 * k) & 63U];
  }
  return text;
}

class SvgCanvas : public Canvas {
 public:
  [[nodiscard]] const std::string& body() const { return body_; }

  using Canvas::disc;
  using Canvas::fill;
  using Canvas::text;

  void fill(std::span<const Position> corners, const Color& color) override {
    body_ += "<path d=\"" + path(corners) + "Z\"" + paint("fill", color) + "/>\n";
  }

  void lines(std::span<const Position> corners, const Stroke& stroke) override {
    body_ += "<path d=\"" + path(corners) + "\"" + (corners.size() > 2 ? " fill=\"none\"" : "") +
             paint("stroke", stroke.color) +
             (stroke.width == 1 ? "" : " stroke-width=\"" + number(stroke.width) + "\"") +
             (stroke.dashed ? " stroke-dasharray=\"5 4\"" : "") + "/>\n";
  }

  void disc(const Position& center, double radius, const Color& color, const std::string& hint) override {
    body_ += "<circle cx=\"" + number(center.x) + "\" cy=\"" + number(center.y) + "\" r=\"" + number(radius) +
             "\"" + paint("fill", color) + (radius < kLeastBorderedRadius ? "" : paint("stroke", kWhite));
    body_ += hint.empty() ? "/>\n" : "><title>" + escaped(hint) + "</title></circle>\n";
  }

  void text(const Position& at, const std::string& text, const TextStyle& style, double angle) override {
    constexpr std::array<const char*, 3> kAnchors = {"", " text-anchor=\"middle\"", " text-anchor=\"end\""};
    const std::string place = number(at.x) + " " + number(at.y);
    body_ += "<text x=\"" + number(at.x) + "\" y=\"" + number(at.y) + "\" font-size=\"" + number(style.size) +
             "\"" + (style.bold ? " font-weight=\"bold\"" : "") +
             kAnchors.at(static_cast<std::size_t>(style.align)) + paint("fill", style.color);
    if (angle != 0)
      body_ += " transform=\"rotate(" + number(angle * 180 / std::numbers::pi) + " " + place + ")\"";
    body_ += ">" + escaped(text) + "</text>\n";
  }

  void cells(const Box& box, std::size_t columns, std::span<const Color> colors) override {
    body_ += "<image x=\"" + number(box.x) + "\" y=\"" + number(box.y) + "\" width=\"" + number(box.width) +
             "\" height=\"" + number(box.height) +
             "\" preserveAspectRatio=\"none\" image-rendering=\"pixelated\" "
             "xlink:href=\"data:image/png;base64," +
             base64(png_of_cells(box, columns, colors)) + "\"/>\n";
  }

 private:
  static std::string path(std::span<const Position> corners) {
    std::string text;
    for (const Position& corner : corners)
      text += (text.empty() ? "M" : "L") + number(corner.x) + " " + number(corner.y);
    return text;
  }

  static std::string paint(const std::string& what, const Color& color) {
    return " " + what + "=\"" + hexadecimal(color) + "\"";
  }

  std::string body_;
};

std::string whole(double width, double height, const std::string& attributes, const SvgCanvas& canvas) {
  return "<svg xmlns=\"http://www.w3.org/2000/svg\" xmlns:xlink=\"http://www.w3.org/1999/xlink\"" +
         attributes + " viewBox=\"0 0 " + number(width) + " " + number(height) +
         "\" font-family=\"DejaVu Sans,Verdana,sans-serif\" stroke-linejoin=\"round\">\n" + canvas.body() +
         "</svg>\n";
}

}  // namespace

std::string escaped(std::string_view text) {
  std::string safe;
  for (const char c : text) {
    switch (c) {
      case '&':
        safe += "&amp;";
        break;
      case '<':
        safe += "&lt;";
        break;
      case '>':
        safe += "&gt;";
        break;
      case '"':
        safe += "&quot;";
        break;
      default:
        safe += c;
    }
  }
  return safe;
}

std::string draw_svg(double width, double height, const Draw& draw) {
  SvgCanvas canvas;
  canvas.fill(Box{0, 0, width, height}, kWhite);
  draw(canvas);
  return "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n" +
         whole(width, height, " width=\"" + number(width) + "\" height=\"" + number(height) + "\"", canvas);
}

std::string draw_for_page(double width, double height, const std::string& name, const Draw& draw) {
  SvgCanvas canvas;
  draw(canvas);
  return whole(width, height, " role=\"img\" aria-label=\"" + escaped(name) + "\"", canvas);
}

std::string page_style() {
  const auto sheet = [](const Color& paper, const Color& ink) {
    return "--paper:" + hexadecimal(paper) + ";--ink:" + hexadecimal(ink) + "}\n";
  };
  std::string rules;
  for (const auto& [light, dark] : kColorPairs) {
    for (const std::string what : {"fill", "stroke"})
      rules += "[" + what + "=\"" + hexadecimal(light) + "\"]{" + what + ":" + hexadecimal(dark) + "}";
    rules += "\n";
  }
  static_assert(kColorPairs[0].light == kWhite && kColorPairs[1].light == kInk);
  return ":root{color-scheme:light dark;" + sheet(kColorPairs[0].light, kColorPairs[1].light) +
         "@media (prefers-color-scheme:dark){\n:root{" + sheet(kColorPairs[0].dark, kColorPairs[1].dark) +
         rules + "}\n";
}

}  // namespace vkattn::picture
