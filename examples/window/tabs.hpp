// The two tabs, and what they keep when the device is lost.
#pragma once

#include <optional>

#include "window/crowd.hpp"
#include "window/heat_maps.hpp"

namespace window {

// The times of the last frames, in milliseconds.
struct Times {
  static constexpr std::size_t kKept = 240;
  std::vector<float> values;
  void add(double ms) {
    if (values.size() == kKept) values.erase(values.begin());
    values.push_back(static_cast<float>(ms));
  }
};

// A cell of a map.
struct Cell {
  int head = 0, row = 0, column = 0;
  [[nodiscard]] bool is_in_row_of(const Cell& other) const { return head == other.head && row == other.row; }
};

class TextTab {
 public:
  explicit TextTab(const TrainedHeads& trained);

  // `slot` is free: it has what its last frame copied to the host.
  void draw(const TextAttention& attention, const HeatMaps& maps, std::uint32_t slot);
  // Records attention, and a copy of the row that is pointed at.
  void record(const Frame& frame, const TextAttention& attention, Timer& timer);
  void measured(double ns);
  [[nodiscard]] const Controls& wanted() const { return wanted_; }
  [[nodiscard]] const Times& times() const { return times_; }

 private:
  void draw_controls(const TextAttention& attention);
  void draw_source();
  void draw_status(const TextAttention& attention) const;
  void draw_tokens(const Rows& rows) const;
  void draw_maps(const TextAttention& attention, const HeatMaps& maps);
  void draw_map(const TextAttention::Shown& shown, const HeatMaps& maps, int head, ImVec2 from, float side);
  void draw_labels(const Rows& rows, ImVec2 from, float side) const;
  void draw_numbers(const Rows& rows, ImVec2 from, ImVec2 size) const;
  void draw_legend() const;
  [[nodiscard]] float label_room(const Rows& rows) const;

  int most_heads_, most_dims_;
  Controls wanted_;
  bool square_root_ = false;
  std::optional<Cell> pointed_;
  std::array<std::optional<Cell>, kFramesInFlight> copied_;  // what each slot's last frame has copied
  std::vector<float> row_;  // of the cell that is pointed at; empty: not yet known
  Times times_;             // of the plan that is shown
  std::size_t plan_ = 0;    // its number
  int left_out_ = 0;        // times that are not its own, and that of its first execution
};

class CrowdTab {
 public:
  void draw(const Crowd& crowd, const Times& intervals);
  void record(const Frame& frame, Crowd& crowd, float seconds, Timer& timer);
  void measured(const Frame& frame, Crowd& crowd, double ns);
  [[nodiscard]] const Times& times() const { return times_; }
  // True if the last recorded frame ended an execution.
  [[nodiscard]] bool is_between_executions() const { return !slices_.empty() && slices_.back().is_last; }

 private:
  void draw_world(const Crowd& crowd) const;
  void draw_controls();
  void draw_slices(const Crowd& crowd) const;
  void draw_times(const char* label, const Times& times, float level, const char* level_name,
                  bool by_slice) const;

  float budget_ms_ = 2;
  int selected_ = 0;
  std::array<Slice, kFramesInFlight> recorded_{};
  std::vector<Slice> slices_;           // of the execution that was recorded last
  Times times_;                         // of slices
  std::vector<std::size_t> execution_;  // of each time, the number of its execution
  std::size_t executions_ = 0, taken_executions_ = 0;
};

}  // namespace window
