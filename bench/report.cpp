// Prints the table of a benchmark.
#include "report.hpp"

#include <algorithm>
#include <array>

#include "console.hpp"
#include "json.hpp"
#include "problem/words.hpp"

namespace vkattn::bench {
namespace {

using console::pad_left;
using console::pad_right;
using console::significant;

constexpr std::size_t kWidestName = 40;
constexpr std::size_t kLabelWidth = 10;

/// A label, and text beside it that is wrapped in a column of its own.
std::string described(std::string_view label, std::string_view text, std::size_t width) {
  return console::labelled(label, text, kLabelWidth, 0, width);
}

std::string flops_text(double rate) {
  return rate >= 1e12 ? significant(rate * 1e-12) + " TFLOP/s" : significant(rate * 1e-9) + " GFLOP/s";
}

std::string bytes_text(double rate) {
  return significant(rate * 1e-9) + " GB/s";
}

/// One entry of the peaks: its name, its rate and the fastest variant.
std::string peak_line(std::string_view label, std::string_view what, const std::string& figure,
                      const std::string& variant, std::size_t width) {
  const std::string start = pad_right(label, kLabelWidth) + pad_right(what, 18) + pad_left(figure, 14);
  return variant.empty() ? start + "\n" : console::labelled(start, variant, start.size() + 3, 0, width);
}

std::string matrix_lines(const Peaks& peaks, std::size_t width) {
  std::string text;
  std::string missing;  // one line for all types that are missing for one reason
  std::string reason;
  const auto flush = [&] {
    if (!missing.empty()) {
      text += described("", "matrix " + missing + ": none (" + reason + ")", width);
    }
    missing.clear();
  };
  for (const MatrixPeak& entry : peaks.matrix) {
    const std::string types = entry.operand + "->" + entry.accumulator;
    if (entry.missing.empty()) {
      flush();
      text += peak_line("", "matrix " + types, flops_text(entry.peak.rate), entry.peak.variant, width);
      continue;
    }
    if (entry.missing != reason) flush();
    reason = entry.missing;
    missing += (missing.empty() ? "" : ", ") + types;
  }
  flush();
  return text;
}

std::string memory_lines(const Peaks& peaks, std::size_t width) {
  std::string text = peak_line("", "memory copy", bytes_text(peaks.copy.rate), peaks.copy.variant, width);
  text += peak_line("", "memory read", bytes_text(peaks.read.rate), peaks.read.variant, width);
  std::string cached;
  for (std::size_t i = 0; i + 1 < peaks.memory.size(); ++i) {
    const MemoryPoint& point = peaks.memory[i];
    cached += (cached.empty() ? "" : ", ") + console::bytes(static_cast<double>(point.working_set_bytes)) +
              " " + significant(std::max(point.copy_rate, point.read_rate) * 1e-9);
  }
  if (!cached.empty()) {
    text += described("", "smaller sets, GB/s: " + cached, width);
  }
  return text;
}

/// What recording cost the host, over all measured rows. Empty if no row was measured.
std::string record_line(const std::vector<Row>& rows) {
  double least = 0, most = 0;
  std::uint64_t allocations = 0;
  bool counted = true;
  for (const Row& row : rows) {
    if (row.outcome != Outcome::kMeasured || row.record.median_ns <= 0) continue;
    least = most == 0 ? row.record.median_ns : std::min(least, row.record.median_ns);
    most = std::max(most, row.record.median_ns);
    counted = counted && row.record.allocations;
    allocations = std::max(allocations, row.record.allocations.value_or(0));
  }
  if (most == 0) return "";
  const std::string low = console::duration(least), high = console::duration(most);
  return "recording took " + (low == high ? high : low + " to " + high) + " of the host's time" +
         (!counted           ? ""
          : allocations == 0 ? ", without an allocation"
                             : ", with up to " + console::count(allocations, "allocation")) +
         "\n";
}

std::size_t widest_name(const std::vector<NamedProblem>& problems) {
  std::size_t width = 0;
  for (const NamedProblem& problem : problems) width = std::max(width, console::display_width(problem.name));
  return std::min(width, kWidestName);
}

/// Colours the first word of a remark, which is the outcome.
std::string with_colored_outcome(std::string_view remark, Outcome outcome) {
  const std::size_t end = std::min(remark.find(':'), remark.size());
  const bool is_bad = outcome == Outcome::kWrong || outcome == Outcome::kFailed;
  return console::colored(remark.substr(0, end), is_bad ? console::Color::kRed : console::Color::kYellow) +
         std::string(remark.substr(end));
}

}  // namespace

std::string count_rows(const Report& report, std::size_t rows) {
  return console::count(rows, report.kernels.size() > 1 ? "measurement" : "problem");
}

std::string_view name(Outcome outcome) {
  switch (outcome) {
    case Outcome::kMeasured:
      return "measured";
    case Outcome::kSkipped:
      return "skipped";
    case Outcome::kRefused:
      return "refused";
    case Outcome::kWrong:
      return "wrong";
    case Outcome::kFailed:
      break;
  }
  return "failed";
}

TextReport::TextReport(const Report& report, const std::vector<NamedProblem>& problems, std::size_t width,
                       bool has_colors)
    : report_(report), table_(report, widest_name(problems), width), width_(width), has_colors_(has_colors) {}

std::string TextReport::head() const {
  const Capabilities& device = report_.device;
  const std::string name = device.device_name + " - " + device_type_text(device.device_type);
  const std::string driver = ", " + device.driver_name + " " + device.driver_info;
  std::string text = described("device", console::printable(name + driver), width_);
  text += described("timing", report_.device_timestamps ? "device timestamps" : "the host's clock", width_);
  if (report_.peaks.measured()) {
    text += peak_line("peaks", "multiply-add f32", flops_text(report_.peaks.multiply_add.rate),
                      report_.peaks.multiply_add.variant, width_);
    if (report_.options.plan.arithmetic_type != DataType::kFloat32) {
      text +=
          described("", "float16 arithmetic may exceed multiply-add f32: no share of it is given", width_);
    }
    text += matrix_lines(report_.peaks, width_) + memory_lines(report_.peaks, width_);
  } else {
    text += described("peaks", "not measured", width_);
  }
  return text + "\n" + table_.head();
}

std::string TextReport::remark(const Row& row) const {
  switch (row.outcome) {
    case Outcome::kMeasured:
      if (row.above_peak()) {
        return "above 100 % of the measured peak: a bug of the measurement, please report it";
      }
      return row.forward_ns > 0 ? "takes " + significant(row.times_forward()) + " times its forward pass, " +
                                      console::duration(row.forward_ns) + " by " + row.forward_kernel
                                : "";
    case Outcome::kSkipped:
      return "skipped: one run would take about " + console::duration(row.predicted_ns) + ", and " +
             std::to_string(kLeastRepeats + 1) + " of them do not fit --max-seconds " +
             number_text(report_.options.max_seconds);
    case Outcome::kRefused:
      return "refused: " + row.message;
    case Outcome::kWrong:
      return "WRONG: " + row.message;
    case Outcome::kFailed:
      break;
  }
  return "FAILED: " + row.message;
}

std::string TextReport::row(const Row& row) const {
  std::vector<std::string> name_lines = console::wrap(row.name, table_.name_width());
  std::string text = pad_right(name_lines.front(), table_.name_width());
  const std::string note = remark(row);
  if (row.outcome == Outcome::kMeasured) {
    text += table_.figures(row);
  } else {
    const std::vector<std::string> lines = console::wrap(note, width_ - table_.name_width() - 2);
    for (std::size_t i = 0; i < lines.size(); ++i) {
      if (i >= name_lines.size()) name_lines.emplace_back();
      text += i == 0 ? "  " + (has_colors_ ? with_colored_outcome(lines[i], row.outcome) : lines[i])
                     : "\n" + pad_right(name_lines[i], table_.name_width()) + "  " + lines[i];
    }
    name_lines.erase(
        name_lines.begin() + 1,
        name_lines.begin() + static_cast<std::ptrdiff_t>(std::max<std::size_t>(1, lines.size())));
  }
  text += "\n";
  for (std::size_t i = 1; i < name_lines.size(); ++i) text += name_lines[i] + "\n";
  if (row.outcome == Outcome::kMeasured && !note.empty()) text += console::labelled("", note, 2, 0, width_);
  if (row.outcome == Outcome::kWrong || row.outcome == Outcome::kFailed) {
    const std::string& kernel = row.kernel.empty() ? report_.kernels.at(row.kernel_index) : row.kernel;
    text +=
        "  repeat with: vkattn bench \"" + row.problem + "\"" +
        (kernel.empty() ? "" : " --kernel " + kernel) +
        console::printable((row.has_score_function ? report_.score_options : "") + report_.repeat_options) +
        "\n";
  }
  return text;
}

std::string TextReport::foot() const {
  std::array<std::size_t, 5> counts{};
  std::int64_t rows_checked = 0;
  for (const Row& row : report_.rows) {
    ++counts.at(static_cast<std::size_t>(row.outcome));
    rows_checked += row.check.rows_checked;
  }
  std::string text = "\n" + count_rows(report_, report_.rows.size());
  for (std::size_t i = 0; i < counts.size(); ++i) {
    if (i == 0 || counts.at(i) != 0) {
      text += (i == 0 ? ": " : ", ") + std::to_string(counts.at(i)) + " " +
              std::string(name(static_cast<Outcome>(i)));
    }
  }
  text += "\n" + record_line(report_.rows);
  if (rows_checked == 0) return text;
  const bool wrong = counts.at(static_cast<std::size_t>(Outcome::kWrong)) != 0;
  return text + console::count(static_cast<std::uint64_t>(rows_checked), "output row") +
         " compared with the reference, " + (wrong ? "NOT all" : "all") + " within tolerance\n";
}

}  // namespace vkattn::bench
