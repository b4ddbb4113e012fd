// The tabs, and what they keep when the device is lost.
#pragma once

#include <memory>

#include "window/crowd.hpp"
#include "window/maps_view.hpp"

namespace window {

constexpr float kControlsWidth = 250, kControlsGap = 18;

// The times of the last frames, in milliseconds.
struct Times {
  static constexpr std::size_t kKept = 240;
  std::vector<float> values;
  // "median 0.26 ms, 99 % below 0.41 ms", if there are any.
  [[nodiscard]] std::string words() const;
  void add(double ms) {
    if (values.size() == kKept) values.erase(values.begin());
    values.push_back(static_cast<float>(ms));
  }
};

// A tab with heat maps, and everything that it has on one device.
class LiveTab {
 public:
  LiveTab() = default;
  LiveTab(const LiveTab&) = delete;
  LiveTab& operator=(const LiveTab&) = delete;
  virtual ~LiveTab() = default;
  // Before Dear ImGui's frame.
  virtual void update(const Frame& frame) = 0;
  // `frame`'s slot is free: it has what its last frame copied to the host.
  virtual void draw(const Frame& frame) = 0;
  // Records attention, and a copy of the row that is pointed at.
  virtual void record(const Frame& frame, Timer& timer) = 0;
  // Tells what the timer has measured in the frame that had this slot before.
  virtual void measured(const Frame& frame, double ns) = 0;
  // All that was asked for is shown, and nothing is under way.
  [[nodiscard]] virtual bool is_ready() const = 0;
  [[nodiscard]] virtual bool has_weights() const = 0;
  // The largest difference of the weights from what they should be, when the device is idle and its writes
  // are available to the host.
  [[nodiscard]] virtual double difference() = 0;
  [[nodiscard]] virtual const Times& times() const = 0;
};

// The same without a device: what is kept when the device is lost.
class MapTab {
 public:
  MapTab() = default;
  MapTab(const MapTab&) = delete;
  MapTab& operator=(const MapTab&) = delete;
  virtual ~MapTab() = default;
  [[nodiscard]] virtual const char* title() const = 0;
  [[nodiscard]] virtual std::unique_ptr<LiveTab> live(const Place& place) = 0;
};

// A text, over which attention is computed anew in each frame.
[[nodiscard]] std::unique_ptr<MapTab> make_text_tab(const TrainedHeads& trained);
#ifdef EXAMPLE_GENERATE
// A language model that continues a text. Refuses a folder without a checkpoint that examples/generate reads.
[[nodiscard]] vkattn::Result<std::unique_ptr<MapTab>> make_model_tab(const std::filesystem::path& folder);
#endif

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
