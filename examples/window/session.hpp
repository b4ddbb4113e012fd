// One device's life: everything that is made on it, and the frames until the window closes or the device is
// lost.
#pragma once

#include <chrono>

#include "window/script.hpp"
#include "window/tabs.hpp"

namespace window {

// What outlives a device.
struct State {
  std::unique_ptr<MapTab> maps;  // the first tab
  CrowdTab crowd;
  Times intervals;               // from frame to frame
  std::optional<Script> script;  // plays in place of a user
  std::string message;           // shown above the tabs; may be empty
  std::size_t frames = 0;        // that were shown
  std::size_t swapchains = 0;    // of the last device
  std::chrono::steady_clock::time_point begin = std::chrono::steady_clock::now();
  bool has_wrong_weights = false;
};

class Session {
 public:
  Session(GLFWwindow* window, State& state, bool validates);
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;
  // Waits: after a loss the driver may still run the frame before.
  ~Session() { vkDeviceWaitIdle(gpu_.device); }
  // Until the window closes or the script ends. Throws DeviceLost.
  void run();

 private:
  using Clock = std::chrono::steady_clock;
  void frame();
  // Draws the tabs, and writes their texts to the file `words` if there is one. True if the crowd's tab is
  // open and drawn.
  bool draw(const Frame& frame, const std::string& words);
  [[nodiscard]] bool draw_crowd();
  void record(const Frame& frame, bool is_crowd);
  void take_times(const Frame& frame);
  void make_crowd();
  void check_weights();  // waits for the device
  void say_first(const char* what) const;

  GLFWwindow* window_;
  State& state_;
  Gpu gpu_;
  std::uint32_t family_;
  VkQueue queue_ = VK_NULL_HANDLE;
  Clock::time_point opened_;
  std::optional<Screen> screen_;
  std::optional<Overlay> overlay_;
  std::optional<Timer> timer_;
  std::unique_ptr<LiveTab> maps_;
  std::optional<Crowd> crowd_;
  std::array<bool, kFramesInFlight> was_crowd_{};
  bool is_crowd_ = false, wants_crowd_ = false;
  Clock::time_point last_ = Clock::now(), next_ = last_;
  bool has_shown_frame_ = false, has_shown_weights_ = false, is_check_due_ = false, has_ended_ = false;
};

}  // namespace window
