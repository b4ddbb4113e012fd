// The picture of a training.
#pragma once

#include <vkattn/result.hpp>

#include <cstddef>
#include <string>
#include <vector>

namespace train_text {

constexpr std::size_t kMeanSteps = 20;

struct Curve {
  std::vector<float> losses;  // the loss of each step
  double vocabulary = 0;      // the number of tokens, which are equally likely at first
  double validation = 0;      // the final loss on the validation text; 0: no such text
  std::string model, device;
};

// The mean of the losses up to a step over kMeanSteps of them, or fewer at the start.
[[nodiscard]] double smoothed(const std::vector<float>& losses, std::size_t step);

[[nodiscard]] bool has_pictures();
vkattn::Result<void> draw(const Curve& curve, const std::string& path);

}  // namespace train_text
