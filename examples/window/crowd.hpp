// A crowd that remembers: 64 agents attend to 256 memories, a head for each kind of memory, and go to where
// they need to. All of it stays on the device. One execution of attention takes several frames' slices.
#pragma once

#include <vkattn/frame_budget.hpp>

#include "window/timer.hpp"

namespace window {

constexpr std::uint32_t kAgents = 64, kMemories = 256, kKinds = 6, kCrowdDims = 64, kPlaceDims = 4;
inline constexpr std::array kKindNames = {"water", "danger", "wood", "company", "food", "rest"};

// As in world.glsl.
struct Agent {
  float place[2], speed[2], target[2], danger[2];
  std::uint32_t need, reached;
  float unused[2];
};
struct World {
  Agent agents[kAgents];
  float memories[kMemories][4];  // place, kind, 0
  float codes[kKinds][kCrowdDims];
  float links[kMemories];
};

// A frame's part of an execution, for pictures of it.
struct Slice {
  vkattn::RecordOptions dispatches;
  bool is_first = false, is_last = false;
};

class Crowd {
 public:
  Crowd(const Gpu& gpu, VkRenderPass render_pass);
  Crowd(const Crowd&) = delete;
  Crowd& operator=(const Crowd&) = delete;
  ~Crowd();

  // Records a slice of attention of at most `budget_ns`, which `timer` measures, and moves all agents.
  Slice record(const Frame& frame, double budget_ns, std::uint32_t selected, float seconds, Timer& timer);
  // Tells what the slice of a frame that is done took.
  void measured(const Slice& slice, double ns) { budget_.measured(slice.dispatches, ns); }
  // Draws agents and memories within a render pass.
  void draw(VkCommandBuffer commands, VkRect2D area, std::uint32_t selected) const;

  [[nodiscard]] std::size_t dispatches() const { return plan_.dispatches().size(); }
  // The largest difference of the weights from the formula, between two executions, when the device is idle
  // and its writes are available to the host.
  [[nodiscard]] double difference() const;

 private:
  explicit Crowd(const Gpu& gpu);  // so that the destructor runs if a device is lost while the rest is made
  void steer(VkCommandBuffer commands, std::uint32_t stage, std::uint32_t selected, float seconds) const;

  VkDevice device_;
  vkattn::AttentionPlan plan_;
  example::Buffer world_, query_, key_, value_, output_, weights_, workspace_;
  std::optional<vkattn::Bindings> bindings_;
  vkattn::FrameBudget budget_;
  VkDescriptorSetLayout set_layout_ = VK_NULL_HANDLE;
  VkDescriptorPool pool_ = VK_NULL_HANDLE;
  VkDescriptorSet set_ = VK_NULL_HANDLE;
  VkPipelineLayout steer_layout_ = VK_NULL_HANDLE, draw_layout_ = VK_NULL_HANDLE;
  VkPipeline steer_ = VK_NULL_HANDLE, draw_ = VK_NULL_HANDLE;
};

}  // namespace window
