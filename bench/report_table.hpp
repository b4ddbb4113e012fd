// The columns of a benchmark's table: which of them fit a line, and the same table as Markdown.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "bench.hpp"

namespace vkattn::bench {

/// A column behind the problem's name.
struct Column {
  std::string head;
  std::size_t width = 0;  ///< of a cell at most
  bool left = false;      ///< cells begin at the left, as words do; numbers end at the right
  std::string (*cell)(const Report&, const Row&) = nullptr;
};

class ReportTable {
 public:
  /// The columns that fit lines of `width` beside a name of `name_width`: first the percentiles become one
  /// column "spread", then GB/s and FLOP/s go, whose shares of the peaks say the same; the name gets the
  /// rest.
  ReportTable(const Report& report, std::size_t name_width, std::size_t width);

  [[nodiscard]] std::size_t name_width() const { return name_width_; }
  [[nodiscard]] std::string head() const;
  /// Of a row that was measured, behind its name.
  [[nodiscard]] std::string figures(const Row& row) const;

 private:
  const Report& report_;
  std::size_t name_width_ = 0;
  std::vector<Column> columns_;
};

/// All columns as a Markdown table, a line for each row; a row that was not measured says why in its last
/// cell.
[[nodiscard]] std::string to_markdown(const Report& report);

/// Rates of the table are in TFLOP/s where the device is fast, else in GFLOP/s.
[[nodiscard]] double flops_unit(const Report& report);

}  // namespace vkattn::bench
