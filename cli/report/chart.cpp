// Line charts: see chart.hpp.
#include "report/chart.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <set>
#include <string_view>

#include "console.hpp"

namespace vkattn::cli {
namespace {

constexpr double kWidth = 560, kHeight = 300;
constexpr double kLeft = 64, kRight = 14, kTop = 34, kBottom = 48;
/// Told apart by people who see few colours, too (Okabe and Ito).
constexpr std::array<const char*, 6> kColours = {"#0072b2", "#d55e00", "#009e73",
                                                 "#cc79a7", "#e69f00", "#56b4e9"};

/// Of rates and of lengths: 1024 is 1k.
std::string short_number(double x) {
  constexpr double kKilo = 1024;
  if (x >= kKilo && std::fmod(x, kKilo) == 0) return console::fixed(x / kKilo, 0) + "k";
  return console::fixed(x, 0);
}

/// 1, 2 or 5 times a power of ten, at least that much.
double round_step(double least) {
  const double power = std::pow(10, std::floor(std::log10(least)));
  for (const double factor : {1.0, 2.0, 5.0}) {
    if (factor * power >= least) return factor * power;
  }
  return 10 * power;
}

std::string number(double value) {
  return console::fixed(value, 1);
}

struct Frame {
  double first_x = 0, last_x = 1, most_y = 1, step_y = 1;

  explicit Frame(const Chart& chart) {
    double most = 0;
    first_x = HUGE_VAL;
    last_x = 0;
    for (const Chart::Line& line : chart.lines) {
      for (const auto& [x, y] : line.points) {
        first_x = std::min(first_x, x);
        last_x = std::max(last_x, x);
        most = std::max(most, y);
      }
    }
    constexpr double kMarks = 5;
    step_y = round_step(most > 0 ? most / kMarks : 1);
    most_y = step_y * std::ceil(most > 0 ? most / step_y : 1);
  }
  [[nodiscard]] double x(double value) const {
    const double share = last_x > first_x ? std::log(value / first_x) / std::log(last_x / first_x) : 0.5;
    return kLeft + share * (kWidth - kLeft - kRight);
  }
  [[nodiscard]] double y(double value) const {
    return kHeight - kBottom - value / most_y * (kHeight - kTop - kBottom);
  }
};

std::string text_at(double x, double y, std::string_view anchor, std::string_view text,
                    std::string_view more = "") {
  return "<text x=\"" + number(x) + "\" y=\"" + number(y) + "\" text-anchor=\"" + std::string(anchor) + "\"" +
         std::string(more) + ">" + escaped(text) + "</text>\n";
}

std::string draw_axes(const Chart& chart, const Frame& frame) {
  std::string svg;
  const int digits = frame.step_y >= 1 ? 0 : static_cast<int>(std::ceil(-std::log10(frame.step_y)));
  for (double y = 0; y <= frame.most_y * 1.001; y += frame.step_y) {
    svg += "<path class=\"grid\" d=\"M" + number(kLeft) + " " + number(frame.y(y)) + "H" +
           number(kWidth - kRight) + "\"/>\n";
    svg += text_at(kLeft - 8, frame.y(y) + 4, "end", console::fixed(y, digits));
  }
  std::set<double> marks;
  for (const Chart::Line& line : chart.lines) {
    for (const auto& [x, y] : line.points) marks.insert(x);
  }
  for (const double x : marks) {
    svg += "<path class=\"grid\" d=\"M" + number(frame.x(x)) + " " + number(kTop) + "V" +
           number(kHeight - kBottom) + "\"/>\n";
    svg += text_at(frame.x(x), kHeight - kBottom + 18, "middle", short_number(x));
  }
  const double middle_y = (kHeight - kBottom + kTop) / 2;
  svg += text_at((kWidth + kLeft - kRight) / 2, kHeight - 10, "middle", chart.x_label);
  svg += text_at(16, middle_y, "middle", chart.y_label,
                 " transform=\"rotate(-90 16 " + number(middle_y) + ")\"");
  return svg;
}

std::string draw_line(const Chart::Line& line, const char* colour, const Frame& frame) {
  std::string path, dots;
  for (const auto& [x, y] : line.points) {
    const std::string at = number(frame.x(x)) + " " + number(frame.y(y));
    path += (path.empty() ? "M" : "L") + at;
    dots += "<circle cx=\"" + number(frame.x(x)) + "\" cy=\"" + number(frame.y(y)) + "\" r=\"3.5\" fill=\"" +
            colour + "\"><title>" +
            escaped(line.name + ", " + console::fixed(x, 0) + ": " + console::significant(y)) +
            "</title></circle>\n";
  }
  return "<path d=\"" + path + "\" fill=\"none\" stroke=\"" + colour + "\" stroke-width=\"2\"/>\n" + dots;
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

std::string draw_chart(const Chart& chart) {
  const bool empty = std::ranges::all_of(chart.lines, [](const auto& line) { return line.points.empty(); });
  if (empty) return {};
  const Frame frame(chart);
  std::string svg = "<figure><svg viewBox=\"0 0 " + number(kWidth) + " " + number(kHeight) +
                    "\" role=\"img\" aria-label=\"" + escaped(chart.title) + "\">\n" +
                    text_at(kLeft, 18, "start", chart.title, " class=\"title\"") + draw_axes(chart, frame);
  std::string legend;
  for (std::size_t i = 0; i < chart.lines.size(); ++i) {
    if (chart.lines[i].points.empty()) continue;
    const char* const colour = kColours[i % kColours.size()];
    svg += draw_line(chart.lines[i], colour, frame);
    legend += std::string("<span><i style=\"background:") + colour + "\"></i>" +
              escaped(chart.lines[i].name) + "</span> ";
  }
  if (chart.lines.size() == 1) legend.clear();  // the title names it
  return svg + "</svg>\n<figcaption>" + legend + "</figcaption></figure>\n";
}

}  // namespace vkattn::cli
