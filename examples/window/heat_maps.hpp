// Heat maps whose fragment shader reads the weights where attention has written them.
#pragma once

#include "window/heads.hpp"
#include "window/overlay.hpp"

namespace window {

// Which numbers of the buffer are the weights, and of what. Distances are in numbers.
struct Maps {
  std::vector<std::string> labels;  // of the tokens
  int heads = 0;
  std::uint32_t first = 0, head_stride = 0, row_stride = 0;
  int left = -1;  // the keys that a query sees before itself; below 0: all
  bool is_causal = true;
  bool has_labels_below = false;
  [[nodiscard]] int tokens() const { return static_cast<int>(labels.size()); }
  [[nodiscard]] std::uint32_t row(int head, int query) const {
    return first + static_cast<std::uint32_t>(head) * head_stride +
           static_cast<std::uint32_t>(query) * row_stride;
  }
};

// What heat_map.frag is told of a map.
struct MapPush {
  std::uint32_t first = 0, row_stride = 0, tokens = 0;
  std::int32_t left = -1;
  std::uint32_t causal = 0;
  std::int32_t row = -1;
  std::uint32_t square_root = 0;
  float side = 0;
};

class HeatMaps {
 public:
  HeatMaps(const Place& place, VkBuffer weights);
  HeatMaps(const HeatMaps&) = delete;
  HeatMaps& operator=(const HeatMaps&) = delete;
  ~HeatMaps();
  void draw(ImDrawList& list, ImVec2 from, const MapPush& map) const;

  // Records a copy of one row of weights to the host. The slot has it when it is free again.
  void record_row(const Frame& frame, std::uint32_t first, int tokens) const;
  [[nodiscard]] std::span<const float> row(std::uint32_t slot) const { return row_[slot].values(); }

 private:
  explicit HeatMaps(
      const Gpu& gpu);  // so that the destructor runs if a device is lost while the rest is made
  VkDevice device_;
  VkBuffer weights_ = VK_NULL_HANDLE;
  example::Buffer colors_;
  std::array<example::Buffer, kFramesInFlight> row_;
  VkDescriptorSetLayout set_layout_ = VK_NULL_HANDLE;
  VkDescriptorPool pool_ = VK_NULL_HANDLE;
  VkDescriptorSet set_ = VK_NULL_HANDLE;
  VkPipelineLayout layout_ = VK_NULL_HANDLE;
  VkPipeline pipeline_ = VK_NULL_HANDLE;
};

}  // namespace window
