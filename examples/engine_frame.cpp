// A frame of a renderer with attention in the middle: Vulkan 1.3 through the program's own volk, memory
// through VMA if it is installed, dynamic rendering, synchronization2, two frames in flight on a timeline
// semaphore, and nothing on screen.
//
// One command buffer has a render pass; the engine's own compute, which makes the queries, keys and values of
// a token; the append to the cache; attention; the engine's compute again, which binds its pipeline, set and
// push constants anew; and a render pass that draws the results as bars. The cache grows by a token each
// frame. Values and pixels are checked.
//
//   vkattn_example_engine_frame [PICTURE.png]    writes a picture of the last frame
#define VOLK_IMPLEMENTATION
#include "common.hpp"

#include "engine/barriers.hpp"
#include "engine/frame.hpp"
#include "engine/picture.hpp"

namespace {

using namespace engine;
using example::Gpu;

constexpr std::uint32_t kFrames = 40, kFramesInFlight = 2;
constexpr float kGroundHeight = 0.9F;

// The same element of a token as in tokens.comp.
float element(std::uint32_t kind, std::uint32_t position, std::uint32_t i) {
  std::uint32_t h = kind * 0x9e3779b9U + position * 0x85ebca6bU + i * 0xc2b2ae35U;
  h = (h ^ h >> 15U) * 0x2c1b3c6dU;
  h = (h ^ h >> 12U) * 0x297a2d39U;
  return static_cast<float>((h ^ h >> 15U) & 0xffffU) / 32768.0F - 1.0F;
}

void render(const Frame& frame, const Pipelines& pipelines, VkAttachmentLoadOp load, const BarPush& push) {
  VkRenderingAttachmentInfo color{VK_STRUCTURE_TYPE_RENDERING_ATTACHMENT_INFO};
  color.imageView = frame.image.view();
  color.imageLayout = VK_IMAGE_LAYOUT_COLOR_ATTACHMENT_OPTIMAL;
  color.loadOp = load;
  color.storeOp = VK_ATTACHMENT_STORE_OP_STORE;
  color.clearValue.color = {{0, 0, 1, 1}};  // a blue sky
  VkRenderingInfo info{VK_STRUCTURE_TYPE_RENDERING_INFO};
  info.renderArea.extent = kExtent;
  info.layerCount = 1;
  info.colorAttachmentCount = 1;
  info.pColorAttachments = &color;
  vkCmdBeginRendering(frame.commands, &info);
  set_viewport(frame.commands, {{0, 0}, kExtent});
  vkCmdBindPipeline(frame.commands, VK_PIPELINE_BIND_POINT_GRAPHICS, pipelines.graphics);
  vkCmdBindDescriptorSets(frame.commands, VK_PIPELINE_BIND_POINT_GRAPHICS, pipelines.graphics_layout, 0, 1,
                          &frame.set, 0, nullptr);
  vkCmdPushConstants(frame.commands, pipelines.graphics_layout, VK_SHADER_STAGE_VERTEX_BIT, 0, sizeof(push),
                     &push);
  vkCmdDraw(frame.commands, 4, push.count, 0, 0);
  vkCmdEndRendering(frame.commands);
}

// The engine's own compute. It binds everything anew: plan.record() has replaced pipeline, set 0 and push
// constants.
void compute(const Frame& frame, const Pipelines& pipelines, const ComputePush& push) {
  vkCmdBindPipeline(frame.commands, VK_PIPELINE_BIND_POINT_COMPUTE, pipelines.compute);
  vkCmdBindDescriptorSets(frame.commands, VK_PIPELINE_BIND_POINT_COMPUTE, pipelines.compute_layout, 0, 1,
                          &frame.set, 0, nullptr);
  vkCmdPushConstants(frame.commands, pipelines.compute_layout, VK_SHADER_STAGE_COMPUTE_BIT, 0, sizeof(push),
                     &push);
  vkCmdDispatch(frame.commands, (kBars + 63) / 64, 1, 1);
}

void record_attention(const Frame& frame, const Pipelines& pipelines, const Plans& plans,
                      std::uint32_t position) {
  const vkattn::PlanRequirements append = plans.append.requirements();
  const vkattn::PlanRequirements attention = plans.attention.requirements();
  // The first render pass has the buffer of bars bound, which is written below.
  barrier(frame.commands, VK_PIPELINE_STAGE_2_VERTEX_SHADER_BIT, VK_ACCESS_2_NONE,
          VK_PIPELINE_STAGE_2_COMPUTE_SHADER_BIT, VK_ACCESS_2_NONE);
  compute(frame, pipelines, {0, position});
  // The append waits for the token, and for the attention of the frame before, which read the cache.
  barrier(frame.commands, VK_PIPELINE_STAGE_2_COMPUTE_SHADER_BIT, VK_ACCESS_2_SHADER_WRITE_BIT,
          append.first_stages, append.first_access);
  plans.append.record(frame.commands, *frame.append);
  barrier(frame.commands, append.last_stages, append.last_access, attention.first_stages,
          attention.first_access);
  plans.attention.record(frame.commands, *frame.attention);
  barrier(frame.commands, attention.last_stages, attention.last_access,
          VK_PIPELINE_STAGE_2_COMPUTE_SHADER_BIT | VK_PIPELINE_STAGE_2_HOST_BIT,
          VK_ACCESS_2_SHADER_READ_BIT | VK_ACCESS_2_HOST_READ_BIT);
  compute(frame, pipelines, {1, position});
  barrier(frame.commands, VK_PIPELINE_STAGE_2_COMPUTE_SHADER_BIT, VK_ACCESS_2_SHADER_WRITE_BIT,
          VK_PIPELINE_STAGE_2_VERTEX_SHADER_BIT, VK_ACCESS_2_SHADER_READ_BIT);
}

void copy_picture(const Frame& frame) {
  image_barrier(frame.commands, frame.image.handle(), VK_IMAGE_LAYOUT_COLOR_ATTACHMENT_OPTIMAL,
                VK_IMAGE_LAYOUT_TRANSFER_SRC_OPTIMAL, VK_PIPELINE_STAGE_2_COLOR_ATTACHMENT_OUTPUT_BIT,
                VK_ACCESS_2_COLOR_ATTACHMENT_WRITE_BIT, VK_PIPELINE_STAGE_2_COPY_BIT,
                VK_ACCESS_2_TRANSFER_READ_BIT);
  VkBufferImageCopy region{};
  region.imageSubresource = {VK_IMAGE_ASPECT_COLOR_BIT, 0, 0, 1};
  region.imageExtent = {kExtent.width, kExtent.height, 1};
  vkCmdCopyImageToBuffer(frame.commands, frame.image.handle(), VK_IMAGE_LAYOUT_TRANSFER_SRC_OPTIMAL,
                         frame.pixels.handle(), 1, &region);
  barrier(frame.commands, VK_PIPELINE_STAGE_2_COPY_BIT, VK_ACCESS_2_TRANSFER_WRITE_BIT,
          VK_PIPELINE_STAGE_2_HOST_BIT, VK_ACCESS_2_HOST_READ_BIT);
}

void record_frame(const Frame& frame, const Pipelines& pipelines, const Plans& plans,
                  std::uint32_t position) {
  example::begin(frame.commands);
  image_barrier(frame.commands, frame.image.handle(), VK_IMAGE_LAYOUT_UNDEFINED,
                VK_IMAGE_LAYOUT_COLOR_ATTACHMENT_OPTIMAL, VK_PIPELINE_STAGE_2_NONE, VK_ACCESS_2_NONE,
                VK_PIPELINE_STAGE_2_COLOR_ATTACHMENT_OUTPUT_BIT, VK_ACCESS_2_COLOR_ATTACHMENT_WRITE_BIT);
  render(frame, pipelines, VK_ATTACHMENT_LOAD_OP_CLEAR, {{0, 1, 0, 1}, kGroundHeight, 1});
  record_attention(frame, pipelines, plans, position);
  barrier(frame.commands, VK_PIPELINE_STAGE_2_COLOR_ATTACHMENT_OUTPUT_BIT,
          VK_ACCESS_2_COLOR_ATTACHMENT_WRITE_BIT, VK_PIPELINE_STAGE_2_COLOR_ATTACHMENT_OUTPUT_BIT,
          VK_ACCESS_2_COLOR_ATTACHMENT_READ_BIT | VK_ACCESS_2_COLOR_ATTACHMENT_WRITE_BIT);
  render(frame, pipelines, VK_ATTACHMENT_LOAD_OP_LOAD, {{1, 0, 0, 1}, -1, kBars});
  copy_picture(frame);
  check(vkEndCommandBuffer(frame.commands), "vkEndCommandBuffer");
}

void submit(VkQueue queue, const Frame& frame, const example::Timeline& timeline, std::uint64_t value) {
  VkCommandBufferSubmitInfo commands{VK_STRUCTURE_TYPE_COMMAND_BUFFER_SUBMIT_INFO};
  commands.commandBuffer = frame.commands;
  VkSemaphoreSubmitInfo signal{VK_STRUCTURE_TYPE_SEMAPHORE_SUBMIT_INFO};
  signal.semaphore = timeline.handle();
  signal.value = value;
  signal.stageMask = VK_PIPELINE_STAGE_2_ALL_COMMANDS_BIT;
  VkSubmitInfo2 info{VK_STRUCTURE_TYPE_SUBMIT_INFO_2};
  info.commandBufferInfoCount = 1;
  info.pCommandBufferInfos = &commands;
  info.signalSemaphoreInfoCount = 1;
  info.pSignalSemaphoreInfos = &signal;
  check(vkQueueSubmit2(queue, 1, &info, VK_NULL_HANDLE), "vkQueueSubmit2");
}

std::vector<float> rows(std::uint32_t kind, std::uint32_t position, std::uint32_t first,
                        std::uint32_t count) {
  std::vector<float> values;
  for (std::uint32_t p = position; p < position + count; ++p) {
    for (std::uint32_t d = 0; d < kDim; ++d) values.push_back(element(kind, p, first * kDim + d));
  }
  return values;
}

// The largest difference of the attention at this position from the plain formula.
double difference(const Frame& frame, std::uint32_t position) {
  double largest = 0;
  for (std::uint32_t head = 0; head < kQueryHeads; ++head) {
    const std::uint32_t kv_head = head / (kQueryHeads / kKvHeads);
    const std::vector<double> expected = example::plain_attention(
        rows(1, position, head, 1), rows(2, 0, kv_head, position + 1), rows(3, 0, kv_head, position + 1));
    const double each =
        example::largest_difference(frame.output.values().subspan(head * kDim, kDim), expected);
    if (!(each <= largest)) largest = each;
  }
  return largest;
}

// From below, pixels are red up to the height of the bar (give or take a pixel), then green up to the ground,
// then blue.
bool picture_is_right(const Frame& frame) {
  const std::span<const std::uint32_t> pixels = frame.pixels.values<std::uint32_t>();
  for (std::uint32_t bar = 0; bar < kBars; ++bar) {
    const float bar_top = (0.5F + 0.5F * frame.output.values()[bar]) * kExtent.height;
    for (std::uint32_t up = 0; up < kExtent.height; ++up) {
      const float middle = static_cast<float>(up) + 0.5F;
      if (std::abs(middle - bar_top) < 1) continue;
      const std::uint32_t expected = middle < bar_top                          ? 0xFF0000FFU
                                     : middle < kGroundHeight * kExtent.height ? 0xFF00FF00U
                                                                               : 0xFFFF0000U;
      const std::uint32_t row = kExtent.height - 1 - up;
      if (pixels[row * kExtent.width + bar * kBarWidth + 1] != expected) return false;
    }
  }
  return true;
}

bool frame_is_right(const Frame& frame, std::uint32_t position) {
  const double error = difference(frame, position);
  const bool picture = picture_is_right(frame);
  if (position % 10 == 9 || !(error < 1e-5) || !picture) {
    std::printf("frame %u: %u keys, largest difference %.1e, picture %s\n", position, position + 1, error,
                picture ? "right" : "wrong");
  }
  return error < 1e-5 && picture;
}

bool run(const Gpu& gpu, std::uint32_t family, const std::string& picture) {
  VkQueue queue = VK_NULL_HANDLE;
  vkGetDeviceQueue(gpu.device, family, 0, &queue);
  const Memory memory(gpu);
  const Pipelines pipelines(gpu, kFramesInFlight);
  const Plans plans = make_plans(gpu.attention());
  const Cache cache(memory);
  const example::CommandPool pool(gpu, family);
  const example::Timeline timeline(gpu);
  std::vector<std::unique_ptr<Frame>> frames;
  for (std::uint32_t i = 0; i < kFramesInFlight; ++i) {
    frames.push_back(std::make_unique<Frame>(gpu, memory, pipelines, plans, cache, pool.allocate()));
  }
  bool right = true;
  // Frame n signals n + 1. From then on its results are there, and its buffers are free.
  for (std::uint32_t n = 0; n < kFrames + kFramesInFlight; ++n) {
    const Frame& frame = *frames[n % kFramesInFlight];
    if (n >= kFramesInFlight) {
      timeline.wait(n - kFramesInFlight + 1);
      right = frame_is_right(frame, n - kFramesInFlight) && right;
    }
    if (n >= kFrames) continue;
    record_frame(frame, pipelines, plans, n);
    submit(queue, frame, timeline, n + 1);
  }
  if (!picture.empty()) {
    const Frame& last = *frames[(kFrames - 1) % kFramesInFlight];
    example::checked(save({last.pixels.values<std::uint32_t>(), kExtent.width, kQueryHeads, kFrames,
                           gpu.attention().capabilities().device_name},
                          picture));
    std::printf("%s has the last frame\n", picture.c_str());
  }
  std::printf("the cache holds %d keys\n", cache.length.values<std::int32_t>()[0]);
  return right && cache.length.values<std::int32_t>()[0] == static_cast<std::int32_t>(kFrames);
}

bool render_frames(const std::string& picture) {
  Gpu gpu(VK_API_VERSION_1_3);
  const std::optional<std::uint32_t> family = gpu.family(VK_QUEUE_GRAPHICS_BIT | VK_QUEUE_COMPUTE_BIT);
  if (!family) example::skip("no Vulkan device with a queue for graphics and compute");
  const float priority = 1;
  VkDeviceQueueCreateInfo queue{VK_STRUCTURE_TYPE_DEVICE_QUEUE_CREATE_INFO};
  queue.queueFamilyIndex = *family;
  queue.queueCount = 1;
  queue.pQueuePriorities = &priority;
  VkPhysicalDeviceVulkan12Features features12{VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_2_FEATURES};
  features12.timelineSemaphore = VK_TRUE;
  VkPhysicalDeviceVulkan13Features features13{VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_3_FEATURES,
                                              &features12};
  features13.synchronization2 = features13.dynamicRendering = VK_TRUE;
  gpu.open({&queue, 1}, &features13);
  return run(gpu, *family, picture);
}

}  // namespace

int main(int count, char** words) {
  if (const auto code = example::help_code(
          count, words, 1,
          "vkattn_example_engine_frame [PICTURE.png]\n\nThe last frame goes to PICTURE.png."))
    return *code;
  return example::exit_code(render_frames(count > 1 ? words[1] : ""));
}
