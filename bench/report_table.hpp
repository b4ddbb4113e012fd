// The columns of a benchmark's table: the choice of columns that fit a line, and the table as Markdown.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "bench.hpp"

namespace vkattn::bench {

/// A column after the problem's name.
struct Column {
  std::string head;
  std::size_t width = 0;  ///< the largest width of a cell
  bool left = false;  ///< true for words, which begin at the left; false for numbers, which end at the right
  std::string (*cell)(const Report&, const Row&) = nullptr;
};

class ReportTable {
 public:
  /// Chooses the columns that fit a line of `width` beside a name of `name_width`. To save room, first the
  /// percentiles become one column "spread". Then GB/s and FLOP/s go, because their shares of the peaks stay.
  /// The name gets the remaining width.
  ReportTable(const Report& report, std::size_t name_width, std::size_t width);

  [[nodiscard]] std::size_t name_width() const { return name_width_; }
  [[nodiscard]] std::string head() const;
  /// The cells of a measured row after its name.
  [[nodiscard]] std::string figures(const Row& row) const;

 private:
  const Report& report_;
  std::size_t name_width_ = 0;
  std::vector<Column> columns_;
};

/// All columns as a Markdown table with a line for each row. A row that was not measured says why in its last
/// cell.
[[nodiscard]] std::string to_markdown(const Report& report);

/// The table's unit of rates: TFLOP/s if the device is fast, otherwise GFLOP/s.
[[nodiscard]] double flops_unit(const Report& report);

}  // namespace vkattn::bench
