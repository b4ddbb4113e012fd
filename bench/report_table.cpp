// Columns and cells: see report_table.hpp.
#include "report_table.hpp"

#include <algorithm>
#include <iterator>

#include "console.hpp"
#include "report.hpp"

namespace vkattn::bench {
namespace {

using console::significant;

std::string of_work(const Row& row, const std::string& figure) {
  return row.work_known ? figure : "-";
}

std::string share(const Row& row, double of_peak, bool is_known) {
  return is_known ? of_work(row, console::percent(of_peak)) : "-";
}

std::string median(const Report&, const Row& row) {
  return console::duration(row.time_ns.median);
}

std::string least(const Report&, const Row& row) {
  return console::duration(row.time_ns.p5);
}

std::string most(const Report&, const Row& row) {
  return console::duration(row.time_ns.p95);
}

/// The distance from the 5th to the 95th percentile, as a share of the median.
std::string spread(const Report&, const Row& row) {
  return row.time_ns.median > 0 ? console::percent((row.time_ns.p95 - row.time_ns.p5) / row.time_ns.median)
                                : "-";
}

std::string flops(const Report& report, const Row& row) {
  return of_work(row, significant(row.flops_per_second() / flops_unit(report)));
}

std::string compute_share(const Report&, const Row& row) {
  return share(row, row.compute_share, row.has_compute_peak());
}

std::string bytes(const Report&, const Row& row) {
  return of_work(row, significant(row.bytes_per_second() * 1e-9));
}

std::string memory_share(const Report&, const Row& row) {
  return share(row, row.memory_share, true);
}

std::string kernel(const Report&, const Row& row) {
  return row.kernel;
}

/// How many times as fast the row is as the first of several kernels; "-" if the first was not measured.
std::string speed(const Report& report, const Row& row) {
  for (const Row& other : report.rows) {
    if (other.kernel_index == 0 && other.name == row.name && other.outcome == Outcome::kMeasured &&
        row.time_ns.median > 0) {
      return significant(other.time_ns.median / row.time_ns.median) + " x";
    }
  }
  return "-";
}

/// How much of the table is shown, from most to least.
enum class Detail { kAll, kSpread, kNoBytes, kShares };

std::vector<Column> columns_of(const Report& report, Detail detail) {
  const bool peaks = report.peaks.measured();
  const std::string unit = flops_unit(report) > 1e9 ? "TFLOP/s" : "GFLOP/s";
  std::vector<Column> columns{{"median", 7, false, median}};
  if (detail == Detail::kAll) {
    columns.insert(columns.end(), {{"p5", 7, false, least}, {"p95", 7, false, most}});
  } else {
    columns.push_back({"spread", 6, false, spread});
  }
  if (detail < Detail::kShares || !peaks) columns.push_back({unit, 7, false, flops});
  if (peaks) columns.push_back({detail < Detail::kShares ? "of peak" : "of FLOP/s", 7, false, compute_share});
  if (detail < Detail::kNoBytes || !peaks) columns.push_back({"GB/s", 6, false, bytes});
  if (peaks) columns.push_back({detail < Detail::kNoBytes ? "of peak" : "of GB/s", 7, false, memory_share});
  std::size_t kernel_width = 6;
  for (const std::string& name : report.kernels) kernel_width = std::max(kernel_width, name.size());
  columns.push_back({"kernel", kernel_width, true, kernel});
  if (report.kernels.size() > 1) columns.push_back({"to " + report.kernels.front(), 6, true, speed});
  for (Column& column : columns) column.width = std::max(column.width, column.head.size());
  return columns;
}

std::size_t width_of(const std::vector<Column>& columns) {
  std::size_t width = 0;
  for (const Column& column : columns) width += 2 + column.width;
  return width;
}

std::string joined(const std::vector<std::string>& cells, const std::vector<Column>& columns) {
  std::string text;
  for (std::size_t i = 0; i < columns.size(); ++i) {
    const std::size_t width = columns[i].width;
    text +=
        "  " + (columns[i].left ? console::pad_right(cells[i], width) : console::pad_left(cells[i], width));
  }
  return text.substr(0, text.find_last_not_of(' ') + 1);
}

/// Escapes bars, which would end the cell.
std::string markdown_cell(std::string_view text) {
  std::string cell;
  for (const char c : console::printable(text)) cell += c == '|' ? std::string("\\|") : std::string(1, c);
  return cell;
}

}  // namespace

double flops_unit(const Report& report) {
  double best = report.peaks.multiply_add.rate;
  for (const MatrixPeak& entry : report.peaks.matrix) best = std::max(best, entry.peak.rate);
  return best >= 2e12 ? 1e12 : 1e9;
}

ReportTable::ReportTable(const Report& report, std::size_t name_width, std::size_t width) : report_(report) {
  constexpr std::size_t kLeastName = 16;
  const std::size_t wanted = std::min(name_width, std::size_t{24});
  for (const Detail detail : {Detail::kAll, Detail::kSpread, Detail::kNoBytes, Detail::kShares}) {
    columns_ = columns_of(report, detail);
    if (width_of(columns_) + wanted <= width) break;
  }
  const std::size_t taken = width_of(columns_);
  const std::size_t room = std::max(kLeastName, width > taken ? width - taken : 0);
  name_width_ = std::clamp(name_width, std::size_t{7}, room);
}

std::string ReportTable::head() const {
  std::vector<std::string> heads;
  for (const Column& column : columns_) heads.push_back(column.head);
  return console::pad_right("problem", name_width_) + joined(heads, columns_) + "\n";
}

std::string ReportTable::figures(const Row& row) const {
  std::vector<std::string> cells;
  for (const Column& column : columns_) cells.push_back(column.cell(report_, row));
  return joined(cells, columns_);
}

std::string to_markdown(const Report& report) {
  const std::vector<Column> columns = columns_of(report, Detail::kAll);
  std::string head = "| problem |", rule = "| --- |", lines;
  for (const Column& column : columns) {
    head += " " + markdown_cell(column.head) + " |";
    rule += column.left ? " --- |" : " ---: |";
  }
  for (const Row& row : report.rows) {
    lines += "| " + markdown_cell(row.name) + " |";
    for (std::size_t i = 0; i < columns.size(); ++i) {
      const bool is_last = i + 1 == columns.size();
      std::string cell;
      if (row.outcome == Outcome::kMeasured) {
        cell = columns[i].cell(report, row);
      } else if (is_last) {
        cell = std::string(name(row.outcome)) + (row.message.empty() ? "" : ": " + row.message);
      }
      lines += " " + markdown_cell(cell) + " |";
    }
    lines += "\n";
  }
  const Capabilities& device = report.device;
  return markdown_cell(device.device_name + ", " + device.driver_name + " " + device.driver_info) +
         ", vkattn " + report.version + ", " + report.date + ", `" + report.command + "`\n\n" + head + "\n" +
         rule + "\n" + lines;
}

}  // namespace vkattn::bench
