// What is kept of a training between runs.
#pragma once

#include <vkattn/result.hpp>

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "train_text/model.hpp"

namespace train_text {

// Beside the parameters and what AdamW remembers of them.
struct Progress {
  Shape shape;
  std::int64_t batch = 16;
  std::uint64_t seed = 1;
  float rate = 0;
  std::string vocabulary;     // its characters, one after the other
  std::vector<float> losses;  // of each step so far
};

// Two files: training.safetensors, from which training goes on to the same bits, and model.safetensors, the
// parameters alone by the names that PyTorch has for such layers.
[[nodiscard]] vkattn::Result<void> save(const std::filesystem::path& folder, const Progress& progress,
                                        const Parameters& parameters);

// All of it but the parameters; they are read when there is a model to hold them.
[[nodiscard]] vkattn::Result<Progress> load_progress(const std::filesystem::path& folder);
[[nodiscard]] vkattn::Result<void> load_parameters(const std::filesystem::path& folder,
                                                   const Parameters& parameters);

// inspect.safetensors for `vkattn inspect`: what went into each layer's attention, and a label for each
// token.
[[nodiscard]] vkattn::Result<void> save_attention_inputs(const std::filesystem::path& folder,
                                                         const std::vector<std::vector<float>>& inputs,
                                                         const std::vector<std::string>& labels);

}  // namespace train_text
