// A renderer at a fixed frame time, with nothing on screen and a crowd that speaks: the attention of a small
// transformer runs in slices of a few milliseconds a frame. FrameBudget chooses the slices and learns from
// timestamps.
//
//   vkattn_example_frame_budget [budget in ms [frames [picture.png]]]
//
// Prints a table of times, draws them, and checks that slices give the same bits as whole executions.
// Rendering is a stand-in.
#include <vkattn/frame_budget.hpp>

#include <chrono>
#include <cstdlib>
#include <string>
#include <thread>

#include "common.hpp"
#include "crowd/plot.hpp"
#include "crowd/scene.hpp"
#include "crowd/speakers.hpp"

namespace {

using example::check;
using example::Gpu;

constexpr double kFrameMs = 1000.0 / 60;
constexpr std::size_t kFramesInFlight = 2;
// A dispatch is estimated to take this part of the budget, so that a slice has several even if the estimates
// are far too low.
constexpr double kFineness = 40;

struct Options {
  double budget_ms = 2;
  std::size_t frames = 600;
  std::string picture;
};

// The device's times of one frame in flight.
struct Frame {
  VkCommandBuffer commands = VK_NULL_HANDLE;
  VkQueryPool queries = VK_NULL_HANDLE;  // begin, rendered, attended
  std::optional<vkattn::RecordOptions> slice;
  bool finishes_layer = false;
};

constexpr std::uint32_t kQueries = 3;

class Renderer {
 public:
  Renderer(const Gpu& gpu, std::uint32_t family, const Options& options)
      : gpu_(gpu),
        options_(options),
        queue_(queue_of(gpu, family)),
        pool_(gpu, family),
        timeline_(gpu),
        scene_(gpu),
        speakers_(gpu, queue_, pool_, static_cast<std::uint64_t>(options.budget_ms * 1e6 / kFineness)) {
    VkPhysicalDeviceProperties properties{};
    vkGetPhysicalDeviceProperties(gpu.physical_device, &properties);
    tick_ns_ = static_cast<double>(properties.limits.timestampPeriod);
    const std::uint32_t bits = gpu.families[family].timestampValidBits;  // 0: main() has refused the queue
    mask_ = bits != 0 ? ~std::uint64_t{0} >> (64 - bits) : 0;
    times_.frame_ms = kFrameMs;
    times_.budget_ms = options.budget_ms;
    VkQueryPoolCreateInfo info{VK_STRUCTURE_TYPE_QUERY_POOL_CREATE_INFO};
    info.queryType = VK_QUERY_TYPE_TIMESTAMP;
    info.queryCount = kQueries;
    for (Frame& frame : frames_) {
      frame.commands = pool_.allocate();
      check(vkCreateQueryPool(gpu.device, &info, nullptr, &frame.queries), "vkCreateQueryPool");
    }
  }
  Renderer(const Renderer&) = delete;
  Renderer& operator=(const Renderer&) = delete;
  ~Renderer() {
    for (const Frame& frame : frames_) vkDestroyQueryPool(gpu_.device, frame.queries, nullptr);
  }

  void run() {
    // Some drivers compile code for clearing and scaling at its first use. This keeps that out of the frames.
    example::execute(queue_, pool_, [&](VkCommandBuffer commands) { scene_.record(commands, 0); });
    using Clock = std::chrono::steady_clock;
    const auto frame_time =
        std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double, std::milli>(kFrameMs));
    Clock::time_point next = Clock::now(), before = next - frame_time;
    for (std::size_t n = 0; n < options_.frames; ++n, next += frame_time) {
      std::this_thread::sleep_until(next);  // a screen would wait for its refresh
      const Clock::time_point now = Clock::now();
      times_.interval.push_back(std::chrono::duration<double, std::milli>(now - before).count());
      before = now;
      collect(n >= kFramesInFlight ? n - kFramesInFlight + 1 : 0);
      submit(n);
      if (now - next > frame_time) next = now;  // does not make up for missed frames
    }
    collect(options_.frames);
  }

