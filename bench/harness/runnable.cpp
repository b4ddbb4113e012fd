// Plans of any kind.
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

// Of what has no such option.
Result<void> check_arithmetic(const PlanOptions& options, std::string_view what) {
  if (options.arithmetic_type == DataType::kFloat32) return {};
  return Error{ErrorCode::kInvalidArgument,
               {},
               detail::message("PlanOptions::arithmetic_type is ", name(options.arithmetic_type), ", but ",
                               what, " has float32 arithmetic alone")};
}

Result<Runnable> create_backward(const Runtime& runtime, const AttentionDesc& desc,
                                 const PlanOptions& options, std::uint32_t chunk_keys) {
  if (options.tile || options.kv_splits != 0) {
    return Error{ErrorCode::kInvalidArgument,
                 {},
                 "the backward pass has block sizes and chunks of the keys of its own: none can be given"};
  }
  if (Result<void> s = check_arithmetic(options, "the backward pass"); !s) return s.error();
  BackwardOptions own;
  own.kernel = options.kernel;
  own.chunk_keys = chunk_keys;
  own.capture_statistics = options.capture_statistics;
  own.max_dispatch_ns = options.max_dispatch_ns;
  return runnable(runtime.make_backward_plan(bench::with_all_gradients(desc), own));
}

Result<Runnable> create_matmul(const Runtime& runtime, const bench::Problem& problem,
                               const PlanOptions& options, const std::optional<MatmulTile>& tile) {
  if (problem.desc.score_function) {
    return Error{
        ErrorCode::kInvalidArgument, {}, "a matrix multiplication has no scores for a function to change"};
  }
  if (Result<void> s = check_arithmetic(options, "a matrix multiplication"); !s) return s.error();
  MatmulOptions own;
  own.kernel = options.kernel;
  own.tile = tile;
  own.inner_splits = options.kv_splits;
  own.capture_statistics = options.capture_statistics;
  own.max_dispatch_ns = options.max_dispatch_ns;
  return runnable(runtime.make_matmul_plan(problem.matmul, own));
}

}  // namespace

Result<Runnable> Runnable::create(const Runtime& runtime, const AttentionDesc& desc,
                                  const PlanOptions& options) {
  if (options.kernel != kUnfused) return runnable(runtime.make_plan(desc, options));
  if (Result<void> s = check_arithmetic(options, "the baseline"); !s) return s.error();
  PlanOptions with_cache = options;
  with_cache.pipeline_cache = runtime.pipeline_cache();
  return runnable(UnfusedPlan::create(runtime.device(), desc, with_cache));
}

Result<Runnable> Runnable::create(const Runtime& runtime, const bench::Problem& problem,
                                  const PlanOptions& options, const OtherOptions& others) {
  switch (problem.operation) {
    case bench::Operation::kBackward:
      return create_backward(runtime, problem.desc, options, others.chunk_keys);
    case bench::Operation::kMatmul:
      return create_matmul(runtime, problem, options, others.matmul_tile);
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
  if (const auto* const plan = std::get_if<AttentionPlan>(&plan_)) return plan->record(commands, bindings);
  if (const auto* const plan = std::get_if<BackwardPlan>(&plan_)) return plan->record(commands, bindings);
  if (const auto* const plan = std::get_if<MatmulPlan>(&plan_)) return plan->record(commands, bindings);
  std::get_if<UnfusedPlan>(&plan_)->record(commands, bindings);
}

}  // namespace vkattn::harness
