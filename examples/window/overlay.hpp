// Dear ImGui in this window: its context, its back ends, and pictures of our own between its shapes.
#pragma once

#include <imgui.h>

#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "window/screen.hpp"

namespace window {

// Dear ImGui's context with this program's fonts and colours. It outlives the device.
class Interface {
 public:
  // If a script plays, real keys and clicks are not heard.
  Interface(GLFWwindow* window, bool hears);
  Interface(const Interface&) = delete;
  Interface& operator=(const Interface&) = delete;
  ~Interface();
};

[[nodiscard]] ImFont* small_font();
[[nodiscard]] ImFont* title_font();

// Dear ImGui's Vulkan back end, on the program's own device.
class Overlay {
 public:
  // Throws DeviceLost.
  Overlay(const Gpu& gpu, std::uint32_t family, VkQueue queue, const Screen& screen);
  Overlay(const Overlay&) = delete;
  Overlay& operator=(const Overlay&) = delete;
  ~Overlay();
  // Before ImGui::NewFrame().
  static void begin();
  // Records what was drawn, within the screen's render pass.
  static void record(VkCommandBuffer commands);

 private:
  void shut_down();

  VkDevice device_;
  VkDescriptorPool pool_ = VK_NULL_HANDLE;
};

// Has `draw` record a picture of ours in this rectangle of the window, between the list's other shapes.
void draw_into(ImDrawList& list, ImVec2 from, ImVec2 to, std::function<void(VkCommandBuffer, VkRect2D)> draw);

// Remembers by a name where the last item is, for scripts.
void mark(std::string_view name);
void mark(std::string_view name, ImVec2 from, ImVec2 to);
// Null if nothing of this name was drawn in this frame.
[[nodiscard]] const ImVec4* marked(std::string_view name);
void forget_marks();

// The colours of vkattn's pictures.
[[nodiscard]] ImU32 ink();
[[nodiscard]] ImU32 soft_ink();
[[nodiscard]] ImU32 grid();
[[nodiscard]] ImU32 series(std::size_t index);
[[nodiscard]] ImU32 heat(float share);  // from 0 to 1

// A label, and below it a slider.
void slide(const char* name, const char* label, int& value, int least, int most, const char* format);
void slide(const char* name, const char* label, float& value, float least, float most, const char* format,
           bool is_logarithmic = false);
void tick(const char* name, const char* label, bool& value);
void soft_text(const char* text);

// Draws a text of our own into the current window of Dear ImGui, and hands it to Dear ImGui's log.
void text_at(ImVec2 place, ImU32 color, const std::string& text, const ImFont* font, float size);
[[nodiscard]] float width_of(const std::string& text, const ImFont* font, float size);

// "0.53 ms"
[[nodiscard]] std::string milliseconds(double ms);
// The value below which this share of the values lies; 0 of none.
[[nodiscard]] double share_of(std::span<const float> values, double share);

}  // namespace window
