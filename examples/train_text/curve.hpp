// The picture of a training, by cairo where the build has it.
#pragma once

#include <string>
#include <vector>

namespace train_text {

struct Curve {
  std::vector<float> losses;  // of each step
  double vocabulary = 0;      // tokens, all as likely at first
  double kept_back = 0;       // the loss at the end on text that was not learned from; 0: there is none
  std::string caption;
};

// The mean of the losses up to a step over a few of them.
[[nodiscard]] double smoothed(const std::vector<float>& losses, std::size_t step);

[[nodiscard]] bool has_pictures();
// False where it could not be written.
bool draw(const Curve& curve, const std::string& path);

}  // namespace train_text