  void print() const;
  [[nodiscard]] const crowd::FrameTimes& times() const { return times_; }
  [[nodiscard]] bool is_right() const { return speakers_.is_right(); }

 private:
  static VkQueue queue_of(const Gpu& gpu, std::uint32_t family) {
    VkQueue queue = VK_NULL_HANDLE;
    vkGetDeviceQueue(gpu.device, family, 0, &queue);
    return queue;
  }
  void record(Frame& frame, std::size_t n);
  void submit(std::size_t n);
  // Takes in the results of frames that are done, and waits for the first `least` frames.
  void collect(std::size_t least);

  const Gpu& gpu_;
  Options options_;
  VkQueue queue_;
  example::CommandPool pool_;
  example::Timeline timeline_;
  crowd::Scene scene_;
  crowd::Speakers speakers_;
  Frame frames_[kFramesInFlight];
  std::size_t collected_ = 0;
  double tick_ns_ = 0;
  std::uint64_t mask_ = 0;
  crowd::FrameTimes times_;
  std::vector<double> rendering_, dispatches_;
};

void Renderer::record(Frame& frame, std::size_t n) {
  example::begin(frame.commands);
  vkCmdResetQueryPool(frame.commands, frame.queries, 0, kQueries);
  const auto timestamp = [&](std::uint32_t query) {
    vkCmdWriteTimestamp(frame.commands, VK_PIPELINE_STAGE_BOTTOM_OF_PIPE_BIT, frame.queries, query);
  };
  timestamp(0);
  scene_.record(frame.commands, n);
  // Attention begins after rendering, so that the timestamps separate them.
  example::barrier(frame.commands, VK_PIPELINE_STAGE_ALL_COMMANDS_BIT, 0,
                   VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT, 0);
  timestamp(1);
  frame.slice.reset();
  frame.finishes_layer = false;
  if (speakers_.has_work()) {
    frame.slice = speakers_.record(frame.commands, options_.budget_ms * 1e6);
    frame.finishes_layer = speakers_.is_waiting();
  }
  timestamp(2);
  if (frame.finishes_layer) speakers_.record_check(frame.commands);
  check(vkEndCommandBuffer(frame.commands), "vkEndCommandBuffer");
}

void Renderer::submit(std::size_t n) {
  Frame& frame = frames_[n % kFramesInFlight];
  record(frame, n);
  const VkSemaphore semaphore = timeline_.handle();
  const std::uint64_t value = n + 1;
  VkTimelineSemaphoreSubmitInfo values{VK_STRUCTURE_TYPE_TIMELINE_SEMAPHORE_SUBMIT_INFO};
  values.signalSemaphoreValueCount = 1;
  values.pSignalSemaphoreValues = &value;
  VkSubmitInfo info{VK_STRUCTURE_TYPE_SUBMIT_INFO, &values};
  info.commandBufferCount = 1;
  info.pCommandBuffers = &frame.commands;
  info.signalSemaphoreCount = 1;
  info.pSignalSemaphores = &semaphore;
  check(vkQueueSubmit(queue_, 1, &info, VK_NULL_HANDLE), "vkQueueSubmit");
}

void Renderer::collect(std::size_t least) {
  timeline_.wait(least);
  std::uint64_t done = 0;
  check(vkGetSemaphoreCounterValue(gpu_.device, timeline_.handle(), &done), "vkGetSemaphoreCounterValue");
  for (; collected_ < done; ++collected_) {
    const Frame& frame = frames_[collected_ % kFramesInFlight];
    std::uint64_t ticks[kQueries]{};
    check(vkGetQueryPoolResults(gpu_.device, frame.queries, 0, kQueries, sizeof(ticks), ticks,
                                sizeof(ticks[0]), VK_QUERY_RESULT_64_BIT),
          "vkGetQueryPoolResults");
    const auto ns = [&](std::size_t i) {
      return static_cast<double>((ticks[i + 1] - ticks[i]) & mask_) * tick_ns_;
    };
    rendering_.push_back(ns(0) / 1e6);
    times_.attention.push_back(frame.slice ? ns(1) / 1e6 : 0);
    if (!frame.slice) continue;
    dispatches_.push_back(frame.slice->dispatch_count);
    speakers_.measured(*frame.slice, ns(1));
    if (frame.finishes_layer) speakers_.finish_layer();
  }
}

