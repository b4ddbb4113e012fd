// Numbers on the device, and the contents of a command buffer: passes of the library and of an example's own
// shaders. Each waits for the passes that were recorded before it.
#pragma once

#include <vulkan/vulkan.h>

#include <vkattn/runtime.hpp>

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <tuple>
#include <utility>
#include <vector>

#include "common_device.hpp"

namespace decoder {

using example::check;
using example::checked;

// 32-bit numbers in a buffer; the host can write and read them. The Runtime outlives it.
template <class T>
class Array {
  static_assert(sizeof(T) == 4);

 public:
  Array(const vkattn::Runtime& runtime, std::int64_t count)
      : runtime_(&runtime),
        count_(static_cast<std::size_t>(count)),
        buffer_(checked(runtime.create_buffer(count_ * sizeof(T)))) {}

  void write(std::span<const T> values) const { checked(runtime_->write(buffer_, 0, std::as_bytes(values))); }
  [[nodiscard]] std::vector<T> read() const {
    std::vector<T> values(count_);
    checked(runtime_->read(buffer_, 0, std::as_writable_bytes(std::span(values))));
    return values;
  }
  // The range from element `first` on.
  [[nodiscard]] vkattn::BufferRange range(std::int64_t first = 0) const {
    return buffer_.range(static_cast<VkDeviceSize>(first) * sizeof(T));
  }

 private:
  const vkattn::Runtime* runtime_;
  std::size_t count_;
  vkattn::Buffer buffer_;
};

using Floats = Array<float>;
using Indices = Array<std::uint32_t>;

// What is recorded, whole or a slice of its dispatches.
struct Step {
  std::function<void(VkCommandBuffer, const vkattn::RecordOptions&)> record;
  std::vector<vkattn::DispatchInfo> dispatches;
};
using Steps = std::vector<Step>;

[[nodiscard]] std::vector<vkattn::DispatchInfo> dispatches_of(const Steps& steps);
// Records all steps, or a slice of the dispatches of all.
void record_all(VkCommandBuffer commands, const Steps& steps, vkattn::RecordOptions slice = {});
// Executes what record_all() records, and waits. Returns the nanoseconds that it took.
double execute(const vkattn::Runtime& runtime, const Steps& steps, const vkattn::RecordOptions& slice = {});

struct Shader {
  const char* name;
  std::span<const std::uint32_t> code;  // SPIR-V
};

// Push constants: words that hold the shader's numbers.
using Words = std::array<std::uint32_t, 8>;

inline std::uint32_t word(std::int64_t value) {
  return static_cast<std::uint32_t>(value);
}
inline std::uint32_t word(float value) {
  return std::bit_cast<std::uint32_t>(value);
}

// Pipelines of an example's shaders, and descriptor sets for their dispatches. The Runtime outlives it.
class Shaders {
 public:
  explicit Shaders(const vkattn::Runtime& runtime) : runtime_(runtime), device_(runtime.device().handle()) {}
  Shaders(const Shaders&) = delete;
  Shaders& operator=(const Shaders&) = delete;
  ~Shaders();

  // A dispatch of so many workgroups on these buffers, which have the order of the shader's bindings.
  [[nodiscard]] Step make_step(const Shader& shader, std::initializer_list<vkattn::BufferRange> buffers,
                               std::int64_t groups, const Words& push);

 private:
  struct Pipeline {
    VkDescriptorSetLayout set_layout = VK_NULL_HANDLE;
    VkPipelineLayout layout = VK_NULL_HANDLE;
    VkPipeline pipeline = VK_NULL_HANDLE;
  };
  const vkattn::Runtime& runtime_;
  VkDevice device_;
  std::map<const std::uint32_t*, Pipeline> pipelines_;  // by their shaders' code
  std::vector<VkDescriptorPool> pools_;
  std::uint32_t sets_left_ = 0;  // in the last pool
};

// Workgroups of item.glsl for so many items.
constexpr std::int64_t groups_of(std::int64_t items) {
  constexpr std::int64_t kWorkgroup = 64;
  return (items + kWorkgroup - 1) / kWorkgroup;
}

// Compiles on several threads, as most of the time is the driver's, and shows how many were begun.
void compile_all(const std::vector<std::function<vkattn::Result<void>()>>& plans);

// Plans of the library, for these descriptors: equal layers share a plan and its workspace, as steps run one
// after the other. The Runtime outlives it.
template <class... Descs>
class PlansOf {
 public:
  explicit PlansOf(const vkattn::Runtime& runtime) : runtime_(&runtime) {}

  template <class Desc>
  struct Made {
    Desc desc;
    typename Desc::Plan plan;
    vkattn::Buffer workspace;
  };
  // The plan that was made for this descriptor, or a new one.
  template <class Desc>
  [[nodiscard]] const Made<Desc>& made(const Desc& desc) {
    std::vector<Made<Desc>>& all = std::get<std::vector<Made<Desc>>>(made_);
    const auto found = std::ranges::find(all, desc, &Made<Desc>::desc);
    if (found != all.end()) return *found;
    typename Desc::Plan::Options options{};
    options.max_dispatch_ns = max_dispatch_ns;
    options.deferred_compilation = true;
    typename Desc::Plan plan = checked(runtime_->make_plan(desc, options));
    pending_.push_back([plan] { return plan.compile(); });
    workspaces_ += plan.workspace_bytes();
    if (on_workspace) on_workspace(workspaces_);
    vkattn::Buffer workspace = checked(runtime_->create_workspace(plan));
    all.push_back({desc, std::move(plan), std::move(workspace)});
    return all.back();
  }

  // `rebind` becomes what has the step work on other tensors, while it is not pending.
  template <class Desc>
  [[nodiscard]] Step step(const Desc& desc, const typename Desc::Plan::Tensors& tensors,
                          std::function<void(const typename Desc::Plan::Tensors&)>* rebind = nullptr) {
    const Made<Desc>& made_plan = made(desc);
    const vkattn::BufferRange workspace = made_plan.workspace.range();
    const auto bindings =
        std::make_shared<vkattn::Bindings>(checked(made_plan.plan.make_bindings(tensors, workspace)));
    if (rebind != nullptr)
      *rebind = [plan = made_plan.plan, bindings, workspace](const auto& others) {
        checked(plan.rewrite(*bindings, others, workspace));
      };
    return {[plan = made_plan.plan, bindings](VkCommandBuffer commands, vkattn::RecordOptions slice) {
              slice.wait_for_earlier = true;
              plan.record(commands, *bindings, slice);
            },
            made_plan.plan.dispatches()};
  }
  // Compiles the plans that were made since the last call. Before that their steps cannot be recorded.
  void compile() { compile_all(std::exchange(pending_, {})); }

  std::uint64_t max_dispatch_ns = 0;  // of plans that are made from now on; PlanOptions has it
  // Is told before each workspace is created how many bytes all of them take.
  std::function<void(std::uint64_t)> on_workspace;

 private:
  const vkattn::Runtime* runtime_;
  std::uint64_t workspaces_ = 0;  // bytes
  std::vector<std::function<vkattn::Result<void>()>> pending_;
  std::tuple<std::vector<Made<Descs>>...> made_;
};

}  // namespace decoder
