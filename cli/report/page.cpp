// The page of `vkattn report`: see page.hpp.
#include "report/page.hpp"

#include <algorithm>
#include <string>

#include "console.hpp"
#include "picture/canvas.hpp"
#include "report/answers.hpp"
#include "report/page_parts.hpp"

namespace vkattn::cli {
namespace {

/// Beside picture::page_style().
constexpr const char* kStyle =
    ":root{--line:#8884;--soft:#8882;--right:#0a7d4b;--bad:#c22}\n"
    "@media (prefers-color-scheme:dark){:root{--right:#4cc38a;--bad:#ff7b72}}\n"
    "body{font:15px/1.45 system-ui,sans-serif;max-width:75rem;margin:2rem auto;padding:0 1rem;"
    "background:var(--paper);color:var(--ink)}\n"
    "h1{font-size:1.5rem;margin-bottom:.2rem}h2{font-size:1.15rem;margin-top:2.2rem}\n"
    "p.verdict{font-size:1.15rem;font-weight:600;border-left:.3rem solid var(--right);padding-left:.7rem}\n"
    "p.verdict.bad{border-color:var(--bad)}\n"
    "p.note{opacity:.8;margin-top:.2rem}a{color:inherit}\n"
    "table{border-collapse:collapse;font-size:.9rem;display:block;overflow-x:auto}\n"
    "th,td{border-bottom:1px solid var(--line);padding:.25rem .7rem;text-align:left;vertical-align:top}\n"
    "td.n{text-align:right;font-variant-numeric:tabular-nums}\n"
    ".done{color:var(--right)}.refused,.left{opacity:.75}.bad{color:var(--bad);font-weight:600}\n"
    "ol.reasons{font-size:.85rem}\n"
    "figure{display:inline-block;width:36rem;max-width:100%;margin:.6rem 0}\n"
    "figure svg,.roofline svg{width:100%;height:auto}.roofline{max-width:56rem}\n"
    "pre,code{font:.85rem/1.4 "
    "ui-monospace,monospace}pre{background:var(--soft);padding:.6rem;overflow-x:auto}\n";

std::string status_cell(const Json& step) {
  return cell(status_style(text_of(step, "status")), text_of(step, "status"));
}

std::string section(const std::string& title, const std::string& note, const std::string& body) {
  if (body.empty()) return {};
  return "<h2>" + picture::escaped(title) + "</h2>\n<p class=\"note\">" + picture::escaped(note) + "</p>\n" +
         body;
}

/// A paragraph; none of an empty text.
std::string paragraph(const std::string& style, const std::string& text) {
  return text.empty() ? text : "<p class=\"" + style + "\">" + picture::escaped(text) + "</p>\n";
}

std::string head(const Json& report) {
  const Json& device = report["device"];
  std::string html = "<h1>vkattn report: ";
  html += device.is_object() ? picture::escaped(text_of(device, "name")) : "no device";
  const bool is_good = device.is_object() && count_of_bad(report) == 0;
  html += "</h1>\n" + paragraph(is_good ? "verdict" : "verdict bad", verdict(report) + ".");
  html += "<p class=\"note\">";
  if (device.is_object()) {
    html += picture::escaped(text_of(device, "type") + ", " + text_of(device, "driver") + " " +
                             text_of(device, "driver_info") + ", Vulkan " + text_of(device, "api_version")) +
            "<br>";
  }
  if (const std::string machine = machine_text(report); !machine.empty())
    html += picture::escaped(machine) + "<br>";
  return html +
         picture::escaped("vkattn " + text_of(report, "version") + ", " + text_of(report, "date") + ", ") +
         "<code>" + picture::escaped(text_of(report, "command")) + "</code></p>\n" +
         paragraph("note", left_out_text(report));
}

/// Counts, and each step that did not go as it should.
std::string summary(const Json& report) {
  std::string bad;
  for (const Json& step : report["steps"]) {
    const std::string status = text_of(step, "status");
    if (!is_bad(status)) continue;
    bad += "<tr>" + status_cell(step) + "<td>" + picture::escaped(text_of(step, "message")) +
           "</td><td><code>" + picture::escaped(text_of(step, "command")) + "</code></td></tr>\n";
  }
  std::string html = "<p>";
  for (const char* const status : {"done", "refused", "left out", "wrong", "failed", "crashed", "hung"}) {
    const std::size_t count = count_of(report, {status});
    if (count == 0) continue;
    html += "<span class=\"" + std::string(is_bad(status) ? "bad" : "") + "\">" + std::to_string(count) +
            " " + status + "</span> &nbsp; ";
  }
  html += "</p>\n";
  return bad.empty() ? html
                     : html + "<table><tr><th></th><th>what happened</th><th>repeat with</th></tr>\n" + bad +
                           "</table>\n";
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
              cell("n", console::significant(rate) + " " + unit) + "</tr>\n";
    };
    if (found.contains("multiply_add_f32"))
      line("multiply-add, f32", number_of(found["multiply_add_f32"], "flops_per_second") * 1e-9, "GFLOP/s");
    if (found.contains("matrix")) {
      for (const Json& matrix : found["matrix"]) {
        if (matrix.contains("missing")) continue;
        line("matrices, " + text_of(matrix, "operand") + " to " + text_of(matrix, "accumulator") + ", " +
                 text_of(matrix, "variant"),
             number_of(matrix, "flops_per_second") * 1e-9, "GFLOP/s");
      }
    }
    for (const char* const what : {"copy", "read"}) {
      if (found.contains(what)) line(what, number_of(found[what], "bytes_per_second") * 1e-9, "GB/s");
    }
  }
  if (!html.empty()) html = "<table>\n" + html + "</table>\n";
  // A picture's own declaration has no place inside of a page.
  const std::size_t begin = roofline.find("<svg");
  if (begin != std::string::npos) html += "<div class=\"roofline\">" + roofline.substr(begin) + "</div>\n";
  return html;
}

