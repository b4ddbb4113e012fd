// The common part of all formats: see canvas.hpp.
#include "canvas.hpp"

#include <algorithm>
#include <array>
#include <fstream>

#include "console.hpp"

namespace vkattn::picture {
namespace {

bool is_continuation(char c) {
  return (static_cast<unsigned char>(c) & 0xc0U) == 0x80U;
}

}  // namespace

std::optional<Format> format_of(std::string_view file_name) {
  constexpr std::size_t kEndingLength = 4;
  if (file_name.size() <= kEndingLength) return std::nullopt;
  std::string ending(file_name.substr(file_name.size() - kEndingLength));
  for (char& c : ending) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  }
  if (ending == ".png") return Format::kPng;
  if (ending == ".svg") return Format::kSvg;
  return std::nullopt;
}

void Canvas::fill(const Box& box, const Color& color) {
  const std::array<Position, 4> corners = {
      {{box.x, box.y}, {box.right(), box.y}, {box.right(), box.bottom()}, {box.x, box.bottom()}}};
  fill(corners, color);
}

void Canvas::line(const Position& from, const Position& to, const Stroke& stroke) {
  lines(std::array{from, to}, stroke);
}

void Canvas::outline(const Box& box, const Stroke& stroke) {
  const std::array<Position, 5> corners = {{{box.x, box.y},
                                            {box.right(), box.y},
                                            {box.right(), box.bottom()},
                                            {box.x, box.bottom()},
                                            {box.x, box.y - stroke.width / 2}}};
  lines(corners, stroke);
}

double widest(std::span<const std::string> texts, const TextStyle& style) {
  double width = 0;
  for (const std::string& text : texts) width = std::max(width, text_width(text, style));
  return width;
}

std::string fitted(std::string text, const TextStyle& style, double width) {
  constexpr const char* kEllipsis = "\xe2\x80\xa6";
  if (text_width(text, style) <= width) return text;
  while (!text.empty() && text_width(text + kEllipsis, style) > width) {
    while (text.size() > 1 && is_continuation(text.back())) text.pop_back();
    text.pop_back();
  }
  return text + kEllipsis;
}

std::vector<std::string> wrapped(const std::string& text, const TextStyle& style, double width) {
  std::vector<std::string> lines;
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = std::min(text.find(' ', begin), text.size());
    const std::string word = text.substr(begin, end - begin);
    begin = end + 1;
    if (!lines.empty() && text_width(lines.back() + " " + word, style) <= width) {
      lines.back() += " " + word;
    } else if (!word.empty()) {
      lines.push_back(word);
    }
  }
  return lines;
}

Result<std::string> draw_file(Format format, double width, double height, const Draw& draw) {
  if (const Result<void> support = check_support(); !support.ok()) return support.error();
  if (format == Format::kSvg) return draw_svg(width, height, draw);
  return draw_png(width, height, draw);
}

Result<void> write_file(const std::string& path, const Result<std::string>& picture) {
  if (!picture.ok()) return picture.error();
  std::ofstream file(path, std::ios::binary);
  if (file.write(picture->data(), static_cast<std::streamsize>(picture->size())).flush()) return {};
  return Error{ErrorCode::kIo, {}, path + " cannot be written"};
}

std::string device_and_date(const std::string& device) {
  return device + "  \xc2\xb7  " + console::date_text();
}

}  // namespace vkattn::picture
