#include "window/script.hpp"

#include <array>
#include <fstream>
#include <sstream>
#include <string_view>
#include <utility>

#include "window/glfw.hpp"
#include "window/overlay.hpp"

namespace window {

namespace {

constexpr std::array<std::string_view, 14> kCommands = {
    "type",     "repeat",  "key",        "click", "hover", "wait", "resize",
    "minimise", "restore", "screenshot", "words", "check", "pace", "quit"};

struct Key {
  std::string_view name;
  int glfw;
  ImGuiKey imgui;
};
constexpr Key kKeys[] = {{"a", GLFW_KEY_A, ImGuiKey_A},
                         {"tab", GLFW_KEY_TAB, ImGuiKey_Tab},
                         {"enter", GLFW_KEY_ENTER, ImGuiKey_Enter},
                         {"escape", GLFW_KEY_ESCAPE, ImGuiKey_Escape},
                         {"backspace", GLFW_KEY_BACKSPACE, ImGuiKey_Backspace},
                         {"delete", GLFW_KEY_DELETE, ImGuiKey_Delete},
                         {"end", GLFW_KEY_END, ImGuiKey_End}};

// Versions before 1.87 have arrays in place of events.
void hand_key(const Key& key, bool with_control, bool is_down) {
  ImGuiIO& io = ImGui::GetIO();
#if IMGUI_VERSION_NUM >= 18700
  io.AddKeyEvent(ImGuiMod_Ctrl, with_control && is_down);
  io.AddKeyEvent(key.imgui, is_down);
#else
  io.KeyCtrl = with_control && is_down;
  io.KeysDown[key.glfw] = is_down;
#endif
}

void hand_mouse(float x, float y, bool is_down) {
  ImGuiIO& io = ImGui::GetIO();
#if IMGUI_VERSION_NUM >= 18700
  io.AddMousePosEvent(x, y);
  io.AddMouseButtonEvent(0, is_down);
#else
  io.MousePos = {x, y};
  io.MouseDown[0] = is_down;
#endif
}

}  // namespace

vkattn::Error Script::refuse(const Line& line, const std::string& why) const {
  return {vkattn::ErrorCode::kInvalidArgument, 0,
          path_.string() + ", line " + std::to_string(line.number) + ": " + why};
}

vkattn::Result<Script> Script::read(const std::filesystem::path& path) {
  std::ifstream file(path);
  if (!file) return vkattn::Error{vkattn::ErrorCode::kIo, 0, path.string() + " cannot be read"};
  Script script;
  script.path_ = path;
  std::string text;
  for (std::size_t number = 1; std::getline(file, text); ++number) {
    const std::size_t space = std::min(text.find(' '), text.size());
    Line line{number, text.substr(0, space), space < text.size() ? text.substr(space + 1) : ""};
    if (line.word.empty() || line.word.front() == '#') continue;
    if (std::ranges::find(kCommands, line.word) == kCommands.end())
      return script.refuse(line, "'" + line.word + "' is no command; script.hpp has them");
    script.lines_.push_back(std::move(line));
  }
  return script;
}

vkattn::Result<Script::Play> Script::play(GLFWwindow* window, bool is_ready) {
  Play play;
  is_down_ = false;
  if (!std::exchange(has_begun_, true)) return play;
  if (at_ == lines_.size()) {
    play.quits = true;
    return play;
  }
  const auto done = play_line(lines_[at_], window, is_ready, play);
  hand_mouse(x_, y_, is_down_);  // once a frame, as back ends do
  if (!done) return done.error();
  ++frames_;
  if (*done) ++at_, frames_ = 0;
  return play;
}

// True if the line is done with this frame.
vkattn::Result<bool> Script::play_line(const Line& line, GLFWwindow* window, bool is_ready, Play& play) {
  std::istringstream rest(line.rest);
  ImGuiIO& io = ImGui::GetIO();
  if (line.word == "type") {
    io.AddInputCharactersUTF8(line.rest.c_str());
  } else if (line.word == "repeat") {
    int count = 0;
    std::string text;
    rest >> count >> text;
    for (int i = 0; i < count; ++i) io.AddInputCharactersUTF8(text.c_str());
  } else if (line.word == "key") {
    const bool with_control = line.rest.starts_with("ctrl+");
    const auto found = std::ranges::find(kKeys, line.rest.substr(with_control ? 5 : 0), &Key::name);
    if (found == std::end(kKeys)) return refuse(line, "'" + line.rest + "' is no key that scripts know");
    hand_key(*found, with_control, frames_ == 0);
    return frames_ == 1;
  } else if (line.word == "click" || line.word == "hover") {
    return point(line, line.word == "click");
  } else if (line.word == "wait") {
    constexpr int kMostFrames = 20'000;
    if (line.rest != "ready") return frames_ + 1 >= std::atoi(line.rest.c_str());
    if (frames_ == kMostFrames) return refuse(line, "it is not ready after 20000 frames");
    return frames_ > 3 && is_ready;
  } else if (line.word == "resize") {
    int width = 0, height = 0;
    if (!(rest >> width >> height)) return refuse(line, "a size is two numbers");
    glfwSetWindowSize(window, width, height);
  } else if (line.word == "minimise") {
    glfwIconifyWindow(window);
    glfwHideWindow(window);  // as a window manager would do; a server alone has none
  } else if (line.word == "restore") {
    glfwShowWindow(window);
    glfwRestoreWindow(window);
  } else if (line.word == "screenshot") {
    play.picture = line.rest;
  } else if (line.word == "words") {
    play.words = line.rest;
  } else if (line.word == "pace") {
    is_paced_ = true;
  } else {
    play.checks = line.word == "check";
    play.quits = line.word == "quit";
  }
  return true;
}

// Goes there, presses, and lets go, each in a frame of its own.
vkattn::Result<bool> Script::point(const Line& line, bool clicks) {
  std::istringstream rest(line.rest);
  std::string name;
  float x = 0.5F, y = 0.5F;
  rest >> name >> x;
  if (!rest) x = 0.5F;
  if (!(rest >> y)) y = 0.5F;
  if (frames_ == 0) {
    const ImVec4* place = marked(name);
    if (place == nullptr) return refuse(line, "nothing in the window has the name '" + name + "'");
    // The right and lower edges are outside.
    x_ = place->x + x * (place->z - place->x - 1);
    y_ = place->y + y * (place->w - place->y - 1);
  }
  is_down_ = clicks && (frames_ == 2 || frames_ == 3);
  return frames_ == (clicks ? 5 : 1);
}

}  // namespace window
