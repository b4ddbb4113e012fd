// A language model of examples/generate on this program's device: it writes a token over several frames'
// slices, and keeps the attention weights of all layers.
#pragma once

#include <vkattn/frame_budget.hpp>

#include <map>

#include "generate/tokenizer.hpp"
#include "generate/weights.hpp"
#include "window/heat_maps.hpp"
#include "window/timer.hpp"

namespace window {

// What a checkpoint's folder has.
struct LanguageModel {
  // Refuses what examples/generate refuses: an architecture, a tokenizer or a tensor that is not known.
  [[nodiscard]] static vkattn::Result<LanguageModel> open(const std::filesystem::path& folder);
  [[nodiscard]] std::int64_t context() const { return std::min<std::int64_t>(model.context, kMostTokens); }

  generate::Model model;
  generate::Tokenizer tokenizer;
  generate::Checkpoint checkpoint;
};

class Writer {
 public:
  // Compiles, and uploads the weights.
  Writer(const Place& place, LanguageModel& from);

  // Begins a text, or the same text again: nothing of it was read.
  void restart();
  // If the frame that had this slot ended a pass over all tokens: the token that was chosen after them; ~0U
  // if the model's numbers overflow.
  [[nodiscard]] std::optional<std::uint32_t> take(const Frame& frame, std::size_t tokens);
  // Records a slice of at most `budget_ns` of the next pass over the tokens that were not read. Records
  // nothing if all were read, or if a pass has ended and its frame is not over.
  void record(const Frame& frame, const std::vector<std::uint32_t>& tokens, const decoder::Sampling& sampling,
              double budget_ns, Timer& timer);
  // Tells what the slice of the frame that had this slot before took.
  void measured(const Frame& frame, double ns);

  [[nodiscard]] std::size_t read() const { return read_; }
  [[nodiscard]] VkBuffer weights() const { return graph_->shown_range().buffer; }
  // Where a layer's weights are of the tokens that were read; without labels.
  [[nodiscard]] Maps maps(std::int64_t layer) const;
  // The largest difference of all layers' weights from those that one pass over all tokens has, when the
  // device is idle.
  [[nodiscard]] double difference(const std::vector<std::uint32_t>& tokens) const;

 private:
  using Pass = decoder::Graph::Pass;
  // The steps of a pass and of the choice behind it, dealt out to frames.
  struct Steps {
    decoder::Steps steps;
    vkattn::FrameBudget budget;
  };
  void begin_pass(VkCommandBuffer commands, const std::vector<std::uint32_t>& tokens,
                  const decoder::Sampling& sampling);

  const Screen& screen_;
  LanguageModel& from_;
  vkattn::Runtime runtime_;
  generate::Weights weights_;
  std::optional<decoder::Graph> graph_;
  std::map<Pass, Steps> passes_;
  std::array<example::Buffer, kFramesInFlight> chosen_;
  struct Recorded {
    vkattn::RecordOptions slice;
    Pass pass = Pass::kStep;
    bool ends = false;  // the pass
  };
  std::array<std::optional<Recorded>, kFramesInFlight> recorded_;
  std::size_t read_ = 0, rows_ = 0;  // tokens that were read, and those of the pass that is under way
  Pass pass_ = Pass::kStep;
  bool is_recording_ = false, is_waiting_ = false;  // a pass was begun; it was recorded to its end
};

}  // namespace window
