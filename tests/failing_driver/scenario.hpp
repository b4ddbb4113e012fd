// What is tried on the failing driver: calls of the library, with all that they need already made.
#pragma once

#include <vkattn/attention_plan.hpp>
#include <vkattn/backward.hpp>
#include <vkattn/cache.hpp>
#include <vkattn/matmul.hpp>
#include <vkattn/merge.hpp>
#include <vkattn/multi_head_attention.hpp>
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

#include "attention/tensor_table.hpp"
#include "support/host_vulkan.hpp"

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

/// On a borrowed device; there, of training; of the runtime; of the first use of kernels there; of files; of
/// score functions; of the C interface.
/// @{
[[nodiscard]] std::vector<ScenarioRow> core_scenarios();
[[nodiscard]] std::vector<ScenarioRow> training_scenarios();
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

/// Attention with a second pass and parameters of its own, by the descriptor of C++ or of C.
template <class Desc>
[[nodiscard]] Desc small_attention_of(Desc desc) {
  desc.query_heads = desc.kv_heads = 2;
  desc.query_length = 3;
  desc.kv_length = 200;
  desc.head_dim = 16;
  desc.softcap = 3;
  return desc;
}

[[nodiscard]] inline AttentionDesc small_attention() {
  return small_attention_of(AttentionDesc{});
}

[[nodiscard]] inline BackwardDesc small_gradients(AttentionDesc attention = small_attention()) {
  BackwardDesc desc;
  attention.has_lse = true;
  desc.attention = attention;
  return desc;
}

/// A product whose sum over its inner dimension can be split.
[[nodiscard]] inline MatmulDesc small_product() {
  MatmulDesc desc;
  desc.rows = desc.columns = 8;
  desc.inner = 200;
  desc.has_bias = true;
  return desc;
}

/// A layer without biases, which its gradients would take two more multiplications for.
[[nodiscard]] inline MultiHeadAttentionDesc small_layer() {
  MultiHeadAttentionDesc desc;
  desc.attention.query_heads = desc.attention.kv_heads = 2;
  desc.attention.query_length = 3;
  desc.d_model = 16;
  desc.has_input_bias = desc.has_output_bias = false;
  desc.saves_for_gradients = true;
  return desc;
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

[[nodiscard]] inline AppendDesc small_append() {
  AppendDesc desc;
  desc.kv_heads = 2;
  desc.new_length = 3;
  desc.head_dim = 16;
  desc.cache_length = 8;
  return desc;
}

/// The tensors that the descriptor uses, in buffers with numbers behind `number`.
template <class Tensors = AttentionTensors, class Desc>
[[nodiscard]] Tensors made_up_tensors(const Desc& desc, std::uintptr_t number = 0) {
  Tensors tensors;
  for (const auto& row : detail::tensor_table<Tensors>()) {
    if (row.is_used(desc)) tensors.*row.range = made_up_buffer(++number);
  }
  return tensors;
}

}  // namespace vkattn::tests
