// What is tried on the failing driver: calls of the library, with all that they need already made.
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

/// What must() throws: the step that it leaves has this outcome.
struct Failed {
  Error error;
};

/// The value. Where there is none the step ends with the error.
template <class T>
T must(Result<T> result) {
  if (!result) throw Failed{result.error()};
  if constexpr (!std::is_void_v<T>) return *std::move(result);
}

/// The steps of one scenario. Destroying it destroys all that it has made.
class Scenario {
 public:
  Scenario() = default;
  Scenario(const Scenario&) = delete;
  Scenario& operator=(const Scenario&) = delete;
  virtual ~Scenario() = default;

  [[nodiscard]] const std::vector<Step>& steps() const { return steps_; }
  /// All of them, up to the first that fails.
  [[nodiscard]] Result<void> run() const {
    for (const Step& step : steps_) {
      if (Result<void> s = step.run(); !s) return s;
    }
    return {};
  }

 protected:
  /// `run` gives a Result, or nothing where must() has seen to all.
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
  /// Functions whose errors may be got over: the library does without, or takes another way.
  std::set<std::string> got_over;
  /// Of its allocations every so many fail: the float64 reference makes hundreds alike, and takes its time.
  std::uint64_t stride = 1;
};

/// For GoogleTest's messages.
inline void PrintTo(const ScenarioRow& row, std::ostream* out) {
  *out << row.name;
}

template <class Kind, class... Arguments>
[[nodiscard]] ScenarioRow row(std::string name, std::set<std::string> got_over, Arguments... arguments) {
  return {std::move(name), [=] { return std::make_unique<Kind>(arguments...); }, std::move(got_over)};
}

/// On a borrowed device; of the runtime; of the first use of kernels there; of files; of score functions; of
/// the C interface.
/// @{
[[nodiscard]] std::vector<ScenarioRow> core_scenarios();
[[nodiscard]] std::vector<ScenarioRow> runtime_scenarios();
[[nodiscard]] std::vector<ScenarioRow> first_use_scenarios();
[[nodiscard]] std::vector<ScenarioRow> files_scenarios();
[[nodiscard]] std::vector<ScenarioRow> score_scenarios();
[[nodiscard]] std::vector<ScenarioRow> c_interface_scenarios();
/// @}

/// A buffer of the program's own, which the library never looks into.
[[nodiscard]] inline BufferRange made_up_buffer(std::uintptr_t number) {
  return {reinterpret_cast<VkBuffer>(0x10000 + number), 0, VkDeviceSize{1} << 20U};
}

[[nodiscard]] inline VkCommandBuffer made_up_commands() {
  return reinterpret_cast<VkCommandBuffer>(std::uintptr_t{0x20000});
}

/// The Vulkan on the host as a GPU with some features, whose buffers lie in memory that the host does not
/// see, or all in memory that it does.
inline void use_host_device(bool is_memory_visible) {
  host_settings() = {.type = is_memory_visible ? VK_PHYSICAL_DEVICE_TYPE_INTEGRATED_GPU
                                               : VK_PHYSICAL_DEVICE_TYPE_DISCRETE_GPU,
                     .features = HostFeatures::kSome,
                     .is_memory_visible = is_memory_visible,
                     .storage_buffers = 64,
                     .range = 1U << 30U};
}

/// A runtime on it, which keeps its files in a folder of its own.
[[nodiscard]] inline RuntimeOptions small_runtime(const std::filesystem::path& folder) {
  RuntimeOptions options;
  options.device = "A device";
  options.disabled_extensions = "VK_KHR_cooperative_matrix";  // whatever the environment says
  options.cache_dir = folder;
  return options;
}

/// The tensors that a plan has a use for, in buffers of their numbers.
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
