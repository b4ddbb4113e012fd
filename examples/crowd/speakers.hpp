// A crowd that speaks: many characters of a game share a prompt, and each continues it with its own line. The
// host computes projections, and the device appends and attends. The two plans of a layer are one sequence,
// which is executed in slices.
#pragma once

#include <vkattn/cache.hpp>
#include <vkattn/frame_budget.hpp>
#include <vkattn/sequence.hpp>

#include <string>

#include "common.hpp"
#include "crowd/model.hpp"

namespace crowd {

using example::Buffer;
using example::Gpu;

constexpr std::size_t kSpeakers = 24, kPrompt = 200, kCapacity = 256;

// A layer's cache, (speakers, capacity, dim), its bindings, and what a step executes.
struct LayerCache {
  Buffer key, value, lengths;
  std::optional<vkattn::Bindings> append, attention, whole;
  std::optional<vkattn::Sequence> step;  // the append, then attention
};

class Speakers {
 public:
  // `dispatch_ns`: the most that one dispatch may be estimated to take, a small part of a frame's budget.
  Speakers(const Gpu& gpu, VkQueue queue, const example::CommandPool& pool, std::uint64_t dispatch_ns);

  // False while the results of the last slice are awaited, and when the caches are full.
  [[nodiscard]] bool has_work() const { return !is_waiting_ && lines_[0].size() + kPrompt < kCapacity; }
  // Records the next slice of at most `budget_ns`. The caller submits slices in order and reports the time of
  // each. After the slice that makes is_waiting() true has been executed, it calls finish_layer().
  [[nodiscard]] vkattn::RecordOptions record(VkCommandBuffer commands, double budget_ns);
  // Records, behind the last slice of a layer that is checked, the whole execution at once, to compare with.
  void record_check(VkCommandBuffer commands) const;
  void measured(const vkattn::RecordOptions& slice, double ns) { budget_->measured(slice, ns); }
  void finish_layer();

  [[nodiscard]] bool is_waiting() const { return is_waiting_; }
  [[nodiscard]] const std::string& line(std::size_t speaker) const { return lines_[speaker]; }
  [[nodiscard]] std::size_t executions() const { return executions_; }
  [[nodiscard]] std::size_t dispatches() const { return caches_[0].step->dispatches().size(); }
  // True if in the first executions slices have the bits of the whole, and agree with the plain formula.
  [[nodiscard]] bool is_right() const { return is_right_ && executions_ > 0; }

 private:
  static constexpr std::size_t kChecked = 2 * kLayers;  // executions that are checked

  void make_caches(const Gpu& gpu);
  void warm_up(VkQueue queue, const example::CommandPool& pool) const;
  void read_prompt(const Gpu& gpu, VkQueue queue, const example::CommandPool& pool);
  void speak();
  void begin_layer();
  void check_layer();

  Model model_{2027};
  vkattn::AppendPlan append_;
  vkattn::AttentionPlan attention_;
  Buffer query_, key_, value_, output_, whole_output_, workspace_, whole_workspace_;
  std::vector<LayerCache> caches_;
  std::optional<vkattn::FrameBudget> budget_;  // of each layer: their steps have equal dispatches
  std::vector<Random> dice_;
  std::vector<std::string> lines_;
  std::vector<float> x_;  // (speakers, hidden)
  std::size_t layer_ = 0, executions_ = 0;
  bool is_waiting_ = false, is_right_ = true;
};

}  // namespace crowd
