// Measures what a layer adds to the plans that it is made of. It times the layer on the device, and its
// projections and its attention one by one, in turns. It also compares results: the parts, run one after the
// other, give the bits of the layer.
#include <vkattn/matmul.hpp>
#include <vkattn/multi_head_attention.hpp>
#include <vkattn/runtime.hpp>

#include <benchmark/benchmark.h>

#include <algorithm>
#include <functional>
#include <memory>
#include <optional>
#include <random>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "overhead/overhead.hpp"

namespace vkattn {
namespace {

Buffer numbers(std::int64_t count, float most, unsigned seed) {
  Buffer buffer = must(runtime->create_buffer(static_cast<VkDeviceSize>(count) * sizeof(float)));
  std::mt19937 random(seed);
  std::uniform_real_distribution<float> uniform(-most, most);
  std::vector<float> values(static_cast<std::size_t>(count));
  for (float& value : values) value = uniform(random);
  must(runtime->write(buffer, 0, std::as_bytes(std::span(values))));
  return buffer;
}

std::vector<std::byte> bytes_of(const Buffer& buffer) {
  std::vector<std::byte> bytes(buffer.size());
  must(runtime->read(buffer, 0, bytes));
  return bytes;
}

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

/// One sequence of self-attention, its parameters, and memory for the values between its parts.
class Layer {
 public:
  Layer(std::int64_t length, std::int64_t d_model) : length_(length), d_model_(d_model) {
    MultiHeadAttentionDesc desc;
    desc.d_model = d_model;
    desc.attention.query_length = length;
    desc.attention.query_heads = d_model / 64;
    plan_ = must(runtime->make_plan(desc));
    tensors_.query = input_.range();
    tensors_.output = output_.range();
    tensors_.parameters = {.in_proj_weight = in_weight_.range(),
                           .in_proj_bias = in_bias_.range(),
                           .out_proj_weight = out_weight_.range(),
                           .out_proj_bias = out_bias_.range()};
    workspace_ = must(runtime->create_workspace(*plan_));
    bindings_ = must(plan_->make_bindings(tensors_, workspace_.range()));
    add_parts();
  }

  double run() {
    return must(runtime->execute([&](VkCommandBuffer commands) { plan_->record(commands, *bindings_); }))[0];
  }
  /// The time of each part.
  std::vector<double> run_parts() {
    std::vector<double> times;
    for (const Part& part : parts_) times.push_back(must(runtime->execute(part.record))[0]);
    return times;
  }
  [[nodiscard]] bool parts_give_its_bits() const { return bytes_of(output_) == bytes_of(output_of_parts_); }

 private:
  struct Part {
    std::function<void(VkCommandBuffer)> record;
    Buffer workspace;
  };

  template <class Plan, class Tensors>
  void add_part(const Plan& plan, const Tensors& tensors) {
    Buffer workspace = must(runtime->create_workspace(plan));
    auto made = must(plan.make_bindings(tensors, workspace.range()));
    auto bindings = std::make_shared<decltype(made)>(std::move(made));
    parts_.push_back({[plan, bindings](VkCommandBuffer commands) { plan.record(commands, *bindings); },
                      std::move(workspace)});
  }

  // Makes the parts as the layer has them: one multiplication for Q, K and V, whose rows lie side by side.
  void add_parts() {
    const auto row_bytes = static_cast<VkDeviceSize>(d_model_) * sizeof(float);
    for (const LayerStep& step : plan_->steps()) {
      if (const auto* const attention = std::get_if<AttentionPlan>(&step.plan)) {
        AttentionTensors tensors;
        tensors.query = projections_.range();
        tensors.key = projections_.range(row_bytes);
        tensors.value = projections_.range(2 * row_bytes);
        tensors.output = heads_.range();
        add_part(*attention, tensors);
      } else if (parts_.empty()) {
        add_part(std::get<MatmulPlan>(step.plan),
                 MatmulTensors{input_.range(), in_weight_.range(), in_bias_.range(), projections_.range()});
      } else {
        add_part(std::get<MatmulPlan>(step.plan), MatmulTensors{heads_.range(), out_weight_.range(),
                                                                out_bias_.range(), output_of_parts_.range()});
      }
    }
    if (parts_.size() != 3) give_up("the layer has " + std::to_string(parts_.size()) + " steps, not 3");
  }

  std::int64_t length_, d_model_;
  Buffer input_ = numbers(length_ * d_model_, 1, 1);
  Buffer in_weight_ = numbers(3 * d_model_ * d_model_, 0.1F, 2), in_bias_ = numbers(3 * d_model_, 0.1F, 3);
  Buffer out_weight_ = numbers(d_model_ * d_model_, 0.1F, 4), out_bias_ = numbers(d_model_, 0.1F, 5);
  Buffer projections_ = numbers(3 * length_ * d_model_, 1, 6), heads_ = numbers(length_ * d_model_, 1, 7);
  Buffer output_ = numbers(length_ * d_model_, 1, 8), output_of_parts_ = numbers(length_ * d_model_, 1, 9);
  MultiHeadAttentionTensors tensors_;
  std::optional<MultiHeadAttentionPlan> plan_;
  Buffer workspace_;
  std::optional<Bindings> bindings_;
  std::vector<Part> parts_;
};

void layer(benchmark::State& state) {
  Layer layer(state.range(0), state.range(1));
  layer.run();
  layer.run_parts();
  if (!layer.parts_give_its_bits()) give_up("the parts of the layer give other bits than the layer");
  std::vector<double> whole, parts;
  for (auto _ : state) {
    whole.push_back(layer.run());
    double sum = 0;
    for (const double ns : layer.run_parts()) sum += ns;
    parts.push_back(sum);
    state.SetIterationTime(whole.back() * 1e-9);
  }
  state.counters["parts_ms"] = median(parts) * 1e-6;
  state.counters["of_parts"] = median(whole) / median(parts);
}

BENCHMARK(layer)
    ->ArgNames({"length", "d_model"})
    ->Args({256, 512})
    ->Args({1024, 512})
    ->Args({512, 1024})
    ->UseManualTime()
    ->Unit(benchmark::kMillisecond)
    ->Iterations(15);

}  // namespace
}  // namespace vkattn