void print_row(const char* name, std::vector<double> values, const char* unit) {
  if (values.empty()) return;
  std::sort(values.begin(), values.end());
  const auto at = [&](double share) {
    return values[static_cast<std::size_t>(share * static_cast<double>(values.size() - 1))];
  };
  std::printf("%-24s %8.2f %8.2f %8.2f %8.2f  %s\n", name, at(0.5), at(0.95), at(0.99), at(1), unit);
}

void Renderer::print() const {
  std::vector<double> slices;
  for (const double ms : times_.attention) {
    if (ms > 0) slices.push_back(ms);
  }
  std::printf("\n%-24s %8s %8s %8s %8s\n", "", "median", "p95", "p99", "max");
  print_row("from frame to frame", times_.interval, "ms");
  print_row("rendering", rendering_, "ms");
  print_row("attention, with a slice", slices, "ms");
  print_row("dispatches in a slice", dispatches_, "");
  const auto above =
      std::count_if(slices.begin(), slices.end(), [&](double ms) { return ms > options_.budget_ms; });
  const double per_layer = static_cast<double>(slices.size()) /
                           static_cast<double>(std::max<std::size_t>(speakers_.executions(), 1));
  std::printf("budget %.2f ms: %zu of %zu frames had a slice, %zd of these took longer\n", options_.budget_ms,
              slices.size(), times_.interval.size(), above);
  std::printf("%zu layers, each %zu dispatches of append and attention in %.1f slices; %.1f slices a token\n",
              speakers_.executions(), speakers_.dispatches(), per_layer,
              per_layer * static_cast<double>(crowd::kLayers));
  std::printf("%zu speakers wrote %zu characters each; nonsense, as the weights are not trained: \"%s\"\n\n",
              crowd::kSpeakers, speakers_.line(0).size(), speakers_.line(0).c_str());
}

int run(const Options& options) {
  Gpu gpu(VK_API_VERSION_1_2);
  const std::optional<std::uint32_t> family = gpu.family(VK_QUEUE_GRAPHICS_BIT | VK_QUEUE_COMPUTE_BIT);
  if (!family || gpu.families[*family].timestampValidBits == 0)
    example::skip("no Vulkan device with a queue for graphics and compute that has timestamps");
  const float priority = 1;
  VkDeviceQueueCreateInfo queue{VK_STRUCTURE_TYPE_DEVICE_QUEUE_CREATE_INFO};
  queue.queueFamilyIndex = *family;
  queue.queueCount = 1;
  queue.pQueuePriorities = &priority;
  VkPhysicalDeviceVulkan12Features features{VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_2_FEATURES};
  features.timelineSemaphore = VK_TRUE;
  gpu.open({&queue, 1}, &features);
  Renderer renderer(gpu, *family, options);
  renderer.run();
  renderer.print();
  const int code = example::exit_code(renderer.is_right());
  if (options.picture.empty()) return code;
  example::checked(
      crowd::draw(renderer.times(), gpu.attention().capabilities().device_name, options.picture));
  std::printf("%s drawn\n", options.picture.c_str());
  return code;
}

}  // namespace

int main(int count, char** words) {
  constexpr const char* kUsage =
      "vkattn_example_frame_budget [BUDGET [FRAMES [PICTURE.png]]]\n\nBUDGET is in ms, above 0 (2), FRAMES "
      "is "
      "from 2 on (600).";
  if (const auto code = example::help_code(count, words, 3, kUsage)) return *code;
  Options options;
  if (count > 1) options.budget_ms = std::strtod(words[1], nullptr);
  if (count > 2) options.frames = std::strtoul(words[2], nullptr, 10);
  if (count > 3) options.picture = words[3];
  if (!(options.budget_ms > 0) || options.frames < kFramesInFlight) {
    std::fprintf(stderr, "Usage: %s\n", kUsage);
    return EXIT_FAILURE;
  }
  return run(options);
}
