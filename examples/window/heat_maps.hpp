// Heat maps whose fragment shader reads the weights where attention has written them.
#pragma once

#include "window/overlay.hpp"
#include "window/text_attention.hpp"

namespace window {

// What heat_map.frag is told of a map.
struct MapPush {
  std::uint32_t head = 0, tokens = 0;
  std::int32_t left = -1;
  std::uint32_t causal = 0;
  std::int32_t row = -1;
  std::uint32_t square_root = 0;
  float side = 0;
};

class HeatMaps {
 public:
  HeatMaps(const Gpu& gpu, VkRenderPass render_pass, VkBuffer weights);
  HeatMaps(const HeatMaps&) = delete;
  HeatMaps& operator=(const HeatMaps&) = delete;
  ~HeatMaps();
  void draw(ImDrawList& list, ImVec2 from, const MapPush& map) const;

 private:
  VkDevice device_;
  example::Buffer colors_;
  VkDescriptorSetLayout set_layout_;
  VkDescriptorPool pool_;
  VkDescriptorSet set_;
  VkPipelineLayout layout_;
  VkPipeline pipeline_;
};

}  // namespace window
