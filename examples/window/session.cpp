#include "window/session.hpp"

#include <thread>

#include "window/checks.hpp"
#include "window/glfw.hpp"

namespace window {

namespace {

std::vector<const char*> instance_extensions() {
  std::uint32_t count = 0;
  const char** names = glfwGetRequiredInstanceExtensions(&count);
  if (names == nullptr)
    example::skip("no Vulkan for windows: GLFW finds no loader, or no driver that can show pictures");
  return {names, names + count};
}

// The first family for graphics and compute that can show pictures, of a device that has swapchains.
std::optional<std::uint32_t> family_of(VkInstance instance, VkPhysicalDevice device) {
  std::uint32_t count = 0;
  check(vkEnumerateDeviceExtensionProperties(device, nullptr, &count, nullptr),
        "vkEnumerateDeviceExtensionProperties");
  std::vector<VkExtensionProperties> extensions(count);
  check(vkEnumerateDeviceExtensionProperties(device, nullptr, &count, extensions.data()),
        "vkEnumerateDeviceExtensionProperties");
  if (std::ranges::none_of(extensions, [](const VkExtensionProperties& each) {
        return std::string_view(each.extensionName) == VK_KHR_SWAPCHAIN_EXTENSION_NAME;
      }))
    return std::nullopt;
  vkGetPhysicalDeviceQueueFamilyProperties(device, &count, nullptr);
  std::vector<VkQueueFamilyProperties> families(count);
  vkGetPhysicalDeviceQueueFamilyProperties(device, &count, families.data());
  constexpr VkQueueFlags kWanted = VK_QUEUE_GRAPHICS_BIT | VK_QUEUE_COMPUTE_BIT;
  for (std::uint32_t i = 0; i < count; ++i) {
    if ((families[i].queueFlags & kWanted) == kWanted &&
        glfwGetPhysicalDevicePresentationSupport(instance, device, i) == GLFW_TRUE)
      return i;
  }
  return std::nullopt;
}

bool can_show(VkInstance instance, VkPhysicalDevice device) {
  return family_of(instance, device).has_value();
}

std::uint32_t open(Gpu& gpu) {
  const std::uint32_t family = family_of(gpu.instance, gpu.physical_device).value();
  const float priority = 1;
  VkDeviceQueueCreateInfo queue{VK_STRUCTURE_TYPE_DEVICE_QUEUE_CREATE_INFO};
  queue.queueFamilyIndex = family;
  queue.queueCount = 1;
  queue.pQueuePriorities = &priority;
  const char* const extensions[] = {VK_KHR_SWAPCHAIN_EXTENSION_NAME};
  gpu.open({&queue, 1}, nullptr, extensions);
  return family;
}

}  // namespace

Session::Session(GLFWwindow* window, State& state, bool validates)
    : window_(window),
      state_(state),
      gpu_(VK_API_VERSION_1_1, instance_extensions(), validates, can_show),
      family_(open(gpu_)),
      opened_(Clock::now()) {
  vkGetDeviceQueue(gpu_.device, family_, 0, &queue_);
  is_layer_counted = gpu_.is_validated;
  if (validates)
    std::printf("%s\n", gpu_.is_validated ? "validation: on" : "the validation layer is not installed");
  std::printf(
      "compiling: the kernels of the first tab with their passes of weights, the shader of heat maps, Dear "
      "ImGui's\n");
  screen_.emplace(gpu_, family_, queue_, window);
  timer_.emplace(gpu_, family_);
  maps_ = state.maps->live({gpu_, family_, queue_, *screen_});
  overlay_.emplace(gpu_, family_, queue_, *screen_);
}

void Session::run() {
  const std::size_t before = state_.frames;
  while (!has_ended_ && glfwWindowShouldClose(window_) == 0) {
    glfwPollEvents();
    frame();
    if (state_.frames > before && !std::exchange(has_shown_frame_, true)) say_first("the first frame");
    if (maps_->has_weights() && !std::exchange(has_shown_weights_, true)) say_first("the first weights");
    // A screen would wait for its refresh; some servers do not.
    if (state_.script && !state_.script->is_paced()) continue;
    next_ = std::max(next_ + std::chrono::microseconds(16'667), Clock::now() - std::chrono::milliseconds(17));
    std::this_thread::sleep_until(next_);
  }
  screen_->wait();
  state_.swapchains = screen_->swapchains();
}

void Session::say_first(const char* what) const {
  const auto seconds = [](Clock::time_point from) {
    return std::chrono::duration<double>(Clock::now() - from).count();
  };
  std::printf("%s: %.2f s after the program's start, %.2f s after its device was made\n", what,
              seconds(state_.begin), seconds(opened_));
  std::fflush(stdout);
}

void Session::frame() {
  const std::optional<Frame> frame = screen_->begin();
  if (!frame) {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
    return;
  }
  take_times(*frame);
  // These may find the device lost, and Dear ImGui cannot leave a frame that has begun.
  maps_->update(*frame);
  if (wants_crowd_ && !crowd_) make_crowd();
  Overlay::begin();
  Script::Play play;
  if (state_.script) {
    auto played =
        state_.script->play(window_, is_crowd_ ? state_.crowd.is_between_executions() : maps_->is_ready());
    play = example::checked(std::move(played));
  }
  forget_marks();
  ImGui::NewFrame();
  is_crowd_ = draw(*frame, play.words);
  ImGui::Render();
  is_check_due_ = is_check_due_ || play.checks;
  record(*frame, is_crowd_);
  screen_->begin_pass(*frame);
  Overlay::record(frame->commands);
  screen_->end(*frame, play.picture);
  ++state_.frames;
  // The crowd's weights belong to its queries only where an execution has ended.
  if (is_check_due_ && (!is_crowd_ || state_.crowd.is_between_executions())) {
    check_weights();
    is_check_due_ = false;
  }
  has_ended_ = play.quits && !is_check_due_;
}

void Session::take_times(const Frame& frame) {
  const Clock::time_point now = Clock::now();
  state_.intervals.add(std::chrono::duration<double, std::milli>(now - last_).count());
  last_ = now;
  const std::optional<double> ns = timer_->take(frame);
  if (!ns) return;
  if (was_crowd_[frame.slot]) {
    state_.crowd.measured(frame, *crowd_, *ns);
  } else {
    maps_->measured(frame, *ns);
  }
}

bool Session::draw(const Frame& frame, const std::string& words) {
  const ImGuiViewport& viewport = *ImGui::GetMainViewport();
  ImGui::SetNextWindowPos(viewport.Pos);
  ImGui::SetNextWindowSize(viewport.Size);
  constexpr ImGuiWindowFlags kFlags = ImGuiWindowFlags_NoDecoration | ImGuiWindowFlags_NoMove |
                                      ImGuiWindowFlags_NoSavedSettings |
                                      ImGuiWindowFlags_NoBringToFrontOnFocus;
  ImGui::Begin("vkattn", nullptr, kFlags);
  if (!words.empty()) ImGui::LogToFile(-1, words.c_str());  // up to the window's end
  if (!state_.message.empty()) ImGui::TextColored({0.84F, 0.37F, 0, 1}, "%s", state_.message.c_str());
  bool is_crowd = false;
  if (ImGui::BeginTabBar("tabs")) {
    const bool is_first = ImGui::BeginTabItem(state_.maps->title());
    mark("text_tab");
    if (is_first) {
      maps_->draw(frame);
      ImGui::EndTabItem();
    }
    is_crowd = draw_crowd();
    ImGui::EndTabBar();
  }
  ImGui::End();
  return is_crowd;
}

bool Session::draw_crowd() {
  const bool is_open = ImGui::BeginTabItem("A crowd steered by attention");
  mark("crowd_tab");
  if (!is_open) return false;
  wants_crowd_ = true;
  if (crowd_) {
    state_.crowd.draw(*crowd_, state_.intervals);
  } else {
    soft_text("compiling the crowd's attention and its shaders ...");
  }
  ImGui::EndTabItem();
  return crowd_.has_value();
}

// When its tab was opened first, so that the first frame need not wait for it.
void Session::make_crowd() {
  const Clock::time_point begin = Clock::now();
  crowd_.emplace(gpu_, screen_->render_pass());
  std::printf("compiled the crowd's attention and its shaders in %.2f s; %zu dispatches\n",
              std::chrono::duration<double>(Clock::now() - begin).count(), crowd_->dispatches());
}

void Session::record(const Frame& frame, bool is_crowd) {
  was_crowd_[frame.slot] = is_crowd;
  if (is_crowd) {
    const float seconds = std::min(state_.intervals.values.back() / 1e3F, 0.05F);
    state_.crowd.record(frame, *crowd_, seconds, *timer_);
  } else {
    maps_->record(frame, *timer_);
  }
  // The host reads what attention and shaders have written.
  if (is_check_due_)
    example::barrier(frame.commands, VK_PIPELINE_STAGE_ALL_COMMANDS_BIT, VK_ACCESS_MEMORY_WRITE_BIT,
                     VK_PIPELINE_STAGE_HOST_BIT, VK_ACCESS_HOST_READ_BIT);
}

void Session::check_weights() {
  screen_->wait();
  const double difference = is_crowd_ ? crowd_->difference() : maps_->difference();
  const Times& times = is_crowd_ ? state_.crowd.times() : maps_->times();
  std::printf("%s: largest difference from what weights should be %.1e; %zu times on the device: %s\n",
              is_crowd_ ? "crowd" : "text", difference, times.values.size(), times.words().c_str());
  if (!(difference < 2e-5)) state_.has_wrong_weights = true;
}

}  // namespace window
