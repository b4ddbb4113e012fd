// The charts and times of a report's page: see page_parts.hpp.
#include <cstdlib>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "console.hpp"
#include "picture/charts.hpp"
#include "report/answers.hpp"
#include "report/page_parts.hpp"

namespace vkattn::cli {
namespace {

using Value = std::function<double(const Json& row)>;

double keys_of(const Json& row) {
  const std::string problem = text_of(row, "problem");
  const std::size_t cross = problem.find('x');
  return cross == std::string::npos ? 0 : std::strtod(problem.c_str() + cross + 1, nullptr);
}

/// A section's title and axes.
struct SectionChart {
  const char* section;
  const char* title;
  const char* x_axis;
  const char* y_axis;
};

std::string drawn(const SectionChart& about, std::vector<picture::Series> series) {
  picture::Chart chart;
  chart.title = about.title;
  chart.y_axis = about.y_axis;
  chart.series = std::move(series);
  for (std::size_t i = 0; i < chart.series.size(); ++i) chart.series[i].color = i;
  const std::string svg = draw_chart_for_page(chart, about.x_axis);
  return svg.empty() ? svg : "<figure>" + svg + "</figure>\n";
}

/// A line for each step of a section, over the keys.
std::string sweep_chart(const Json& report, const SectionChart& about, const Value& value) {
  std::vector<picture::Series> lines;
  for (const Json* const step : steps_of(report, about.section)) {
    picture::Series line{text_of(*step, "name"), {}};
    for (const Json& row : rows_of(*step)) {
      if (text_of(row, "outcome") == "measured") line.points.push_back({keys_of(row), value(row)});
    }
    lines.push_back(std::move(line));
  }
  return drawn(about, std::move(lines));
}

/// One line over the steps' names.
std::string splits_chart(const Json& report) {
  picture::Series line{"median", {}};
  for (const Json* const step : steps_of(report, "splits")) {
    const Json& rows = rows_of(*step);
    if (rows.size() != 1 || text_of(rows[0], "outcome") != "measured") continue;
    line.points.push_back(
        {std::strtod(text_of(*step, "name").c_str(), nullptr), number_of(rows[0], "median_ms") * 1e3});
  }
  return drawn(
      {"splits", "Splits: one token, 32 query and 8 KV heads, 32k keys", "parts of the keys", "microseconds"},
      {line});
}

std::string sweep_table(const Json& report) {
  std::string rows;
  for (const char* const name : {"peaks", "prefill", "decode", "fixed", "splits", "backward", "matmul"}) {
    for (const Json* const step : steps_of(report, name)) {
      for (const Json& row : rows_of(*step)) {
        const bool measured = text_of(row, "outcome") == "measured";
        rows +=
            "<tr><td>" + picture::escaped(text_of(row, "problem")) +
            (name == std::string("splits") ? picture::escaped(", parts: " + text_of(*step, "name")) : "") +
            "</td><td>" + picture::escaped(text_of(row, "kernel")) + "</td>";
        rows += measured ? cell("n", console::duration(number_of(row, "median_ms") * 1e6)) +
                               cell("n", console::duration(number_of(row, "p5_ms") * 1e6) + " to " +
                                             console::duration(number_of(row, "p95_ms") * 1e6)) +
                               cell("n", console::significant(number_of(row, "gflops_per_second"))) +
                               cell("n", console::significant(number_of(row, "gbytes_per_second")))
                         : "<td colspan=\"4\">" +
                               picture::escaped(text_of(row, "outcome") + ": " + text_of(row, "message")) +
                               "</td>";
        rows += "</tr>\n";
      }
    }
  }
  if (rows.empty()) return {};
  return "<details><summary>All times</summary><table><tr><th>problem</th><th>kernel</th><th>median</th>"
         "<th>5th to 95th percentile</th><th>GFLOP/s</th><th>GB/s</th></tr>\n" +
         rows + "</table></details>\n";
}

}  // namespace

std::string speed_part(const Json& report) {
  const auto tflops = [](const Json& row) { return number_of(row, "gflops_per_second"); };
  const auto gbytes = [](const Json& row) { return number_of(row, "gbytes_per_second"); };
  const auto micros = [](const Json& row) { return number_of(row, "median_ms") * 1e3; };
  return sweep_chart(report, {"prefill", "Prefill, 16 heads", "queries and keys", "GFLOP/s"}, tflops) +
         sweep_chart(report, {"decode", "Decode: rows of each of 8 KV heads, d128 f16", "keys", "GB/s"},
                     gbytes) +
         sweep_chart(report,
                     {"fixed", "Fixed cost: one token, 32 query and 8 KV heads", "keys", "microseconds"},
                     micros) +
         splits_chart(report) +
         sweep_chart(report, {"backward", "Gradients, 16 heads", "queries and keys", "GFLOP/s"}, tflops) +
         sweep_chart(report, {"matmul", "Matrix multiplication, square", "rows and columns", "GFLOP/s"},
                     tflops) +
         sweep_table(report);
}

}  // namespace vkattn::cli
