// Plans that are kept, by the descriptors they were made of.
#pragma once

#include <vkattn/plan.hpp>
#include <vkattn/plan_key.hpp>

#include <algorithm>
#include <cstddef>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace vkattn::python {

/// The plans of the last kCount different descriptors and kernels. They are kept as making one compiles
/// shaders.
class KeptPlans {
 public:
  /// The plan of the descriptor. make() makes it if none is kept.
  template <class Desc, class Make>
  const typename Desc::Plan& get(const Desc& desc, const std::string& kernel, Make&& make) {
    std::string key = plan_key(desc) + kernel;  // a plan_key() begins with its operation
    const auto found = std::ranges::find(kept_, key, &Kept::key);
    if (found != kept_.end()) {
      std::rotate(found, found + 1, kept_.end());  // the plan that was used last stays longest
    } else {
      Kept made{std::move(key), std::make_shared<const typename Desc::Plan>(make())};
      if (kept_.size() == kCount) kept_.erase(kept_.begin());
      kept_.push_back(std::move(made));
    }
    return static_cast<const typename Desc::Plan&>(*kept_.back().plan);
  }

 private:
  static constexpr std::size_t kCount = 128;
  struct Kept {
    std::string key;
    std::shared_ptr<const Plan> plan;
  };
  std::vector<Kept> kept_;
};

}  // namespace vkattn::python
