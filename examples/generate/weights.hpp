// A checkpoint's tensors, checked against model and device, and uploaded in pieces.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "decoder/graph.hpp"
#include "generate/model.hpp"

namespace generate {

using Checkpoint = std::vector<vkattn::SafetensorsFile>;  // its files

// The weights of a checkpoint, which outlives them.
class Weights : public decoder::Weights {
 public:
  // Finds all tensors, and refuses those that do not fit. `quantised` is the type of the matrices of layers
  // and of a head of its own, if it is not the stored type.
  [[nodiscard]] static vkattn::Result<Weights> find(const Model& model, Checkpoint& checkpoint,
                                                    std::optional<vkattn::DataType> quantised);
  [[nodiscard]] std::uint64_t bytes() const { return bytes_; }
  // The tensor that takes most bytes.
  [[nodiscard]] const decoder::Need& largest() const { return largest_; }
  // Creates the buffers. Before that there are no ranges.
  void allocate(const vkattn::Runtime& runtime);
  // Uploads everything into them; on_progress is told the share that is done.
  void upload(const vkattn::Runtime& runtime, const std::function<void(double)>& on_progress);

 private:
  [[nodiscard]] std::vector<decoder::Tensor*> tensors();  // the largest first

  std::uint64_t bytes_ = 0;
  decoder::Need largest_;
  std::vector<vkattn::Buffer> buffers_;  // of tensors()
};

// For before buffers are made: what is bound must fit a binding, and what is held, with so many bytes of
// workspaces so far, must fit the device.
[[nodiscard]] vkattn::Result<void> check_room(const decoder::Room& room, const Model& model,
                                              const Weights& weights, const decoder::GraphOptions& options,
                                              std::uint64_t workspaces = 0);

}  // namespace generate
