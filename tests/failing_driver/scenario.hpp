// Scenarios for the failing driver: calls of the library, with everything that they need already made.
#pragma once

#include <vulkan/vulkan_core.h>

#include <vkattn/runtime.hpp>

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <ostream>
#include <set>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "c/tensors.hpp"
#include "failing_driver/host_memory.hpp"
#include "support/host_vulkan.hpp"
#include "support/small_problems.hpp"

namespace vkattn::tests {

struct Step {
  const char* name;
  std::function<Result<void>()> run;  ///< can be called again
};

/// must() throws this. The step that it leaves has this outcome.
struct Failed {
  Error error;
};

/// The value. If there is none, the step ends with the error.
template <class T>
T must(Result<T> result) {
  if (!result) throw Failed{result.error()};
  if constexpr (!std::is_void_v<T>) return *std::move(result);
}

/// The steps of one scenario. Its destructor destroys everything that it has made.
class Scenario {
 public:
  Scenario() = default;
  Scenario(const Scenario&) = delete;
  Scenario& operator=(const Scenario&) = delete;
  virtual ~Scenario() = default;

  [[nodiscard]] const std::vector<Step>& steps() const { return steps_; }
  /// Runs all steps, up to the first that fails.
  [[nodiscard]] Result<void> run() const {
    for (const Step& step : steps_) {
      if (Result<void> s = step.run(); !s) return s;
    }
    return {};
  }

 protected:
  /// Adds a step. `run` returns a Result, or nothing if must() checks everything.
  template <class Run>
  void step(const char* name, Run run) {
    steps_.push_back({name, [run]() -> Result<void> {
                        try {
                          if constexpr (std::is_void_v<decltype(run())>) {
                            run();
                          } else if (const auto result = run(); !result) {
                            return result.error();
                          }
                          return {};
                        } catch (const Failed& failed) {
                          return failed.error;
                        }
                      }});
  }

 private:
  std::vector<Step> steps_;
};

struct ScenarioRow {
  std::string name;
  std::function<std::unique_ptr<Scenario>()> make;
  /// Functions whose errors the library may get over by another way or by doing without.
  std::set<std::string> got_over;
  /// One in `stride` of its allocations fails. The float64 reference takes long and makes hundreds of equal
  /// allocations.
  std::uint64_t stride = 1;
};

/// GoogleTest prints this in messages.
inline void PrintTo(const ScenarioRow& row, std::ostream* out) {
  *out << row.name;
}

template <class Kind, class... Arguments>
[[nodiscard]] ScenarioRow row(std::string name, std::set<std::string> got_over, Arguments... arguments) {
  return {std::move(name), [=] { return std::make_unique<Kind>(arguments...); }, std::move(got_over)};
}

/// The scenarios of a borrowed device, of the runtime, of first uses of kernels, of files, of score functions
/// and of the C interface.
/// @{
[[nodiscard]] std::vector<ScenarioRow> core_scenarios();
[[nodiscard]] std::vector<ScenarioRow> runtime_scenarios();
[[nodiscard]] std::vector<ScenarioRow> first_use_scenarios();
[[nodiscard]] std::vector<ScenarioRow> files_scenarios();
[[nodiscard]] std::vector<ScenarioRow> score_scenarios();
[[nodiscard]] std::vector<ScenarioRow> c_interface_scenarios();
/// @}

/// A buffer of the program's own. The library never looks at its contents.
[[nodiscard]] inline BufferRange made_up_buffer(std::uintptr_t number) {
  return {reinterpret_cast<VkBuffer>(0x10000 + number), 0, VkDeviceSize{1} << 20U};
}

[[nodiscard]] inline VkCommandBuffer made_up_commands() {
  return reinterpret_cast<VkCommandBuffer>(std::uintptr_t{0x20000});
}

/// Makes the Vulkan on the host a GPU with some features. Its buffers lie in memory that the host cannot see,
/// or all in memory that it can.
inline void use_host_device(bool is_memory_visible) {
  host_settings() = {.type = is_memory_visible ? VK_PHYSICAL_DEVICE_TYPE_INTEGRATED_GPU
                                               : VK_PHYSICAL_DEVICE_TYPE_DISCRETE_GPU,
                     .features = HostFeatures::kSome,
                     .is_memory_visible = is_memory_visible,
                     .storage_buffers = 64,
                     .range = 1U << 30U};
}

/// Makes the Vulkan on the host a CPU whose driver imports memory of the host.
inline void use_host_cpu() {
  use_host_device(true);
  host_settings().type = VK_PHYSICAL_DEVICE_TYPE_CPU;
  host_settings().imports_host_memory = true;
}

/// The options of a runtime that keeps its files in a folder of its own.
[[nodiscard]] inline RuntimeOptions small_runtime(const std::filesystem::path& folder) {
  RuntimeOptions options;
  options.device = "A device";
  options.disabled_extensions = "VK_KHR_cooperative_matrix";  // independent of the environment
  options.cache_dir = folder;
  return options;
}

/// The tensors that the plan uses, in made-up buffers with different numbers.
template <class Plan>
[[nodiscard]] typename Plan::Tensors made_up_tensors(const Plan& plan) {
  const UncountedMemory ours;
  typename Plan::Tensors tensors;
  for (vkattn_tensor tensor = 0; tensor < c::kTensorNumbers; ++tensor) {
    if (c::range_bytes(plan, tensor, 0) != 0) *c::place(tensors, tensor) = made_up_buffer(tensor + 1);
  }
  return tensors;
}

}  // namespace vkattn::tests
