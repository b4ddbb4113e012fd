// The picture of an attention: tokens, a heat map for each head, and the numbers of the row that is pointed
// at.
#pragma once

#include <optional>

#include "window/heat_maps.hpp"

namespace window {

// A cell of a map.
struct Cell {
  int head = 0, row = 0, column = 0;
  [[nodiscard]] bool is_in_row_of(const Cell& other) const { return head == other.head && row == other.row; }
};

class MapsView {
 public:
  static constexpr int kMostMaps = 32;

  // Before anything is drawn. `slot` is free: it has what its last frame copied to the host.
  void begin(const Maps& maps, const HeatMaps& pictures, std::uint32_t slot);
  // A chip for each label, underlined from `first_new` on. If a row is pointed at, the chips of its keys have
  // the colours of its weights.
  void draw_tokens(const std::vector<std::string>& labels, std::size_t first_new = ~std::size_t{0}) const;
  // As many columns as make the maps largest, in the room that is left.
  void draw(const Maps& maps, const HeatMaps& pictures);
  void draw_switch() { tick("square_root", "colours by the square root", square_root_); }
  // Records a copy of the row that is pointed at. Call it for each frame.
  void record(const Frame& frame, const Maps& maps, const HeatMaps& pictures);

 private:
  void draw_map(const Maps& maps, const HeatMaps& pictures, int head, ImVec2 from, float side);
  static void draw_labels(const Maps& maps, ImVec2 from, float side);
  void draw_numbers(const Maps& maps, ImVec2 from, ImVec2 size) const;
  void draw_legend() const;

  bool square_root_ = false;
  std::optional<Cell> pointed_;
  // What each slot's last frame has copied: all weights of a row, of so many.
  struct Copied {
    Cell cell;
    std::uint32_t numbers;
  };
  std::array<std::optional<Copied>, kFramesInFlight> copied_;
  std::vector<float> row_;  // of the cell that is pointed at; empty: not yet known
};

}  // namespace window
