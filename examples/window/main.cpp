// A desktop program that shows attention live. It owns its Vulkan device: vkattn borrows it and records into
// the program's own frames, and shaders of the program draw what attention has written, where it has written
// it.
//
//   vkattn_example_window [--heads FILE | --model FOLDER] [--script FILE] [--validate]

#include <cstring>
#include <filesystem>

#include "window/checks.hpp"
#include "window/glfw.hpp"
#include "window/session.hpp"

namespace {

constexpr int kNoDisplay = 3, kLost = 4;
constexpr const char* kUsage =
    "vkattn_example_window [--heads FILE | --model FOLDER] [--script FILE] [--validate]\n\n"
    "  --heads FILE     Trained heads, such as model.safetensors of examples/train_text; default: those "
    "beside the source\n"
    "  --model FOLDER   A checkpoint that examples/generate reads: the first tab is of this model, which "
    "writes\n"
    "  --script FILE    Plays keys and clicks, for tests; examples/window/script.hpp has the commands\n"
    "  --validate       With the validation layer, if it is installed. Its allocations count as those of "
    "record()\n\n"
    "Exit codes: 1 an error, 3 no display, 4 the device was lost again and again, 77 no Vulkan device.";

struct Options {
  std::filesystem::path heads = EXAMPLE_HEADS, model, script;
  bool validates = false;
};

[[noreturn]] void refuse(const std::string& why) {
  std::fprintf(stderr, "%s\n", why.c_str());
  std::exit(EXIT_FAILURE);
}

Options options_of(int count, char** words) {
  Options options;
  for (int i = 1; i < count; ++i) {
    const std::string_view word = words[i];
    if (word == "--help" || word == "-h") {
      std::printf("Usage: %s\n", kUsage);
      std::exit(EXIT_SUCCESS);
    }
    if (word == "--validate") {
      options.validates = true;
      continue;
    }
    std::filesystem::path* const path = word == "--heads"    ? &options.heads
                                        : word == "--model"  ? &options.model
                                        : word == "--script" ? &options.script
                                                             : nullptr;
    if (path == nullptr) refuse("'" + std::string(word) + "' is no option; --help lists them");
    if (++i == count) refuse(std::string(word) + " needs a " + (word == "--model" ? "folder" : "file"));
    *path = words[i];
  }
  return options;
}

#ifdef EXAMPLE_GENERATE
std::unique_ptr<window::MapTab> model_tab(const std::filesystem::path& folder) {
  return example::checked(window::make_model_tab(folder));
}
#else
std::unique_ptr<window::MapTab> model_tab(const std::filesystem::path& /*folder*/) {
  refuse("--model needs examples/generate, which is not in this build; cmake said why");
}
#endif

// GLFW's part: the library and a window.
class Display {
 public:
  Display() {
    if (glfwInit() == GLFW_FALSE) {
      const char* why = nullptr;
      glfwGetError(&why);
      std::fprintf(stderr, "no display (%s): start this in a desktop session, or as xvfb-run -a PROGRAM\n",
                   why == nullptr ? "GLFW does not say why" : why);
      std::exit(kNoDisplay);
    }
    glfwWindowHint(GLFW_CLIENT_API, GLFW_NO_API);
    window = glfwCreateWindow(1280, 720, "vkattn: attention, live", nullptr, nullptr);
    if (window == nullptr) refuse("GLFW cannot open a window");
    glfwSetWindowSizeLimits(window, 320, 240, GLFW_DONT_CARE, GLFW_DONT_CARE);
  }
  Display(const Display&) = delete;
  Display& operator=(const Display&) = delete;
  ~Display() {
    glfwDestroyWindow(window);
    glfwTerminate();
  }
  GLFWwindow* window;
};

int run(const Options& options) {
  example::on_lost_device = [](const char* what) { throw window::DeviceLost(what); };
  std::optional<window::TrainedHeads> trained;
  window::State state;
  if (options.model.empty()) {
    trained = example::checked(window::TrainedHeads::read(options.heads));
    state.maps = window::make_text_tab(*trained);
  } else {
    state.maps = model_tab(options.model);
  }
  if (!options.script.empty()) state.script = example::checked(window::Script::read(options.script));
  const Display display;
  const window::Interface interface(display.window, !state.script);
  constexpr int kMostLosses = 3;
  constexpr std::size_t kGoodFrames = 100;  // a device that has shown so many did not fail at once
  for (int losses = 0; losses < kMostLosses;) {
    const std::size_t before = state.frames;
    try {
      window::Session(display.window, state, options.validates).run();
      std::printf("%zu frames, %zu swapchains; %s\n", state.frames, state.swapchains,
                  window::allocation_words().c_str());
      return example::exit_code(!state.has_wrong_weights &&
                                (options.validates || window::allocations_in_record == 0));
    } catch (const window::DeviceLost& lost) {
      state.message = std::string("The device was lost in ") + lost.what() + " after " +
                      std::to_string(state.frames) + " frames. Everything was made again.";
      std::fprintf(stderr, "%s\n", state.message.c_str());
      losses = state.frames - before < kGoodFrames ? losses + 1 : 1;
    }
  }
  std::fprintf(stderr,
               "the device was lost %d times, each soon after the last: look at the system's log, and at the "
               "driver\n",
               kMostLosses);
  return kLost;
}

}  // namespace

int main(int count, char** words) {
  return run(options_of(count, words));
}
