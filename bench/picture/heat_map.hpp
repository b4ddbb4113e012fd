// A picture of matrices: a panel of coloured cells for each.
#pragma once

#include <vkattn/result.hpp>

#include <cstddef>
#include <string>
#include <vector>

#include "canvas.hpp"

namespace vkattn::picture {

/// How values become colours, from 0 to the largest. The square root tells small values apart.
enum class HeatScale { kLinear, kSquareRoot };

struct HeatPanel {
  std::string title, note;
  std::vector<double> values;  ///< row by row; NaN: no number
};

struct HeatMap {
  std::string title, caption;
  std::string warning;  ///< drawn so that nobody misses it; may be empty
  std::string row_axis, column_axis, scale_axis;
  std::string no_number;  ///< what cells without a number are, where there are some
  std::vector<std::string> row_labels, column_labels;  ///< as many as rows and columns
  HeatScale scale = HeatScale::kLinear;
  bool has_scale_for_each = false;  ///< up to the largest value of the panel, not of all
  bool labels_are_numbers = false;  ///< then every second, fifth or tenth may stand for all
  std::vector<HeatPanel> panels;

  [[nodiscard]] std::size_t rows() const { return row_labels.size(); }
  [[nodiscard]] std::size_t columns() const { return column_labels.size(); }
};

/// The most rows or columns of a panel, and panels.
inline constexpr std::size_t kMostHeatCells = 1024;
inline constexpr std::size_t kMostHeatPanels = 16;

/// The bytes of the picture's file. Refuses one without panels, with too many, or with panels that are too
/// large.
[[nodiscard]] Result<std::string> draw_heat_map(const HeatMap& map, Format format);

}  // namespace vkattn::picture
