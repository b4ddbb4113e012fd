// Measures the library's own cost on the host: recording, planning with and without compiled pipelines, and
// compiling many plans on two threads. It is a Google Benchmark program, with options such as
// --benchmark_filter and --benchmark_repetitions.
#include <vkattn/runtime.hpp>

#include <benchmark/benchmark.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <thread>
#include <vector>

#include "allocation_count.hpp"
#include "overhead/overhead.hpp"

namespace vkattn {

const Runtime* runtime = nullptr;

namespace {

AttentionDesc problem(std::int64_t kv_length = 512) {
  AttentionDesc desc;
  desc.query_heads = 8;
  desc.query_length = 64;
  desc.kv_length = kv_length;
  desc.head_dim = 64;
  return desc;
}

AttentionPlan planned(const AttentionDesc& desc, const PlanOptions& options) {
  return must(AttentionPlan::create(runtime->device(), desc, options));
}

// The number of allocations while `count` counts, over all iterations.
class Allocations {
 public:
  explicit Allocations(benchmark::State& state)
      : state_(state), before_(bench::allocations_of_this_thread().value_or(0)) {}
  ~Allocations() {
    const auto made = static_cast<double>(bench::allocations_of_this_thread().value_or(0) - before_);
    state_.counters["allocations"] = made / static_cast<double>(state_.iterations());
  }
  Allocations(const Allocations&) = delete;
  Allocations& operator=(const Allocations&) = delete;

 private:
  benchmark::State& state_;
  std::uint64_t before_;
};

// Covers validation, selection, layout and the Vulkan objects. Nothing is compiled.
void plan_without_compiling(benchmark::State& state) {
  PlanOptions options;
  options.deferred_compilation = true;
  const Allocations count(state);
  for (auto _ : state) benchmark::DoNotOptimize(planned(problem(), options));
}

// The cache holds the driver's compiled pipeline.
void plan_warm(benchmark::State& state) {
  PlanOptions options;
  options.pipeline_cache = runtime->pipeline_cache();
  planned(problem(), options);
  const Allocations count(state);
  for (auto _ : state) benchmark::DoNotOptimize(planned(problem(), options));
}

// Drivers may keep caches of their own: see the environment variables of your driver.
void plan_cold(benchmark::State& state) {
  const Allocations count(state);
  for (auto _ : state) benchmark::DoNotOptimize(planned(problem(), {}));
}

// A plan with its buffers.
struct Prepared {
  AttentionPlan plan = planned(problem(), {});
  Buffer query = buffer(), key = buffer(), value = buffer(), output = buffer();
  Buffer workspace = runtime->create_workspace(plan).value();
  AttentionTensors tensors;

  Prepared() {
    tensors.query = query.range();
    tensors.key = key.range();
    tensors.value = value.range();
    tensors.output = output.range();
  }
  [[nodiscard]] Buffer buffer() const {
    const AttentionDesc& desc = plan.desc();
    const auto bytes = static_cast<VkDeviceSize>(desc.query_heads * desc.kv_length * desc.head_dim * 4);
    return runtime->create_buffer(bytes).value();
  }
  [[nodiscard]] Bindings bind() const { return plan.make_bindings(tensors, workspace.range()).value(); }
};

// Makes bindings and gives them up. The driver makes, writes and frees a descriptor set.
void bind(benchmark::State& state) {
  const Prepared prepared;
  const Bindings keeps_the_pool = prepared.bind();
  const Allocations count(state);
  for (auto _ : state) benchmark::DoNotOptimize(prepared.bind());
}

// Writes other tensors into bindings.
void rewrite(benchmark::State& state) {
  const Prepared prepared;
  Bindings bindings = prepared.bind();
  const Allocations count(state);
  for (auto _ : state) {
    if (!prepared.plan.rewrite(bindings, prepared.tensors, prepared.workspace.range())) std::abort();
  }
}

void record(benchmark::State& state) {
  const Prepared prepared;
  const AttentionPlan& plan = prepared.plan;
  const Bindings bindings = prepared.bind();
  constexpr int kEach = 100;  // more calls for each timing, while the command buffer grows
  double seconds = 0;
  std::uint64_t allocations = 0;
  for (auto _ : state) {
    // The timer runs while the command buffer is recorded, not while it is submitted.
    (void)runtime->execute([&](VkCommandBuffer commands) {
      const std::uint64_t before = bench::allocations_of_this_thread().value_or(0);
      const auto begin = std::chrono::steady_clock::now();
      for (int i = 0; i < kEach; ++i) plan.record(commands, bindings);
      const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
      allocations += bench::allocations_of_this_thread().value_or(0) - before;
      seconds = took.count() / kEach;
    });
    state.SetIterationTime(seconds);
  }
  state.counters["allocations"] =
      static_cast<double>(allocations) / kEach / static_cast<double>(state.iterations());
}

// Compiles twenty plans with different pipelines on two threads.
void prewarm(benchmark::State& state) {
  PlanOptions options;
  options.deferred_compilation = true;
  for (auto _ : state) {
    std::vector<AttentionPlan> plans;
    for (std::int64_t i = 0; i < 20; ++i) {
      AttentionDesc desc = problem();
      desc.head_dim = 16 + 8 * i;  // gives each plan a pipeline of its own
      plans.push_back(planned(desc, options));
    }
    const auto compile = [&](std::size_t first) {
      for (std::size_t i = first; i < plans.size(); i += 2) (void)plans[i].compile();
    };
    std::thread other(compile, 1);
    compile(0);
    other.join();
  }
}

BENCHMARK(record)->UseManualTime()->Unit(benchmark::kMicrosecond)->Iterations(64);
BENCHMARK(bind)->Unit(benchmark::kMicrosecond);
BENCHMARK(rewrite)->Unit(benchmark::kMicrosecond);
BENCHMARK(plan_without_compiling)->Unit(benchmark::kMicrosecond);
BENCHMARK(plan_warm)->Unit(benchmark::kMicrosecond)->UseRealTime();
BENCHMARK(plan_cold)->Unit(benchmark::kMillisecond)->UseRealTime();
BENCHMARK(prewarm)->Unit(benchmark::kMillisecond)->UseRealTime()->Iterations(1);

}  // namespace
}  // namespace vkattn

int main(int count, char** arguments) {
  vkattn::RuntimeOptions options;
  options.pipeline_cache = false;
  const auto made = vkattn::Runtime::create(options);
  if (!made) {
    std::fprintf(stderr, "%s\n", made.error().message.c_str());
    return 77;
  }
  vkattn::runtime = &*made;
  const vkattn::Capabilities& device = made->device().capabilities();
  benchmark::AddCustomContext("device", device.device_name);
  benchmark::AddCustomContext("driver", device.driver_name + " " + device.driver_info);
  benchmark::Initialize(&count, arguments);
  if (benchmark::ReportUnrecognizedArguments(count, arguments)) return 1;
  benchmark::RunSpecifiedBenchmarks();
  benchmark::Shutdown();
}
