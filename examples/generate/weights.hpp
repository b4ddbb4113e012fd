// A checkpoint's tensors, checked against the model and uploaded in pieces.
#pragma once

#include <vkattn/matmul_desc.hpp>
#include <vkattn/safetensors.hpp>

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "decoder/steps.hpp"
#include "generate/model.hpp"

namespace generate {

// The files of a checkpoint: model.safetensors, or the shards that model.safetensors.index.json names.
class Checkpoint {
 public:
  [[nodiscard]] static vkattn::Result<Checkpoint> open(const std::filesystem::path& folder);
  // The file that has the tensor; refuses one that is missing, or that has another shape or no floats.
  [[nodiscard]] vkattn::Result<vkattn::SafetensorsFile*> find(const std::string& name,
                                                              const std::vector<std::int64_t>& shape);
  // GPT-2 is published with and without a prefix before the names.
  [[nodiscard]] bool has(const std::string& name) const { return files_of_.contains(name); }

 private:
  std::vector<vkattn::SafetensorsFile> files_;
  std::map<std::string, std::size_t> files_of_;  // by a tensor's name
};

// A matrix on the device, as the right side of a product. Its parts lie one below the other.
struct Matrix {
  std::vector<std::string> names;  // of the parts
  std::vector<std::int64_t> outputs;
  std::int64_t inputs = 0;
  bool is_input_first = false;
  vkattn::DataType stored = vkattn::DataType::kFloat32, type = vkattn::DataType::kFloat32;
  vkattn::Buffer buffer;

  [[nodiscard]] std::int64_t all_outputs() const;
  [[nodiscard]] std::uint64_t bytes() const;
};

// Gains and biases, float32, all in one buffer.
struct Vector {
  std::vector<std::string> names;
  std::vector<std::int64_t> sizes;
  float added = 0;           // to each number
  std::int64_t offset = -1;  // in the buffer, in numbers; -1: there is no such vector
};

struct LayerWeights {
  Matrix qkv, out, up, down;
  Vector attention_norm, attention_norm_bias, post_attention, mlp_norm, mlp_norm_bias, post_mlp;
  Vector qkv_bias, out_bias, up_bias, down_bias;
};

class Weights {
 public:
  // Finds all tensors, and refuses those that do not fit. `quantised` is the type of the matrices of layers
  // and of a head of its own, if it is not the stored type.
  [[nodiscard]] static vkattn::Result<Weights> find(const Model& model, Checkpoint& checkpoint,
                                                    std::optional<vkattn::DataType> quantised);
  [[nodiscard]] std::uint64_t bytes() const { return bytes_; }
  // The matrix that takes most: the name of its first part, and its bytes.
  struct Largest {
    std::string name;
    std::uint64_t bytes = 0;
  };
  [[nodiscard]] const Largest& largest() const { return largest_; }
  // Creates the buffers. Before that there are no ranges.
  void allocate(const vkattn::Runtime& runtime);
  // Uploads everything into them; on_progress is told the share that is done.
  void upload(const vkattn::Runtime& runtime, Checkpoint& checkpoint,
              const std::function<void(double)>& on_progress);

  [[nodiscard]] vkattn::BufferRange range(const Vector& vector) const {
    return vector.offset < 0 ? vectors_.range()
                             : vectors_.range(static_cast<VkDeviceSize>(vector.offset) * 4);
  }
  [[nodiscard]] const Matrix& head() const { return head_.names.empty() ? embedding : head_; }

  Matrix embedding, positions;
  Vector last_norm, last_norm_bias;
  std::vector<LayerWeights> layers;

 private:
  class Finder;
  [[nodiscard]] std::vector<Matrix*> matrices();  // the largest first

  Matrix head_;
  std::vector<Vector> all_vectors_;
  std::int64_t vector_numbers_ = 0;
  std::uint64_t bytes_ = 0;
  Largest largest_;
  vkattn::Buffer vectors_;
};

}  // namespace generate
