// The page of `vkattn report`: see page.hpp.
#include "report/page.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "console.hpp"
#include "picture/charts.hpp"

namespace vkattn::cli {
namespace {

constexpr const char* kStyle =
    ":root{color-scheme:light dark;--paper:Canvas;--line:#8884;--soft:#8882}\n"
    "body{font:15px/1.45 system-ui,sans-serif;max-width:75rem;margin:2rem auto;padding:0 1rem}\n"
    "h1{font-size:1.5rem;margin-bottom:.2rem}h2{font-size:1.15rem;margin-top:2.2rem}\n"
    "p.note{opacity:.75;margin-top:.2rem}\n"
    "table{border-collapse:collapse;font-size:.9rem;display:block;overflow-x:auto}\n"
    "th,td{border-bottom:1px solid var(--line);padding:.25rem .7rem;text-align:left;vertical-align:top}\n"
    "td.number{text-align:right;font-variant-numeric:tabular-nums}\n"
    ".done{color:#0a7d4b}.refused,.left{opacity:.6}.bad{color:#c22;font-weight:600}\n"
    "figure{display:inline-block;width:36rem;max-width:100%;margin:.6rem 0}\n"
    "figure svg,.roofline svg{width:100%;height:auto}\n"
    ".roofline{background:#fff;max-width:56rem}\n"
    "pre,code{font:.85rem/1.4 "
    "ui-monospace,monospace}pre{background:var(--soft);padding:.6rem;overflow-x:auto}\n";

std::string text_of(const Json& json, const char* name) {
  const auto found = json.find(name);
  return found != json.end() && found->is_string() ? found->get<std::string>() : std::string();
}

double number_of(const Json& json, const char* name) {
  const auto found = json.find(name);
  return found != json.end() && found->is_number() ? found->get<double>() : 0;
}

std::vector<const Json*> steps_of(const Json& report, const std::string& section) {
  std::vector<const Json*> steps;
  for (const Json& step : report["steps"]) {
    if (text_of(step, "section") == section) steps.push_back(&step);
  }
  return steps;
}

/// Rows of `vkattn bench --json`; none where a step has none.
const Json& rows_of(const Json& step) {
  static const Json none = Json::array();
  const auto data = step.find("data");
  if (data == step.end() || !data->is_object()) return none;
  const auto rows = data->find("results");
  return rows != data->end() && rows->is_array() ? *rows : none;
}

bool is_bad(const std::string& status) {
  return status == "wrong" || status == "failed" || status == "crashed" || status == "hung";
}

std::string cell(const std::string& style, const std::string& text, const std::string& title = "") {
  return "<td class=\"" + style + "\"" + (title.empty() ? "" : " title=\"" + picture::escaped(title) + "\"") +
         ">" + picture::escaped(text) + "</td>";
}

std::string status_cell(const Json& step) {
  const std::string status = text_of(step, "status");
  const std::string style = is_bad(status) ? "bad" : status == "left out" ? "left" : status;
  return cell(style, status, text_of(step, "message"));
}

std::string section(const std::string& title, const std::string& note, const std::string& body) {
  if (body.empty()) return {};
  return "<h2>" + picture::escaped(title) + "</h2>\n<p class=\"note\">" + picture::escaped(note) + "</p>\n" +
         body;
}

std::string head(const Json& report) {
  const Json& device = report["device"];
  std::string html = "<h1>vkattn report: ";
  html += device.is_object() ? picture::escaped(text_of(device, "name")) : "no device";
  html += "</h1>\n<p class=\"note\">";
  if (device.is_object()) {
    html += picture::escaped(text_of(device, "type") + ", " + text_of(device, "driver") + " " +
                             text_of(device, "driver_info") + ", Vulkan " + text_of(device, "api_version")) +
            "<br>";
  }
  return html +
         picture::escaped("vkattn " + text_of(report, "version") + ", " + text_of(report, "date") + ", ") +
         "<code>" + picture::escaped(text_of(report, "command")) + "</code></p>\n";
}

/// Counts, and each step that did not go as it should.
std::string summary(const Json& report) {
  std::map<std::string, int> counts;
  std::string bad;
  for (const Json& step : report["steps"]) {
    const std::string status = text_of(step, "status");
    ++counts[status];
    if (!is_bad(status)) continue;
    bad += "<tr>" + status_cell(step) + "<td>" + picture::escaped(text_of(step, "message")) +
           "</td><td><code>" + picture::escaped(text_of(step, "command")) + "</code></td></tr>\n";
  }
  std::string html = "<p>";
  for (const char* const status : {"done", "refused", "left out", "wrong", "failed", "crashed", "hung"}) {
    if (counts[status] == 0) continue;
    html += "<span class=\"" + std::string(is_bad(status) ? "bad" : "") + "\">" +
            std::to_string(counts[status]) + " " + status + "</span> &nbsp; ";
  }
  html += "</p>\n";
  return bad.empty() ? html
                     : html + "<table><tr><th></th><th>what happened</th><th>repeat with</th></tr>\n" + bad +
                           "</table>\n";
}

std::string checks(const Json& report) {
  std::vector<std::string> kernels, problems;
  std::map<std::pair<std::string, std::string>, const Json*> cells;
  for (const Json* const step : steps_of(report, "checks")) {
    const std::string kernel = text_of(*step, "kernel"), problem = text_of(*step, "name");
    if (std::ranges::find(kernels, kernel) == kernels.end()) kernels.push_back(kernel);
    if (std::ranges::find(problems, problem) == problems.end()) problems.push_back(problem);
    cells[{problem, kernel}] = step;
  }
  if (kernels.empty()) return {};
  std::string html = "<table><tr><th>problem</th>";
  for (const std::string& kernel : kernels) html += "<th>" + picture::escaped(kernel) + "</th>";
  html += "</tr>\n";
  for (const std::string& problem : problems) {
    html += "<tr><td>" + picture::escaped(problem) + "</td>";
    for (const std::string& kernel : kernels) {
      const Json* const step = cells[{problem, kernel}];
      if (step == nullptr) {
        html += "<td></td>";
        continue;
      }
      const Json& rows = rows_of(*step);
      const bool checked = rows.size() == 1 && rows[0].contains("check");
      const bool right = checked && text_of(*step, "status") == "done";
      html += right ? cell("done", "right, " + console::significant(
                                                   number_of(rows[0]["check"], "largest_share_of_tolerance")))
                    : status_cell(*step);
    }
    html += "</tr>\n";
  }
  return html + "</table>\n";
}

std::string peaks(const Json& report, const std::string& roofline) {
  std::string html;
  for (const Json* const step : steps_of(report, "peaks")) {
    const auto data = step->find("data");
    if (data == step->end() || !data->is_object() || !data->contains("peaks") ||
        !(*data)["peaks"].is_object())
      continue;
    const Json& found = (*data)["peaks"];
    const auto line = [&](const std::string& what, double rate, const char* unit) {
      html += "<tr><td>" + picture::escaped(what) + "</td>" +
              cell("number", console::significant(rate) + " " + unit) + "</tr>\n";
    };
    html += "<table>\n";
    if (found.contains("multiply_add_f32"))
      line("multiply-add, f32", number_of(found["multiply_add_f32"], "flops_per_second") * 1e-9, "GFLOP/s");
    if (found.contains("matrix")) {
      for (const Json& matrix : found["matrix"]) {
        if (matrix.contains("missing")) continue;
        line("matrices, " + text_of(matrix, "operand") + " to " + text_of(matrix, "accumulator") + ", " +
                 text_of(matrix, "shape"),
             number_of(matrix, "flops_per_second") * 1e-9, "GFLOP/s");
      }
    }
    for (const char* const what : {"copy", "read"}) {
      if (found.contains(what)) line(what, number_of(found[what], "bytes_per_second") * 1e-9, "GB/s");
    }
    html += "</table>\n";
  }
  // A picture's own declaration has no place inside of a page.
  const std::size_t begin = roofline.find("<svg");
  if (begin != std::string::npos) html += "<div class=\"roofline\">" + roofline.substr(begin) + "</div>\n";
  return html;
}

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
        rows += measured ? cell("number", console::duration(number_of(row, "median_ms") * 1e6)) +
                               cell("number", console::duration(number_of(row, "p5_ms") * 1e6) + " to " +
                                                  console::duration(number_of(row, "p95_ms") * 1e6)) +
                               cell("number", console::significant(number_of(row, "gflops_per_second"))) +
                               cell("number", console::significant(number_of(row, "gbytes_per_second")))
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

std::string charts(const Json& report) {
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

/// Drivers count most things, and JSON has all of them as fractions.
std::string statistic(const Json& value) {
  constexpr double kMostExact = 0x1p53;
  const double number = value.is_number() ? value.get<double>() : 0.5;
  if (number != std::floor(number) || std::abs(number) > kMostExact) return value.dump();
  return std::to_string(static_cast<std::int64_t>(number));
}

std::string statistics(const Json& report) {
  std::string html;
  for (const Json* const step : steps_of(report, "statistics")) {
    html += "<tr><td>" + picture::escaped(text_of(*step, "kernel")) + "</td><td>" +
            picture::escaped(text_of(*step, "name")) + "</td>";
    const auto data = step->find("data");
    if (data == step->end() || !data->is_object() || !data->contains("pipelines")) {
      html += "<td>" + picture::escaped(text_of(*step, "status") + ": " + text_of(*step, "message")) +
              "</td></tr>\n";
      continue;
    }
    html += "<td>";
    for (const Json& pipeline : (*data)["pipelines"]) {
      html += "<b>" + picture::escaped(text_of(pipeline, "pipeline")) + "</b>";
      const auto entries = pipeline.find("statistics");
      if (entries != pipeline.end()) {
        for (const auto& [name, value] : entries->items())
          html += "; " + picture::escaped(name) + " " + picture::escaped(statistic(value));
      }
      html += "<br>";
    }
    html += "</td></tr>\n";
  }
  if (html.empty()) return {};
  return "<table><tr><th>kernel</th><th>problem</th><th>the driver's statistics</th></tr>\n" + html +
         "</table>\n";
}

std::string tuning(const Json& report) {
  std::string html;
  for (const Json* const step : steps_of(report, "tune")) {
    html += "<pre>" +
            picture::escaped(text_of(*step, "data").empty()
                                 ? text_of(*step, "status") + ": " + text_of(*step, "message")
                                 : text_of(*step, "data")) +
            "</pre>\n";
  }
  return html;
}

std::string commands(const Json& report) {
  std::string html;
  for (const Json& step : report["steps"]) {
    html += "<tr>" + status_cell(step) +
            cell("number", console::fixed(number_of(step, "seconds"), 1) + " s") + "<td><code>" +
            picture::escaped(text_of(step, "command")) + "</code></td><td>" +
            picture::escaped(text_of(step, "message")) + "</td></tr>\n";
  }
  return "<details><summary>All commands</summary><table>" + html + "</table></details>\n";
}

}  // namespace

std::string report_page(const Json& report, const std::string& roofline) {
  return "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\n"
         "<meta name=\"viewport\" content=\"width=device-width\"><title>vkattn report</title>\n<style>\n" +
         std::string(kStyle) + "</style></head><body>\n" + head(report) + summary(report) +
         section(
             "Peaks",
             "What the device was measured to reach, and the problems of a small suite under these roofs.",
             peaks(report, roofline)) +
         section(
             "Checks",
             "Each kernel against a float64 reference; the number is the largest error as a share of the "
             "tolerance. Refused: the kernel does not take the problem, for the reason under the pointer.",
             checks(report)) +
         section("Speed", "Medians of the device's own times, with the kernels that the library chose.",
                 charts(report)) +
         section("Compiler", "What the driver tells of the pipelines.", statistics(report)) +
         section("Tuning", "Measured block sizes against the library's own choice; tuning.json has them.",
                 tuning(report)) +
         section("Commands", "What was run, each in a process of its own.", commands(report)) +
         "</body></html>\n";
}

}  // namespace vkattn::cli
