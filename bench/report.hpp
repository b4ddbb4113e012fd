// A benchmark's results for people (a table, row by row) and for programs (JSON, CSV).
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "bench.hpp"
#include "console.hpp"
#include "report_table.hpp"

namespace vkattn::bench {

/// A number of rows in words: "7 problems", or "14 measurements" if each problem has several kernels.
[[nodiscard]] std::string count_rows(const Report& report, std::size_t rows);

/// "measured", "skipped", "refused", "wrong" or "failed".
[[nodiscard]] std::string_view name(Outcome outcome);

/// Text that is printed row by row, so that a user can watch a long suite.
class TextReport {
 public:
  /// `report` must have its device, options and peaks. The names of `problems` set the width of the first
  /// column. Lines are at most `width` long, except commands that repeat a row.
  TextReport(const Report& report, const std::vector<NamedProblem>& problems,
             std::size_t width = console::line_width(), bool has_colors = true);

  [[nodiscard]] std::string head() const;
  [[nodiscard]] std::string row(const Row& row) const;
  /// How many rows were measured and how many were not.
  [[nodiscard]] std::string foot() const;

 private:
  [[nodiscard]] std::string remark(const Row& row) const;
  const Report& report_;
  ReportTable table_;
  std::size_t width_;
  bool has_colors_;
};

/// One JSON object. Field names end in their units.
[[nodiscard]] std::string to_json(const Report& report);
/// A header line, and then one line for each row.
[[nodiscard]] std::string to_csv(const Report& report);

}  // namespace vkattn::bench
