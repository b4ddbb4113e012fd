// Plans of any kind: see runnable.hpp.
#include "harness/runnable.hpp"

#include <type_traits>
#include <utility>

#include "common/message.hpp"
#include "problem/gradients.hpp"

namespace vkattn::harness {

namespace {

template <class Plan>
struct TensorsOf {
  using Type = AttentionTensors;
};
template <>
struct TensorsOf<BackwardPlan> {
  using Type = BackwardTensors;
};

template <>
struct TensorsOf<MatmulPlan> {
  using Type = MatmulTensors;
};

template <class Plan>
Result<Runnable> runnable(Result<Plan> plan) {
  if (!plan.ok()) return plan.error();
  return Runnable(*std::move(plan));
}

}  // namespace

Result<Runnable> Runnable::create(const Runtime& runtime, const AttentionDesc& desc,
                                  const PlanOptions& options) {
  if (options.kernel != kUnfused) return runnable(runtime.make_plan(desc, options));
  if (options.arithmetic_type != DataType::kFloat32) {
    return Error{ErrorCode::kInvalidArgument,
                 {},
                 detail::message("PlanOptions::arithmetic_type is ", name(options.arithmetic_type),
                                 ", but the baseline has float32 arithmetic alone")};
  }
  PlanOptions with_cache = options;
  with_cache.pipeline_cache = runtime.pipeline_cache();
  return runnable(UnfusedPlan::create(runtime.device(), desc, with_cache));
}

Result<Runnable> Runnable::create(const Runtime& runtime, const bench::Problem& problem,
                                  const PlanOptions& options) {
  switch (problem.operation) {
    case bench::Operation::kBackward:
      return runnable(runtime.make_plan(bench::with_all_gradients(problem.desc), options));
    case bench::Operation::kMatmul:
      if (!problem.desc.score_function) return runnable(runtime.make_plan(problem.matmul, options));
      return Error{
          ErrorCode::kInvalidArgument, {}, "a matrix multiplication has no scores for a function to change"};
    case bench::Operation::kForward:
      break;
  }
  return create(runtime, problem.desc, options);
}

std::string_view Runnable::kernel_name() const {
  return std::visit(
      [](const auto& plan) -> std::string_view {
        if constexpr (requires { plan.kernel_name(); }) return plan.kernel_name();
        return kUnfused;
      },
      plan_);
}

DataType Runnable::arithmetic_type() const {
  return std::visit(
      [](const auto& plan) {
        if constexpr (requires { plan.arithmetic_type(); }) return plan.arithmetic_type();
        return DataType::kFloat32;
      },
      plan_);
}

DataType Runnable::probability_type() const {
  return std::visit(
      [](const auto& plan) {
        if constexpr (requires { plan.probability_type(); }) return plan.probability_type();
        return DataType::kFloat32;
      },
      plan_);
}

std::string Runnable::describe() const {
  return std::visit(
      [](const auto& plan) -> std::string {
        if constexpr (requires { plan.describe(); }) return plan.describe();
        return {};
      },
      plan_);
}

std::vector<PipelineInfo> Runnable::pipelines() const {
  return std::visit(
      [](const auto& plan) -> std::vector<PipelineInfo> {
        if constexpr (requires { plan.pipelines(); }) return plan.pipelines();
        return {};
      },
      plan_);
}

Result<std::vector<PipelineStatistics>> Runnable::statistics(bool listings) const {
  return std::visit(
      [&](const auto& plan) -> Result<std::vector<PipelineStatistics>> {
        if constexpr (requires { plan.statistics(listings); }) return plan.statistics(listings);
        return std::vector<PipelineStatistics>();
      },
      plan_);
}

Result<Buffer> Runnable::create_workspace(const Runtime& runtime) const {
  const VkDeviceSize bytes = std::visit(
      [](const auto& plan) -> VkDeviceSize {
        if constexpr (requires { plan.workspace_bytes(); }) {
          return plan.workspace_bytes();
        } else {
          return plan.requirements().workspace_bytes;
        }
      },
      plan_);
  return bytes == 0 ? Result<Buffer>(Buffer()) : runtime.create_buffer(bytes);
}

Result<Bindings> Runnable::make_bindings(const AnyTensors& tensors, const BufferRange& workspace) const {
  return std::visit(
      [&](const auto& plan) -> Result<Bindings> {
        using Own = typename TensorsOf<std::decay_t<decltype(plan)>>::Type;
        const auto* const own = std::get_if<Own>(&tensors);
        if (own == nullptr) {
          return Error{ErrorCode::kInvalidArgument, {}, "the tensors are those of another operation"};
        }
        return plan.make_bindings(*own, workspace);
      },
      plan_);
}

void Runnable::record(VkCommandBuffer commands, const Bindings& bindings) const noexcept {
  std::visit([&](const auto& plan) { plan.record(commands, bindings); }, plan_);
}

Result<double> Runnable::execute(const Runtime& runtime, const AnyTensors& tensors) const {
  const Result<Buffer> workspace = create_workspace(runtime);
  if (!workspace.ok()) return workspace.error();
  const std::vector<std::byte> poison(static_cast<std::size_t>(workspace->size()), std::byte{0xff});
  if (Result<void> s = runtime.write(*workspace, 0, poison); !s.ok()) return s.error();
  const Result<Bindings> bindings = make_bindings(tensors, workspace->range());
  if (!bindings.ok()) return bindings.error();
  const auto times = runtime.execute([&](VkCommandBuffer commands) { record(commands, *bindings); });
  if (!times.ok()) return times.error();
  return times->front();
}

}  // namespace vkattn::harness