std::string tuning(const Json& report) {
  std::string html;
  for (const Json* const step : steps_of(report, "tune")) {
    if (text_of(*step, "status") == "left out") continue;
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
    if (text_of(step, "status") == "left out") continue;
    html += "<tr>" + status_cell(step) + cell("n", console::fixed(number_of(step, "seconds"), 1) + " s") +
            "<td><code>" + picture::escaped(text_of(step, "command")) + "</code></td>";
    const std::string message = text_of(step, "message");
    html += (message.empty() ? "" : "<td>" + picture::escaped(message) + "</td>") + "</tr>\n";
  }
  return html.empty() ? html
                      : "<details><summary>All commands</summary><table>" + html + "</table></details>\n";
}

}  // namespace

std::string report_page(const Json& report, const std::string& roofline) {
  return "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\n"
         "<meta name=\"viewport\" content=\"width=device-width\"><title>vkattn report</title>\n<style>\n" +
         picture::page_style() + kStyle + "</style></head><body>\n" + head(report) + summary(report) +
         section("Checks",
                 "Each kernel against a float64 reference. Refused: the kernel does not take the problem.",
                 kernel_table(report, "checks")) +
         section("Kernels", "One problem on each kernel: the median time of an execution.",
                 kernel_table(report, "kernels")) +
         section(
             "Peaks",
             "What the device was measured to reach, and the problems of a small suite under these roofs.",
             peaks(report, roofline)) +
         section("Speed", "Medians of the device's own times, with the kernels that the library chose.",
                 speed_part(report)) +
         section("Compiler", "What the driver tells of the pipelines.", statistics_part(report)) +
         section("Tuning", "Measured block sizes against the library's own choice; tuning.json has them.",
                 tuning(report)) +
         section("Commands", "What was run, each in a process of its own.", commands(report)) +
         "</body></html>\n";
}

}  // namespace vkattn::cli
