#include "window/overlay.hpp"

#include <imgui_impl_glfw.h>
#include <imgui_impl_vulkan.h>

namespace window {

namespace {

using Drawing = std::function<void(VkCommandBuffer, VkRect2D)>;

// Dear ImGui hands callbacks one pointer, so what they need is here.
std::vector<Drawing> drawings;
std::vector<VkRect2D> areas;
VkCommandBuffer recorded_to = VK_NULL_HANDLE;

void call_drawing(const ImDrawList* /*list*/, const ImDrawCmd* command) {
  const auto index = reinterpret_cast<std::uintptr_t>(command->UserCallbackData);
  drawings[index](recorded_to, areas[index]);
}

}  // namespace

Overlay::Overlay(const Gpu& gpu, std::uint32_t family, VkQueue queue, const Screen& screen)
    : device_(gpu.device) {
  const VkDescriptorPoolSize size{VK_DESCRIPTOR_TYPE_COMBINED_IMAGE_SAMPLER, 4};
  VkDescriptorPoolCreateInfo pool{VK_STRUCTURE_TYPE_DESCRIPTOR_POOL_CREATE_INFO};
  pool.flags = VK_DESCRIPTOR_POOL_CREATE_FREE_DESCRIPTOR_SET_BIT;
  pool.maxSets = 4;
  pool.poolSizeCount = 1;
  pool.pPoolSizes = &size;
  check(vkCreateDescriptorPool(device_, &pool, nullptr, &pool_), "vkCreateDescriptorPool");
  ImGui_ImplVulkan_InitInfo info{};
  info.Instance = gpu.instance;
  info.PhysicalDevice = gpu.physical_device;
  info.Device = gpu.device;
  info.QueueFamily = family;
  info.Queue = queue;
  info.DescriptorPool = pool_;
  info.MinImageCount = info.ImageCount = kFramesInFlight;
  info.MSAASamples = VK_SAMPLE_COUNT_1_BIT;
  info.CheckVkResultFn = [](VkResult result) { check(result, "a call of Dear ImGui"); };
  try {
    ImGui_ImplVulkan_Init(&info, screen.render_pass());
    const example::CommandPool commands(gpu, family);
#if IMGUI_VERSION_NUM >= 19000
    ImGui_ImplVulkan_CreateFontsTexture();
#else
    example::execute(queue, commands, ImGui_ImplVulkan_CreateFontsTexture);
    ImGui_ImplVulkan_DestroyFontUploadObjects();
#endif
  } catch (const DeviceLost&) {
    shut_down();  // the next device's Overlay begins anew
    throw;
  }
}

Overlay::~Overlay() {
  shut_down();
}

void Overlay::shut_down() {
  vkDeviceWaitIdle(device_);
  if (ImGui::GetIO().BackendRendererUserData != nullptr) ImGui_ImplVulkan_Shutdown();
  vkDestroyDescriptorPool(device_, pool_, nullptr);
}

void Overlay::begin() {
  drawings.clear();
  areas.clear();
  ImGui_ImplVulkan_NewFrame();
  ImGui_ImplGlfw_NewFrame();
}

void Overlay::record(VkCommandBuffer commands) {
  recorded_to = commands;
  try {
    ImGui_ImplVulkan_RenderDrawData(ImGui::GetDrawData(), commands);
  } catch (const DeviceLost&) {
    // The back end cannot be shut down: it still has the handle of the buffer that the one which could not be
    // made was to replace. It is left with its device.
    ImGui::GetIO().BackendRendererUserData = nullptr;
    throw;
  }
}

void draw_into(ImDrawList& list, ImVec2 from, ImVec2 to, Drawing draw) {
  const ImGuiIO& io = ImGui::GetIO();
  const ImVec2 scale = io.DisplayFramebufferScale;
  const auto pixel = [](float place, float factor) {
    return static_cast<std::int32_t>(std::lround(std::max(place, 0.0F) * factor));
  };
  const VkOffset2D first{pixel(from.x, scale.x), pixel(from.y, scale.y)};
  const VkOffset2D last{pixel(to.x, scale.x), pixel(to.y, scale.y)};
  if (last.x <= first.x || last.y <= first.y) return;
  areas.push_back(
      {first, {static_cast<std::uint32_t>(last.x - first.x), static_cast<std::uint32_t>(last.y - first.y)}});
  drawings.push_back(std::move(draw));
  list.AddCallback(call_drawing, reinterpret_cast<void*>(drawings.size() - 1));
  list.AddCallback(ImDrawCallback_ResetRenderState, nullptr);
}

}  // namespace window
