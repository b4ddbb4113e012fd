// The picture of a training, drawn by cairo if the build has it.
#pragma once

#include <string>
#include <vector>

namespace train_text {

struct Curve {
  std::vector<float> losses;  // the loss of each step
  double vocabulary = 0;      // the number of tokens, which are equally likely at first
  double kept_back = 0;       // the final loss on the validation text; 0: no such text
  std::string caption;
};

// The mean of the losses of a few steps up to this one.
[[nodiscard]] double smoothed(const std::vector<float>& losses, std::size_t step);

[[nodiscard]] bool has_pictures();
// Returns false if the picture could not be written.
bool draw(const Curve& curve, const std::string& path);

}  // namespace train_text
