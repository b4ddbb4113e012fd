// A benchmark's results for people (a table, row by row) and for programs (JSON, CSV).
#pragma once

#include <cstddef>
#include <string>

#include "bench.hpp"

namespace vkattn::bench {

/// So many of the report's rows: "7 problems"; "14 measurements" where each problem has several kernels.
[[nodiscard]] std::string count_rows(const Report& report, std::size_t rows);

/// measured, skipped, refused, wrong or failed.
[[nodiscard]] std::string_view name(Outcome outcome);

/// Lines of text of at most about 100 columns, one row at a time, so that a long suite can be watched.
class TextReport {
 public:
  /// `report` needs its device, options and peaks; the names of `problems` set the first column's width.
  TextReport(const Report& report, const std::vector<NamedProblem>& problems);

  [[nodiscard]] std::string head() const;
  [[nodiscard]] std::string row(const Row& row) const;
  /// How many were measured and how many were not.
  [[nodiscard]] std::string foot() const;

 private:
  [[nodiscard]] std::string remark(const Row& row) const;
  [[nodiscard]] std::string figures(const Row& row) const;
  /// The time of the same problem with the first of several kernels is 1; "-" where that was not measured.
  [[nodiscard]] std::string relative_time(const Row& row) const;
  const Report& report_;
  std::size_t name_width_ = 0;
  std::size_t kernel_width_ = 6;  // of "kernel"
  double flops_unit_ = 1e9;
};

/// One JSON object; field names end in their units.
[[nodiscard]] std::string to_json(const Report& report);
/// A header line, then a line for each row.
[[nodiscard]] std::string to_csv(const Report& report);

}  // namespace vkattn::bench
