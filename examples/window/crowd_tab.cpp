#include "window/checks.hpp"
#include "window/tabs.hpp"

namespace window {

namespace {

constexpr float kFrameMs = 1000.0F / 60, kColumnGap = 24;

// The colour of an execution's slices.
ImU32 color_of(std::size_t execution) {
  return series(execution % 2 == 0 ? 0 : 2);
}

}  // namespace

void CrowdTab::draw(const Crowd& crowd, const Times& intervals) {
  draw_world(crowd);
  ImGui::SameLine(0, kColumnGap);
  ImGui::BeginChild("crowd_right", {0, 0});
  draw_controls();
  draw_slices(crowd);
  const std::string level = "budget " + milliseconds(static_cast<double>(budget_ms_));
  draw_times("attention in a frame, on the device: a bar is a slice, a colour an execution", times_,
             budget_ms_, level.c_str(), true);
  draw_times("from frame to frame", intervals, kFrameMs, "60 Hz, 16.67 ms", false);
  std::size_t above = 0;
  for (const float each : times_.values) above += each > budget_ms_ ? 1 : 0;
  const std::string text = "of the last " + std::to_string(times_.values.size()) +
                           " slices: " + times_.words() + ", " + std::to_string(above) +
                           " above the budget; " + allocation_words();
  soft_text(text.c_str());
  ImGui::EndChild();
}

void CrowdTab::draw_world(const Crowd& crowd) const {
  const ImVec2 space = ImGui::GetContentRegionAvail();
  const float side = std::floor(std::max(16.0F, std::min(space.y - 4, space.x - 420)));
  const ImVec2 from = ImGui::GetCursorScreenPos();
  ImGui::InvisibleButton("world", {side, side});
  mark("world");
  ImDrawList& list = *ImGui::GetWindowDrawList();
  list.AddRectFilled(from, {from.x + side, from.y + side}, IM_COL32(249, 250, 251, 255), 4);
  draw_into(list, from, {from.x + side, from.y + side},
            [&crowd, selected = static_cast<std::uint32_t>(selected_)](
                VkCommandBuffer commands, VkRect2D area) { crowd.draw(commands, area, selected); });
  list.AddRect(from, {from.x + side, from.y + side}, grid(), 4);
}

void CrowdTab::draw_controls() {
  soft_text(
      "64 agents attend to 256 memories, with a head for each kind of memory. An agent goes to where the "
      "head "
      "of its need looks, and away from danger. Lines show the weights of the ringed agent.");
  ImDrawList& list = *ImGui::GetWindowDrawList();
  for (std::size_t i = 0; i < kKindNames.size(); ++i) {
    if (i > 0) ImGui::SameLine(0, 14);
    const ImVec2 at = ImGui::GetCursorScreenPos();
    list.AddRectFilled({at.x, at.y + 4}, {at.x + 9, at.y + 13}, series(i), 2);
    ImGui::SetCursorScreenPos({at.x + 14, at.y});
    ImGui::TextUnformatted(kKindNames[i]);
  }
  slide("budget", "budget of attention in a frame", budget_ms_, 0.05F, 8, "%.2f ms", true);
  slide("agent", "the agent whose weights are shown", selected_, 0, static_cast<int>(kAgents) - 1, "%d");
}

// The dispatches of the execution under way: a box for each slice.
void CrowdTab::draw_slices(const Crowd& crowd) const {
  const auto count = static_cast<float>(crowd.dispatches());
  std::string label = "slices of the execution under way: " + std::to_string(crowd.dispatches()) +
                      " dispatches, a box for each frame's";
  soft_text(label.c_str());
  const ImVec2 from = ImGui::GetCursorScreenPos();
  const float width = ImGui::GetContentRegionAvail().x, height = 22;
  ImDrawList& list = *ImGui::GetWindowDrawList();
  list.AddRectFilled(from, {from.x + width, from.y + height}, grid(), 3);
  for (const Slice& slice : slices_) {
    const auto first = static_cast<float>(slice.dispatches.first_dispatch);
    const float last = first + static_cast<float>(slice.dispatches.dispatch_count);
    list.AddRectFilled({from.x + width * first / count + 1, from.y + 1},
                       {from.x + width * last / count - 1, from.y + height - 1}, color_of(executions_), 2);
  }
  ImGui::Dummy({width, height + 4});
  mark("slices", from, {from.x + width, from.y + height});
}

// Bars of the last times, with a line for the level.
void CrowdTab::draw_times(const char* label, const Times& times, float level, const char* level_name,
                          bool by_slice) const {
  soft_text(label);
  const ImVec2 from = ImGui::GetCursorScreenPos();
  const float width = ImGui::GetContentRegionAvail().x, height = 120, top = 2 * level;
  const float bar = width / static_cast<float>(Times::kKept);
  ImDrawList& list = *ImGui::GetWindowDrawList();
  list.AddRectFilled(from, {from.x + width, from.y + height}, IM_COL32(249, 250, 251, 255), 3);
  for (std::size_t i = 0; i < times.values.size(); ++i) {
    const float share = std::min(times.values[i] / top, 1.0F), x = from.x + bar * static_cast<float>(i);
    const bool is_above = times.values[i] > level;
    const ImU32 color = by_slice ? is_above ? series(1) : color_of(execution_[i]) : series(5);
    list.AddRectFilled({x, from.y + height * (1 - share)}, {x + std::max(bar - 0.5F, 1.0F), from.y + height},
                       color);
  }
  list.AddLine({from.x, from.y + height / 2}, {from.x + width, from.y + height / 2}, ink());
  const ImVec2 at{from.x + 4, from.y + height / 2 - 15};
  list.AddRectFilled(at, {at.x + 92, at.y + 13}, IM_COL32(255, 255, 255, 220), 2);
  text_at({at.x + 2, at.y}, ink(), level_name, small_font(), 11);
  list.AddRect(from, {from.x + width, from.y + height}, grid(), 3);
  ImGui::Dummy({width, height + 2});
  mark(by_slice ? "slice_times" : "frame_times", from, {from.x + width, from.y + height});
}

void CrowdTab::record(const Frame& frame, Crowd& crowd, float seconds, Timer& timer) {
  const Slice slice = crowd.record(frame, static_cast<double>(budget_ms_) * 1e6,
                                   static_cast<std::uint32_t>(selected_), seconds, timer);
  if (slice.is_first) slices_.clear(), ++executions_;
  slices_.push_back(slice);
  recorded_[frame.slot] = slice;
}

void CrowdTab::measured(const Frame& frame, Crowd& crowd, double ns) {
  const Slice& slice = recorded_[frame.slot];
  crowd.measured(slice, ns);
  if (slice.is_first) ++taken_executions_;
  if (execution_.size() == Times::kKept) execution_.erase(execution_.begin());
  execution_.push_back(taken_executions_);
  times_.add(ns / 1e6);
}

}  // namespace window
