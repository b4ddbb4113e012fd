// Plans by what they were made of.
#pragma once

#include <algorithm>
#include <cstddef>
#include <string>
#include <utility>
#include <vector>

namespace vkattn::python {

/// The plans of the last kCount different descriptors and kernels, as making one compiles shaders.
template <class Desc, class Plan>
class KeptPlans {
 public:
  /// The plan of the descriptor, which is resolved; make() gives one where none is kept.
  template <class Make>
  const Plan& get(const Desc& desc, const std::string& kernel, Make&& make) {
    const auto found = std::find_if(kept_.begin(), kept_.end(), [&](const Kept& kept) {
      return kept.desc == desc && kept.kernel == kernel;
    });
    if (found != kept_.end()) {
      std::rotate(found, found + 1, kept_.end());  // the last one used stays longest
    } else {
      Kept made{desc, kernel, make()};
      if (kept_.size() == kCount) kept_.erase(kept_.begin());
      kept_.push_back(std::move(made));
    }
    return kept_.back().plan;
  }

 private:
  static constexpr std::size_t kCount = 32;
  struct Kept {
    Desc desc;
    std::string kernel;
    Plan plan;
  };
  std::vector<Kept> kept_;
};

}  // namespace vkattn::python
