#include "window/heat_maps.hpp"

#include "engine/make_pipelines.hpp"
#include "heat_map_frag.h"
#include "heat_map_vert.h"
#include "picture/colors.hpp"

namespace window {

namespace {

constexpr std::size_t kColors = 64;

example::Buffer make_colors(const Gpu& gpu) {
  example::Buffer buffer(gpu, kColors * 4 * sizeof(float), VK_BUFFER_USAGE_STORAGE_BUFFER_BIT);
  const std::span<float> values = buffer.values();
  for (std::size_t i = 0; i < kColors; ++i) {
    const vkattn::picture::Color color = vkattn::picture::scale_color(static_cast<double>(i) / (kColors - 1));
    values[4 * i] = static_cast<float>(color.red);
    values[4 * i + 1] = static_cast<float>(color.green);
    values[4 * i + 2] = static_cast<float>(color.blue);
  }
  return buffer;
}

}  // namespace

HeatMaps::HeatMaps(const Gpu& gpu) : device_(gpu.device), colors_(make_colors(gpu)) {
  for (example::Buffer& each : row_)
    each = example::Buffer(gpu, kMostTokens * sizeof(float), VK_BUFFER_USAGE_TRANSFER_DST_BIT);
}

HeatMaps::HeatMaps(const Place& place, VkBuffer weights) : HeatMaps(place.gpu) {
  weights_ = weights;
  set_layout_ = engine::make_set_layout(device_, 2, VK_SHADER_STAGE_FRAGMENT_BIT);
  pool_ = engine::make_set_pool(device_, 2, 1);
  set_ = engine::make_set(device_, pool_, set_layout_, std::array{weights, colors_.handle()});
  layout_ = engine::make_layout(device_, set_layout_, VK_SHADER_STAGE_FRAGMENT_BIT, sizeof(MapPush));
  pipeline_ = engine::make_graphics(device_, {.layout = layout_,
                                              .vertex = heat_map_vert,
                                              .fragment = heat_map_frag,
                                              .render_pass = place.screen.render_pass()});
}

HeatMaps::~HeatMaps() {
  vkDestroyPipeline(device_, pipeline_, nullptr);
  vkDestroyPipelineLayout(device_, layout_, nullptr);
  vkDestroyDescriptorPool(device_, pool_, nullptr);
  vkDestroyDescriptorSetLayout(device_, set_layout_, nullptr);
}

void HeatMaps::draw(ImDrawList& list, ImVec2 from, const MapPush& map) const {
  draw_into(list, from, {from.x + map.side, from.y + map.side},
            [this, map](VkCommandBuffer commands, VkRect2D area) {
              engine::set_viewport(commands, area);
              vkCmdBindPipeline(commands, VK_PIPELINE_BIND_POINT_GRAPHICS, pipeline_);
              vkCmdBindDescriptorSets(commands, VK_PIPELINE_BIND_POINT_GRAPHICS, layout_, 0, 1, &set_, 0,
                                      nullptr);
              vkCmdPushConstants(commands, layout_, VK_SHADER_STAGE_FRAGMENT_BIT, 0, sizeof(map), &map);
              vkCmdDraw(commands, 4, 1, 0, 0);
            });
}

void HeatMaps::record_row(const Frame& frame, std::uint32_t first, int tokens) const {
  const VkBufferCopy copy{VkDeviceSize{first} * sizeof(float), 0,
                          static_cast<VkDeviceSize>(tokens) * sizeof(float)};
  vkCmdCopyBuffer(frame.commands, weights_, row_[frame.slot].handle(), 1, &copy);
  example::barrier(frame.commands, VK_PIPELINE_STAGE_TRANSFER_BIT, VK_ACCESS_TRANSFER_WRITE_BIT,
                   VK_PIPELINE_STAGE_HOST_BIT, VK_ACCESS_HOST_READ_BIT);
}

}  // namespace window
