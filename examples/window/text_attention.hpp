// Attention of a text's tokens among themselves, with weights that stay on the device.
#pragma once

#include <future>
#include <string>

#include "window/heat_maps.hpp"

namespace window {

// What a user can change. A change is a new plan, which a worker makes.
struct Controls {
  std::string text;
  bool is_trained = true;  // trained heads over characters; otherwise seeded heads over words
  int heads = kMostHeads, dims = 8;
  float scale = 1;        // of scores, times 1/sqrt(dims)
  float temperature = 1;  // scores are divided by it
  int window = 0;         // keys that a query sees on each side; 0: all
  float softcap = 0;      // 0: none
  bool has_sinks = false;
  float sink = 0;  // the logit of each head's sink
  bool has_alibi = false, is_causal = true;
  bool operator==(const Controls&) const = default;
};

[[nodiscard]] vkattn::AttentionDesc describe(const Controls& controls, int tokens);

class TextAttention {
 public:
  // What is shown. Without tokens there is no plan.
  struct Shown {
    Controls controls;
    Rows rows;
    std::optional<vkattn::AttentionPlan> plan;
    double seconds = 0;      // that planning and compiling took
    std::size_t number = 0;  // of the plans that were shown so far
    std::string error;       // why there is no plan
  };

  TextAttention(const Gpu& gpu, const TrainedHeads& trained);
  TextAttention(const TextAttention&) = delete;
  TextAttention& operator=(const TextAttention&) = delete;
  ~TextAttention();

  // Has a worker plan what is wanted if it is not shown yet. When a plan is ready, waits for the frames in
  // flight and shows it. Before that the old one is shown.
  void update(const Controls& wanted, const Screen& screen);
  [[nodiscard]] bool is_ready(const Controls& wanted) const {
    return !pending_.valid() && shown_.controls == wanted;
  }
  [[nodiscard]] const Shown& shown() const { return shown_; }
  [[nodiscard]] Maps maps() const;

  [[nodiscard]] bool has_work() const { return bindings_.has_value(); }
  // Records attention with its barriers: the last frame's shaders have read the weights, and the next ones
  // read them.
  void record(VkCommandBuffer commands) const;
  // The largest difference of the weights from the formula, when the device is idle and its writes are
  // available to the host.
  [[nodiscard]] double difference() const;
  [[nodiscard]] VkBuffer weights() const { return weights_.handle(); }

 private:
  void show(Shown made);

  const Gpu& gpu_;
  const TrainedHeads& trained_;
  example::Buffer query_, key_, output_, weights_, sinks_, workspace_;
  std::optional<vkattn::Bindings> bindings_;
  Shown shown_;
  std::future<Shown> pending_;
};

}  // namespace window
