// Plans for arrays that stay on the device.
#include <pybind11/stl.h>

#include <algorithm>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "device_arrays.hpp"
#include "module.hpp"
#include "problem.hpp"
#include "session.hpp"

namespace py = pybind11;

namespace vkattn::python {
namespace {

/// The arrays of a plan's execution, by the tensors' names in Python; null if there is none.
using PlanArrays = std::map<std::string, std::shared_ptr<DeviceArray>>;

BufferRange AttentionTensors::*tensor_of(std::string_view name) {
  using T = AttentionTensors;
  for (const auto& [own, tensor] :
       {std::pair("query", &T::query), std::pair("key", &T::key), std::pair("value", &T::value),
        std::pair("output", &T::output), std::pair("lse", &T::lse), std::pair("weights", &T::weights)}) {
    if (name == own) return tensor;
  }
  const auto found = std::ranges::find(score_tensors(), name, &ScoreTensor::name);
  if (found == score_tensors().end()) fail("a plan has no tensor that is called " + std::string(name));
  return found->range;
}

/// A compiled problem with its workspace and bindings.
class Plan {
 public:
  Plan(std::shared_ptr<Session> session, const Problem& problem, const std::string& kernel)
      : session_(std::move(session)) {
    const AttentionDesc desc = problem.dense_desc();
    session_->use([&](const Runtime& runtime) {
      plan_ = session_->plan(desc, kernel);
      workspace_ = take(runtime.create_workspace(*plan_));
    });
  }

  /// Reads and writes the arrays, and waits. It keeps the arrays of the last run, as bindings refer to them.
  void run(const PlanArrays& arrays, std::uint64_t seed) {
    for (const auto& [name, array] : arrays) {
      if (array) session_->require_own(array->session(), "an array", "the plan");
    }
    session_->use([&](const Runtime& runtime) {
      if (plan_->desc().is_empty()) return;
      if (!bindings_ || arrays != bound_ || seed != seed_) bind(arrays, seed);
      take(runtime.execute(*plan_, *bindings_));
    });
  }

  [[nodiscard]] std::string kernel() const { return std::string(plan_->kernel_name()); }
  [[nodiscard]] std::string describe() const { return plan_->describe(); }
  [[nodiscard]] std::string device_name() const { return session_->device_name(); }

 private:
  void bind(const PlanArrays& arrays, std::uint64_t seed) {
    AttentionTensors tensors;
    tensors.dropout_seed = seed;
    for (const auto& [name, array] : arrays) {
      if (array) tensors.*tensor_of(name) = array->range();
    }
    if (bindings_) {
      take(plan_->rewrite(*bindings_, tensors, workspace_.range()));
    } else {
      bindings_ = take(plan_->make_bindings(tensors, workspace_.range()));
    }
    bound_ = arrays;
    seed_ = seed;
  }

  std::shared_ptr<Session> session_;  // outlives the rest
  std::optional<AttentionPlan> plan_;
  Buffer workspace_;
  PlanArrays bound_;
  std::uint64_t seed_ = 0;
  std::optional<Bindings> bindings_;
};

}  // namespace

void register_plan(py::module_& module) {
  py::class_<Plan, std::shared_ptr<Plan>>(module, "Plan")
      .def(py::init(
          &make_of_process<Plan, const std::shared_ptr<Session>&, const Problem&, const std::string&>))
      .def("run", &Plan::run)
      .def_property_readonly("kernel", &Plan::kernel)
      .def_property_readonly("device_name", &Plan::device_name)
      .def("describe", &Plan::describe);
}

}  // namespace vkattn::python
