// Fonts, colours and small items of the window.
#include <imgui_impl_glfw.h>

#include <filesystem>
#include <map>

#include "picture/colors.hpp"
#include "window/tabs.hpp"

namespace window {

namespace {

using vkattn::picture::Color;

ImFont *the_small_font = nullptr, *the_title_font = nullptr;

std::map<std::string, ImVec4, std::less<>>& marks() {
  static std::map<std::string, ImVec4, std::less<>> all;
  return all;
}

ImVec4 vector_of(const Color& color, float alpha = 1) {
  return {static_cast<float>(color.red), static_cast<float>(color.green), static_cast<float>(color.blue),
          alpha};
}

ImU32 packed(const Color& color) {
  return ImGui::ColorConvertFloat4ToU32(vector_of(color));
}

// DejaVu, if it is where Debian and others have it; otherwise Dear ImGui's own font.
ImFont* load_font(const char* file, float size) {
  static const ImWchar kRanges[] = {0x20,   0x24f,  0x370,  0x3ff,  0x2000, 0x22ff,
                                    0x27e0, 0x27ef, 0xfffd, 0xfffd, 0};
  ImGuiIO& io = ImGui::GetIO();
  for (const char* folder : {"/usr/share/fonts/truetype/dejavu/", "/usr/share/fonts/dejavu/",
                             "/usr/share/fonts/TTF/", "/usr/local/share/fonts/dejavu/"}) {
    const std::string path = std::string(folder) + file;
    std::error_code error;
    if (std::filesystem::exists(path, error))
      return io.Fonts->AddFontFromFileTTF(path.c_str(), size, nullptr, kRanges);
  }
  return io.Fonts->AddFontDefault();
}

void set_style() {
  using namespace vkattn::picture;
  ImGui::StyleColorsLight();
  ImGuiStyle& style = ImGui::GetStyle();
  style.WindowPadding = {16, 12};
  style.FramePadding = {8, 4};
  style.ItemSpacing = {8, 5};
  style.FrameRounding = style.GrabRounding = style.TabRounding = 4;
  style.WindowRounding = style.PopupRounding = 4;
  style.WindowBorderSize = 0;
  style.FrameBorderSize = style.PopupBorderSize = 1;
  const Color& accent = kSeriesColors[0];
  const std::pair<ImGuiCol, ImVec4> colors[] = {
      {ImGuiCol_Text, vector_of(kInk)},
      {ImGuiCol_TextSelectedBg, vector_of(accent, 0.25F)},
      {ImGuiCol_WindowBg, vector_of(kWhite)},
      {ImGuiCol_ChildBg, vector_of(kWhite)},
      {ImGuiCol_PopupBg, vector_of(kWhite)},
      {ImGuiCol_Border, vector_of(kGrid)},
      {ImGuiCol_Separator, vector_of(kGrid)},
      {ImGuiCol_FrameBg, vector_of(kFaintGrid)},
      {ImGuiCol_FrameBgHovered, vector_of(kGrid)},
      {ImGuiCol_FrameBgActive, vector_of(kGrid)},
      {ImGuiCol_SliderGrab, vector_of(accent, 0.55F)},
      {ImGuiCol_SliderGrabActive, vector_of(kSeriesColors[1], 0.7F)},
      {ImGuiCol_CheckMark, vector_of(accent)},
      {ImGuiCol_Tab, vector_of(kFaintGrid)},
      {ImGuiCol_TabHovered, vector_of(accent, 0.3F)},
      {ImGuiCol_TabActive, vector_of(accent, 0.2F)},
      {ImGuiCol_Button, vector_of(kFaintGrid)},
      {ImGuiCol_ButtonHovered, vector_of(kGrid)},
      {ImGuiCol_ButtonActive, vector_of(accent, 0.3F)}};
  for (const auto& [index, color] : colors) style.Colors[index] = color;
}

// A label, and below it an item as wide as there is room.
void label_above(const char* label) {
  soft_text(label);
  ImGui::SetNextItemWidth(-1);
}

}  // namespace

Interface::Interface(GLFWwindow* window, bool hears) {
  ImGui::CreateContext();
  ImGuiIO& io = ImGui::GetIO();
  io.IniFilename = nullptr;
  set_style();
  load_font("DejaVuSans.ttf", 15);
  the_small_font = load_font("DejaVuSans.ttf", 11);
  the_title_font = load_font("DejaVuSans-Bold.ttf", 15);
  ImGui_ImplGlfw_InitForVulkan(window, hears);
}

Interface::~Interface() {
  ImGui_ImplGlfw_Shutdown();
  ImGui::DestroyContext();
}

ImFont* small_font() {
  return the_small_font;
}
ImFont* title_font() {
  return the_title_font;
}

void mark(std::string_view name, ImVec2 from, ImVec2 to) {
  marks().insert_or_assign(std::string(name), ImVec4{from.x, from.y, to.x, to.y});
}
void mark(std::string_view name) {
  mark(name, ImGui::GetItemRectMin(), ImGui::GetItemRectMax());
}
const ImVec4* marked(std::string_view name) {
  const auto found = marks().find(name);
  return found == marks().end() ? nullptr : &found->second;
}
void forget_marks() {
  marks().clear();
}

ImU32 ink() {
  return packed(vkattn::picture::kInk);
}
ImU32 soft_ink() {
  return packed(vkattn::picture::kSoftInk);
}
ImU32 grid() {
  return packed(vkattn::picture::kGrid);
}
ImU32 series(std::size_t index) {
  return packed(vkattn::picture::series_color(index));
}
ImU32 heat(float share) {
  return packed(vkattn::picture::scale_color(static_cast<double>(share)));
}

void slide(const char* name, const char* label, int& value, int least, int most, const char* format) {
  label_above(label);
  const std::string id = std::string("##") + name;
  ImGui::SliderInt(id.c_str(), &value, least, most, format, ImGuiSliderFlags_AlwaysClamp);
  mark(name);
}
void slide(const char* name, const char* label, float& value, float least, float most, const char* format,
           bool is_logarithmic) {
  label_above(label);
  const std::string id = std::string("##") + name;
  const ImGuiSliderFlags flags =
      ImGuiSliderFlags_AlwaysClamp | (is_logarithmic ? ImGuiSliderFlags_Logarithmic : 0);
  ImGui::SliderFloat(id.c_str(), &value, least, most, format, flags);
  mark(name);
}
void tick(const char* name, const char* label, bool& value) {
  ImGui::Checkbox(label, &value);
  mark(name);
}
void soft_text(const char* text) {
  ImGui::PushStyleColor(ImGuiCol_Text, soft_ink());
  ImGui::TextWrapped("%s", text);
  ImGui::PopStyleColor();
}

void text_at(ImVec2 place, ImU32 color, const std::string& text, const ImFont* font, float size) {
  ImGui::GetWindowDrawList()->AddText(font, size, place, color, text.c_str());
  ImGui::LogText("%s\n", text.c_str());
}
float width_of(const std::string& text, const ImFont* font, float size) {
  return font->CalcTextSizeA(size, 1e6F, 0, text.c_str()).x;
}

std::string milliseconds(double ms) {
  char text[32];
  std::snprintf(text, sizeof(text), "%.2f ms", ms);
  return text;
}
std::string Times::words() const {
  if (values.empty()) return "not measured yet";
  return "median " + milliseconds(share_of(values, 0.5)) + ", 99 % below " +
         milliseconds(share_of(values, 0.99));
}
double share_of(std::span<const float> values, double share) {
  if (values.empty()) return 0;
  std::vector<float> sorted(values.begin(), values.end());
  std::ranges::sort(sorted);
  return static_cast<double>(
      sorted[static_cast<std::size_t>(share * static_cast<double>(sorted.size() - 1))]);
}

}  // namespace window
