// The files that keep a training between runs.
#pragma once

#include <vkattn/result.hpp>

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "train_text/parameters.hpp"

namespace train_text {

// The state of a training, beside the parameters and AdamW's means and squares.
struct Progress {
  Shape shape;
  std::int64_t batch = 16;
  std::uint64_t seed = 1;
  float rate = 4e-3F;         // of learning
  std::string vocabulary;     // its characters, one after the other
  std::vector<float> losses;  // the loss of each step so far
};

// Writes two files: training.safetensors, from which training continues with the same bits, and
// model.safetensors, the parameters alone by PyTorch's names for such layers.
[[nodiscard]] vkattn::Result<void> save(const std::filesystem::path& folder, const Progress& progress,
                                        const Parameters& parameters);

// load_progress() reads all but the parameters; load_parameters() reads these when there is a model to hold
// them.
[[nodiscard]] vkattn::Result<Progress> load_progress(const std::filesystem::path& folder);
[[nodiscard]] vkattn::Result<void> load_parameters(const std::filesystem::path& folder,
                                                   const Parameters& parameters);

// Writes inspect.safetensors for `vkattn inspect`: the input of each layer's attention, and a label for each
// token.
[[nodiscard]] vkattn::Result<void> save_attention_inputs(const std::filesystem::path& folder,
                                                         const std::vector<std::vector<float>>& inputs,
                                                         const std::vector<std::string>& labels);

}  // namespace train_text
