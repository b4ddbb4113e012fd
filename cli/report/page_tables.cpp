// The tables of a report's page: see page_parts.hpp.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "console.hpp"
#include "picture/canvas.hpp"
#include "report/answers.hpp"
#include "report/page_parts.hpp"

namespace vkattn::cli {
namespace {

/// Sentences with a number each, the same one for equal sentences.
class Footnotes {
 public:
  explicit Footnotes(std::string prefix) : prefix_(std::move(prefix)) {}

  /// A link to the sentence.
  [[nodiscard]] std::string link(const std::string& sentence) {
    const auto found = std::ranges::find(sentences_, sentence);
    const auto number = static_cast<std::size_t>(found - sentences_.begin()) + 1;
    if (found == sentences_.end()) sentences_.push_back(sentence);
    const std::string text = std::to_string(number);
    return " <sup><a href=\"#" + prefix_ + text + "\">" + text + "</a></sup>";
  }
  [[nodiscard]] std::string list() const {
    if (sentences_.empty()) return {};
    std::string html = "<ol class=\"reasons\">\n";
    for (std::size_t i = 0; i < sentences_.size(); ++i) {
      html +=
          "<li id=\"" + prefix_ + std::to_string(i + 1) + "\">" + picture::escaped(sentences_[i]) + "</li>\n";
    }
    return html + "</ol>\n";
  }

 private:
  std::string prefix_;
  std::vector<std::string> sentences_;
};

/// The step's own sentence, or that of its row.
std::string reason_of(const Json& step) {
  const Json& rows = rows_of(step);
  if (rows.size() == 1 && !text_of(rows[0], "message").empty()) return text_of(rows[0], "message");
  return text_of(step, "message");
}

/// A number where there is one; else the status, with the reason as a footnote.
std::string outcome_cell(const Json& step, Footnotes& reasons) {
  const std::string status = text_of(step, "status"), reason = reason_of(step);
  const Json& rows = rows_of(step);
  const Json* const checked = checked_row(step);
  const bool is_done = status == "done", is_check = text_of(step, "section") == "checks";
  std::string text = status;
  if (is_check && checked != nullptr && (is_done || status == "wrong")) {
    text = (is_done ? "right" : "wrong") + (", largest error " + share_text(*checked));
  } else if (is_done && is_check) {
    text = "not checked";
  } else if (is_done) {
    const bool is_timed = rows.size() == 1 && text_of(rows[0], "outcome") == "measured";
    text = is_timed ? console::duration(number_of(rows[0], "median_ms") * 1e6) : "not timed";
  }
  return "<td class=\"" + status_style(status) + "\">" + picture::escaped(text) +
         (reason.empty() ? "" : reasons.link(reason)) + "</td>";
}

/// Drivers count most things, and JSON has all of them as fractions.
std::string statistic(const Json& value) {
  constexpr double kMostExact = 0x1p53;
  const double number = value.is_number() ? value.get<double>() : 0.5;
  if (number != std::floor(number) || std::abs(number) > kMostExact) return value.dump();
  return std::to_string(static_cast<std::int64_t>(number));
}

}  // namespace

std::string cell(const std::string& style, const std::string& text) {
  return "<td class=\"" + style + "\">" + picture::escaped(text) + "</td>";
}

std::string status_style(const std::string& status) {
  return is_bad(status) ? "bad" : status == "left out" ? "left" : status;
}

std::string kernel_table(const Json& report, const std::string& section) {
  std::vector<std::string> kernels, names;  // of which something was run
  std::map<std::pair<std::string, std::string>, const Json*> cells;
  for (const Json* const step : steps_of(report, section)) {
    const std::string kernel = text_of(*step, "kernel"), name = text_of(*step, "name");
    cells[{name, kernel}] = step;
    if (text_of(*step, "status") == "left out") continue;
    if (std::ranges::find(kernels, kernel) == kernels.end()) kernels.push_back(kernel);
    if (std::ranges::find(names, name) == names.end()) names.push_back(name);
  }
  if (kernels.empty()) return {};
  Footnotes reasons(section);
  std::string html = "<table><tr><th>problem</th>";
  for (const std::string& kernel : kernels) html += "<th>" + picture::escaped(kernel) + "</th>";
  html += "</tr>\n";
  for (const std::string& name : names) {
    html += "<tr><td>" + picture::escaped(name) + "</td>";
    for (const std::string& kernel : kernels) {
      const auto found = cells.find({name, kernel});
      html += found == cells.end() ? "<td></td>" : outcome_cell(*found->second, reasons);
    }
    html += "</tr>\n";
  }
  return html + "</table>\n" + reasons.list();
}

std::string statistics_part(const Json& report) {
  std::string html;
  for (const Json* const step : steps_of(report, "statistics")) {
    if (text_of(*step, "status") == "left out") continue;
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

}  // namespace vkattn::cli
