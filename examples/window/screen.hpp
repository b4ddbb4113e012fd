// The window's pictures: a swapchain that follows the window's size, a render pass, and two frames in flight.
#pragma once

#include <array>
#include <memory>
#include <stdexcept>
#include <string>

#include "common.hpp"

struct GLFWwindow;

namespace window {

using example::check;
using example::Gpu;

constexpr std::uint32_t kFramesInFlight = 2;

// The device is gone. The program makes a new one.
struct DeviceLost : std::runtime_error {
  using std::runtime_error::runtime_error;
};

// A frame that is recorded. `slot` is its number among the frames in flight.
struct Frame {
  VkCommandBuffer commands = VK_NULL_HANDLE;
  std::uint32_t slot = 0;
};

class Screen {
 public:
  Screen(const Gpu& gpu, std::uint32_t family, VkQueue queue, GLFWwindow* window);
  Screen(const Screen&) = delete;
  Screen& operator=(const Screen&) = delete;
  ~Screen();

  // Begins a frame when its slot is free: the device is done with what was recorded there before. No frame if
  // the window has no area, as when it is minimised, if its size is changing, or if no image is free for 100
  // ms, as of a window that nobody sees.
  [[nodiscard]] std::optional<Frame> begin();
  void begin_pass(const Frame& frame) const;
  // Ends the pass, submits and presents. If `picture` is not empty, the frame is also written to that file.
  void end(const Frame& frame, const std::string& picture);
  // Waits until the device is done with all frames.
  void wait() const;

  [[nodiscard]] VkRenderPass render_pass() const { return render_pass_; }
  // How many were made so far: one for each size.
  [[nodiscard]] std::size_t swapchains() const { return swapchains_; }

 private:
  // So that the destructor runs if a device is lost while the rest is made.
  Screen(const Gpu& gpu, std::uint32_t family, GLFWwindow* window)
      : gpu_(gpu), window_(window), pool_(gpu, family) {}
  struct Image {
    VkImage image = VK_NULL_HANDLE;
    VkImageView view = VK_NULL_HANDLE;
    VkFramebuffer framebuffer = VK_NULL_HANDLE;
    VkSemaphore drawn = VK_NULL_HANDLE;
  };
  struct Slot {
    VkCommandBuffer commands = VK_NULL_HANDLE;
    VkFence done = VK_NULL_HANDLE;
    VkSemaphore acquired = VK_NULL_HANDLE;
  };
  void choose_format();
  void create_render_pass();
  // Follows the window's size. False if it has no area.
  [[nodiscard]] bool make_swapchain();
  void add_images();
  void destroy_images();
  void submit(const Slot& slot);
  void copy(VkCommandBuffer commands) const;
  void write(const std::string& path) const;

  const Gpu& gpu_;
  VkQueue queue_ = VK_NULL_HANDLE;
  GLFWwindow* window_;
  VkSurfaceKHR surface_ = VK_NULL_HANDLE;
  VkSurfaceFormatKHR format_{};
  VkRenderPass render_pass_ = VK_NULL_HANDLE;
  VkSwapchainKHR swapchain_ = VK_NULL_HANDLE;
  VkExtent2D extent_{}, made_for_{};  // of the images, and of the window when they were made
  std::size_t swapchains_ = 0;
  bool is_readable_ = false;  // images can be copied
  std::vector<Image> images_;
  example::CommandPool pool_;
  std::array<Slot, kFramesInFlight> slots_{};
  example::Buffer pixels_;  // of the last frame that was written to a file
  std::uint32_t slot_ = 0, image_ = 0;
};

// Where a part of the window is made.
struct Place {
  const Gpu& gpu;
  std::uint32_t family;
  VkQueue queue;
  const Screen& screen;
};

}  // namespace window
