#include "window/screen.hpp"

#define STB_IMAGE_WRITE_IMPLEMENTATION
#define STB_IMAGE_WRITE_STATIC
#include <stb_image_write.h>

#include "window/glfw.hpp"

namespace window {

namespace {

// As check(), for calls that reach the display. Where Xlib notices first that it has gone, it says so itself.
void check_shown(VkResult result, const char* what) {
  if (result == VK_ERROR_SURFACE_LOST_KHR) {
    std::fprintf(stderr, "the display has gone: %s lost the window's surface\n", what);
    std::exit(1);
  }
  check(result, what);
}

}  // namespace

Screen::Screen(const Gpu& gpu, std::uint32_t family, VkQueue queue, GLFWwindow* window)
    : Screen(gpu, family, window) {
  queue_ = queue;
  check(glfwCreateWindowSurface(gpu.instance, window, nullptr, &surface_), "glfwCreateWindowSurface");
  VkBool32 presents = VK_FALSE;
  check(vkGetPhysicalDeviceSurfaceSupportKHR(gpu.physical_device, family, surface_, &presents),
        "vkGetPhysicalDeviceSurfaceSupportKHR");
  if (presents == VK_FALSE) example::skip("this Vulkan device cannot show pictures in this window");
  choose_format();
  create_render_pass();
  const VkFenceCreateInfo fence{VK_STRUCTURE_TYPE_FENCE_CREATE_INFO, nullptr, VK_FENCE_CREATE_SIGNALED_BIT};
  const VkSemaphoreCreateInfo semaphore{VK_STRUCTURE_TYPE_SEMAPHORE_CREATE_INFO};
  for (Slot& slot : slots_) {
    slot.commands = pool_.allocate();
    check(vkCreateFence(gpu.device, &fence, nullptr, &slot.done), "vkCreateFence");
    check(vkCreateSemaphore(gpu.device, &semaphore, nullptr, &slot.acquired), "vkCreateSemaphore");
  }
}

Screen::~Screen() {
  vkDeviceWaitIdle(gpu_.device);  // of a lost device this is an error, which changes nothing
  destroy_images();
  vkDestroySwapchainKHR(gpu_.device, swapchain_, nullptr);
  for (const Slot& slot : slots_) {
    vkDestroyFence(gpu_.device, slot.done, nullptr);
    vkDestroySemaphore(gpu_.device, slot.acquired, nullptr);
  }
  vkDestroyRenderPass(gpu_.device, render_pass_, nullptr);
  vkDestroySurfaceKHR(gpu_.instance, surface_, nullptr);
}

// Dear ImGui's colours and ours are sRGB already, so the format must not encode them again.
void Screen::choose_format() {
  std::uint32_t count = 0;
  check(vkGetPhysicalDeviceSurfaceFormatsKHR(gpu_.physical_device, surface_, &count, nullptr),
        "vkGetPhysicalDeviceSurfaceFormatsKHR");
  std::vector<VkSurfaceFormatKHR> formats(count);
  check(vkGetPhysicalDeviceSurfaceFormatsKHR(gpu_.physical_device, surface_, &count, formats.data()),
        "vkGetPhysicalDeviceSurfaceFormatsKHR");
  const auto found = std::ranges::find_if(formats, [](const VkSurfaceFormatKHR& each) {
    return each.format == VK_FORMAT_B8G8R8A8_UNORM || each.format == VK_FORMAT_R8G8B8A8_UNORM;
  });
  if (found == formats.end()) example::skip("this window takes no pictures of 8 bits for each colour");
  format_ = *found;
}

void Screen::create_render_pass() {
  VkAttachmentDescription color{};
  color.format = format_.format;
  color.samples = VK_SAMPLE_COUNT_1_BIT;
  color.loadOp = VK_ATTACHMENT_LOAD_OP_CLEAR;
  color.storeOp = VK_ATTACHMENT_STORE_OP_STORE;
  color.stencilLoadOp = VK_ATTACHMENT_LOAD_OP_DONT_CARE;
  color.stencilStoreOp = VK_ATTACHMENT_STORE_OP_DONT_CARE;
  color.finalLayout = VK_IMAGE_LAYOUT_PRESENT_SRC_KHR;
  const VkAttachmentReference reference{0, VK_IMAGE_LAYOUT_COLOR_ATTACHMENT_OPTIMAL};
  VkSubpassDescription subpass{};
  subpass.pipelineBindPoint = VK_PIPELINE_BIND_POINT_GRAPHICS;
  subpass.colorAttachmentCount = 1;
  subpass.pColorAttachments = &reference;
  constexpr auto kDrawing = VK_PIPELINE_STAGE_COLOR_ATTACHMENT_OUTPUT_BIT;
  // The image's layout changes after it was acquired; a copy of it comes after it was drawn.
  const VkSubpassDependency dependencies[] = {
      {VK_SUBPASS_EXTERNAL, 0, kDrawing, kDrawing, 0, VK_ACCESS_COLOR_ATTACHMENT_WRITE_BIT, 0},
      {0, VK_SUBPASS_EXTERNAL, kDrawing, VK_PIPELINE_STAGE_TRANSFER_BIT, VK_ACCESS_COLOR_ATTACHMENT_WRITE_BIT,
       VK_ACCESS_TRANSFER_READ_BIT, 0}};
  VkRenderPassCreateInfo info{VK_STRUCTURE_TYPE_RENDER_PASS_CREATE_INFO};
  info.attachmentCount = info.subpassCount = 1;
  info.pAttachments = &color;
  info.pSubpasses = &subpass;
  info.dependencyCount = 2;
  info.pDependencies = dependencies;
  check(vkCreateRenderPass(gpu_.device, &info, nullptr, &render_pass_), "vkCreateRenderPass");
}

bool Screen::make_swapchain() {
  int width = 0, height = 0;
  glfwGetFramebufferSize(window_, &width, &height);
  VkSurfaceCapabilitiesKHR can{};
  check_shown(vkGetPhysicalDeviceSurfaceCapabilitiesKHR(gpu_.physical_device, surface_, &can),
              "vkGetPhysicalDeviceSurfaceCapabilitiesKHR");
  VkExtent2D extent = can.currentExtent;
  if (extent.width == UINT32_MAX) {
    extent.width =
        std::clamp(static_cast<std::uint32_t>(width), can.minImageExtent.width, can.maxImageExtent.width);
    extent.height =
        std::clamp(static_cast<std::uint32_t>(height), can.minImageExtent.height, can.maxImageExtent.height);
  }
  if (width == 0 || height == 0 || extent.width == 0 || extent.height == 0) return false;
  wait();
  destroy_images();
  VkSwapchainCreateInfoKHR info{VK_STRUCTURE_TYPE_SWAPCHAIN_CREATE_INFO_KHR};
  info.surface = surface_;
  info.minImageCount = can.minImageCount + 1;
  if (can.maxImageCount != 0) info.minImageCount = std::min(info.minImageCount, can.maxImageCount);
  info.imageFormat = format_.format;
  info.imageColorSpace = format_.colorSpace;
  info.imageExtent = extent_ = extent;
  made_for_ = {static_cast<std::uint32_t>(width), static_cast<std::uint32_t>(height)};
  info.imageArrayLayers = 1;
  is_readable_ = (can.supportedUsageFlags & VK_IMAGE_USAGE_TRANSFER_SRC_BIT) != 0;
  info.imageUsage =
      VK_IMAGE_USAGE_COLOR_ATTACHMENT_BIT | (can.supportedUsageFlags & VK_IMAGE_USAGE_TRANSFER_SRC_BIT);
  info.preTransform = can.currentTransform;
  // The lowest bit: opaque if that is possible.
  info.compositeAlpha = static_cast<VkCompositeAlphaFlagBitsKHR>(can.supportedCompositeAlpha &
                                                                 (~can.supportedCompositeAlpha + 1));
  info.presentMode = VK_PRESENT_MODE_FIFO_KHR;
  info.clipped = VK_TRUE;
  info.oldSwapchain = swapchain_;
  VkSwapchainKHR made = VK_NULL_HANDLE;
  check(vkCreateSwapchainKHR(gpu_.device, &info, nullptr, &made), "vkCreateSwapchainKHR");
  vkDestroySwapchainKHR(gpu_.device, swapchain_, nullptr);
  swapchain_ = made;
  ++swapchains_;
  add_images();
  return true;
}

void Screen::add_images() {
  std::uint32_t count = 0;
  check(vkGetSwapchainImagesKHR(gpu_.device, swapchain_, &count, nullptr), "vkGetSwapchainImagesKHR");
  std::vector<VkImage> images(count);
  check(vkGetSwapchainImagesKHR(gpu_.device, swapchain_, &count, images.data()), "vkGetSwapchainImagesKHR");
  for (const VkImage each : images) {
    Image& image = images_.emplace_back();
    image.image = each;
    VkImageViewCreateInfo view{VK_STRUCTURE_TYPE_IMAGE_VIEW_CREATE_INFO};
    view.image = each;
    view.viewType = VK_IMAGE_VIEW_TYPE_2D;
    view.format = format_.format;
    view.subresourceRange = {VK_IMAGE_ASPECT_COLOR_BIT, 0, 1, 0, 1};
    check(vkCreateImageView(gpu_.device, &view, nullptr, &image.view), "vkCreateImageView");
    VkFramebufferCreateInfo info{VK_STRUCTURE_TYPE_FRAMEBUFFER_CREATE_INFO};
    info.renderPass = render_pass_;
    info.attachmentCount = info.layers = 1;
    info.pAttachments = &image.view;
    info.width = extent_.width;
    info.height = extent_.height;
    check(vkCreateFramebuffer(gpu_.device, &info, nullptr, &image.framebuffer), "vkCreateFramebuffer");
    const VkSemaphoreCreateInfo semaphore{VK_STRUCTURE_TYPE_SEMAPHORE_CREATE_INFO};
    check(vkCreateSemaphore(gpu_.device, &semaphore, nullptr, &image.drawn), "vkCreateSemaphore");
  }
}

void Screen::destroy_images() {
  for (const Image& image : images_) {
    vkDestroySemaphore(gpu_.device, image.drawn, nullptr);
    vkDestroyFramebuffer(gpu_.device, image.framebuffer, nullptr);
    vkDestroyImageView(gpu_.device, image.view, nullptr);
  }
  images_.clear();
}

void Screen::wait() const {
  check(vkQueueWaitIdle(queue_), "vkQueueWaitIdle");
}

std::optional<Frame> Screen::begin() {
  int width = 0, height = 0;
  glfwGetFramebufferSize(window_, &width, &height);
  if (width == 0 || height == 0) return std::nullopt;
  const bool has_size = made_for_.width == static_cast<std::uint32_t>(width) &&
                        made_for_.height == static_cast<std::uint32_t>(height);
  if (!has_size && !make_swapchain()) return std::nullopt;
  const Slot& slot = slots_[slot_];
  check(vkWaitForFences(gpu_.device, 1, &slot.done, VK_TRUE, UINT64_MAX), "vkWaitForFences");
  constexpr std::uint64_t kWaitNs = 100'000'000;
  const VkResult result =
      vkAcquireNextImageKHR(gpu_.device, swapchain_, kWaitNs, slot.acquired, VK_NULL_HANDLE, &image_);
  if (result == VK_ERROR_OUT_OF_DATE_KHR) made_for_ = {};
  if (result == VK_ERROR_OUT_OF_DATE_KHR || result == VK_TIMEOUT) return std::nullopt;
  check_shown(result, "vkAcquireNextImageKHR");
  check(vkResetFences(gpu_.device, 1, &slot.done), "vkResetFences");
  example::begin(slot.commands);
  return Frame{slot.commands, slot_};
}

void Screen::begin_pass(const Frame& frame) const {
  const VkClearValue white{{{1, 1, 1, 1}}};
  VkRenderPassBeginInfo info{VK_STRUCTURE_TYPE_RENDER_PASS_BEGIN_INFO};
  info.renderPass = render_pass_;
  info.framebuffer = images_[image_].framebuffer;
  info.renderArea.extent = extent_;
  info.clearValueCount = 1;
  info.pClearValues = &white;
  vkCmdBeginRenderPass(frame.commands, &info, VK_SUBPASS_CONTENTS_INLINE);
}

void Screen::submit(const Slot& slot) {
  const VkPipelineStageFlags stage = VK_PIPELINE_STAGE_COLOR_ATTACHMENT_OUTPUT_BIT;
  VkSubmitInfo info{VK_STRUCTURE_TYPE_SUBMIT_INFO};
  info.waitSemaphoreCount = info.commandBufferCount = info.signalSemaphoreCount = 1;
  info.pWaitSemaphores = &slot.acquired;
  info.pWaitDstStageMask = &stage;
  info.pCommandBuffers = &slot.commands;
  info.pSignalSemaphores = &images_[image_].drawn;
  check(vkQueueSubmit(queue_, 1, &info, slot.done), "vkQueueSubmit");
}

void Screen::end(const Frame& frame, const std::string& picture) {
  vkCmdEndRenderPass(frame.commands);
  if (!picture.empty()) {
    if (!is_readable_) {
      std::fprintf(stderr, "%s cannot be made: this window's images cannot be copied\n", picture.c_str());
      std::exit(1);
    }
    pixels_ = example::Buffer(gpu_, VkDeviceSize{4} * extent_.width * extent_.height,
                              VK_BUFFER_USAGE_TRANSFER_DST_BIT);
    copy(frame.commands);
  }
  check(vkEndCommandBuffer(frame.commands), "vkEndCommandBuffer");
  submit(slots_[slot_]);
  VkPresentInfoKHR info{VK_STRUCTURE_TYPE_PRESENT_INFO_KHR};
  info.waitSemaphoreCount = info.swapchainCount = 1;
  info.pWaitSemaphores = &images_[image_].drawn;
  info.pSwapchains = &swapchain_;
  info.pImageIndices = &image_;
  const VkResult result = vkQueuePresentKHR(queue_, &info);
  if (!picture.empty()) {
    wait();
    write(picture);
  }
  // Suboptimal: the window has another size than the images, which are made again.
  if (result == VK_ERROR_OUT_OF_DATE_KHR || result == VK_SUBOPTIMAL_KHR) {
    made_for_ = {};
  } else {
    check_shown(result, "vkQueuePresentKHR");
  }
  slot_ = (slot_ + 1) % kFramesInFlight;
}

void Screen::copy(VkCommandBuffer commands) const {
  const auto change = [&](VkImageLayout before, VkImageLayout after, VkAccessFlags used) {
    VkImageMemoryBarrier barrier{VK_STRUCTURE_TYPE_IMAGE_MEMORY_BARRIER};
    barrier.dstAccessMask = used;
    barrier.oldLayout = before;
    barrier.newLayout = after;
    barrier.srcQueueFamilyIndex = barrier.dstQueueFamilyIndex = VK_QUEUE_FAMILY_IGNORED;
    barrier.image = images_[image_].image;
    barrier.subresourceRange = {VK_IMAGE_ASPECT_COLOR_BIT, 0, 1, 0, 1};
    vkCmdPipelineBarrier(commands, VK_PIPELINE_STAGE_TRANSFER_BIT, VK_PIPELINE_STAGE_TRANSFER_BIT, 0, 0,
                         nullptr, 0, nullptr, 1, &barrier);
  };
  change(VK_IMAGE_LAYOUT_PRESENT_SRC_KHR, VK_IMAGE_LAYOUT_TRANSFER_SRC_OPTIMAL, VK_ACCESS_TRANSFER_READ_BIT);
  VkBufferImageCopy region{};
  region.imageSubresource = {VK_IMAGE_ASPECT_COLOR_BIT, 0, 0, 1};
  region.imageExtent = {extent_.width, extent_.height, 1};
  vkCmdCopyImageToBuffer(commands, images_[image_].image, VK_IMAGE_LAYOUT_TRANSFER_SRC_OPTIMAL,
                         pixels_.handle(), 1, &region);
  change(VK_IMAGE_LAYOUT_TRANSFER_SRC_OPTIMAL, VK_IMAGE_LAYOUT_PRESENT_SRC_KHR, 0);
  example::barrier(commands, VK_PIPELINE_STAGE_TRANSFER_BIT, VK_ACCESS_TRANSFER_WRITE_BIT,
                   VK_PIPELINE_STAGE_HOST_BIT, VK_ACCESS_HOST_READ_BIT);
}

void Screen::write(const std::string& path) const {
  std::vector<std::uint8_t> rgb;
  const bool is_reversed = format_.format == VK_FORMAT_B8G8R8A8_UNORM;
  for (const std::uint32_t pixel : pixels_.values<std::uint32_t>()) {
    for (const unsigned part : {0U, 1U, 2U})
      rgb.push_back(static_cast<std::uint8_t>(pixel >> 8 * (is_reversed ? 2 - part : part)));
  }
  stbi_write_force_png_filter = 0;  // none, so that tests read pictures quickly
  const auto width = static_cast<int>(extent_.width), height = static_cast<int>(extent_.height);
  if (stbi_write_png(path.c_str(), width, height, 3, rgb.data(), 3 * width) == 0) {
    std::fprintf(stderr, "%s cannot be written\n", path.c_str());
    std::exit(1);
  }
  std::printf("%s has a picture of %d x %d\n", path.c_str(), width, height);
}

}  // namespace window
