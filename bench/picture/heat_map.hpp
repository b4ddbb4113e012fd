// A picture of matrices. Each matrix is a panel of coloured cells.
#pragma once

#include <vkattn/result.hpp>

#include <cstddef>
#include <string>
#include <vector>

#include "canvas.hpp"

namespace vkattn::picture {

/// How values from 0 to the largest become colours. The square root distinguishes small values better.
enum class HeatScale { kLinear, kSquareRoot };

struct HeatPanel {
  std::string title, note;
  std::vector<double> values;  ///< row by row; NaN stands for no number
};

struct HeatMap {
  std::string title, caption;
  std::string warning;  ///< drawn so that nobody misses it; may be empty
  std::string row_axis, column_axis, scale_axis;
  std::string no_number;  ///< what a cell without a number means; used only if there is such a cell
  std::vector<std::string> row_labels, column_labels;  ///< one for each row and column
  HeatScale scale = HeatScale::kLinear;
  bool has_scale_for_each = false;  ///< each panel has a scale up to its own largest value
  bool labels_are_numbers = false;  ///< if so, every second, fifth or tenth label may stand for all
  std::vector<HeatPanel> panels;

  [[nodiscard]] std::size_t rows() const { return row_labels.size(); }
  [[nodiscard]] std::size_t columns() const { return column_labels.size(); }
};

/// The most rows or columns of a panel, and the most panels.
inline constexpr std::size_t kMostHeatCells = 1024;
inline constexpr std::size_t kMostHeatPanels = 16;

/// The bytes of the picture's file. Refuses a map without panels, with too many panels, or with panels that
/// are too large.
[[nodiscard]] Result<std::string> draw_heat_map(const HeatMap& map, Format format);

}  // namespace vkattn::picture
