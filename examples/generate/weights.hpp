// A checkpoint's tensors, checked against model and device, and uploaded in pieces.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "decoder/graph.hpp"
#include "generate/model.hpp"

namespace generate {

// The files of a checkpoint: model.safetensors, or the shards that model.safetensors.index.json names.
struct Checkpoint {
  [[nodiscard]] static vkattn::Result<Checkpoint> open(const std::filesystem::path& folder);

  std::vector<vkattn::SafetensorsFile> files;
  std::map<std::string, std::size_t> files_of;  // by a tensor's name
};

// The weights of a checkpoint, which outlives them.
class Weights : public decoder::Weights {
 public:
  // Finds all tensors, and refuses those that do not fit. `quantised` is the type of the matrices of layers
  // and of a head of its own, if it is not the stored type.
  [[nodiscard]] static vkattn::Result<Weights> find(const Model& model, Checkpoint& checkpoint,
                                                    std::optional<vkattn::DataType> quantised);
  [[nodiscard]] std::uint64_t bytes() const { return bytes_; }
  // The tensor that takes most: the name of its first part, and its bytes.
  [[nodiscard]] const std::pair<std::string, std::uint64_t>& largest() const { return largest_; }
  // Creates the buffers. Before that there are no ranges.
  void allocate(const vkattn::Runtime& runtime);
  // Uploads everything into them; on_progress is told the share that is done.
  void upload(const vkattn::Runtime& runtime, const std::function<void(double)>& on_progress);

 private:
  [[nodiscard]] std::vector<decoder::Tensor*> tensors();  // the largest first

  std::uint64_t bytes_ = 0;
  std::pair<std::string, std::uint64_t> largest_;
  std::vector<vkattn::Buffer> buffers_;  // of tensors()
};

// What a device has.
struct Room {
  std::string device;                   // its name
  std::uint64_t range = 0, memory = 0;  // bytes: maxStorageBufferRange, and its own memory
  std::string advice;                   // the end of a refusal: what needs less
};

// The largest heap of the device's own memory. It bounds nothing if the device tells of none.
[[nodiscard]] std::uint64_t memory_of(VkPhysicalDevice device);

[[nodiscard]] Room room_of(const vkattn::Runtime& runtime, std::string advice);

// For before buffers are made: what is bound must fit a binding, and what is held, with so many bytes of
// workspaces so far, must fit the device.
[[nodiscard]] vkattn::Result<void> check_room(const Room& room, const Model& model, const Weights& weights,
                                              const decoder::GraphOptions& options,
                                              std::uint64_t workspaces = 0);

[[nodiscard]] std::string megabytes(std::uint64_t bytes);

}  // namespace generate
