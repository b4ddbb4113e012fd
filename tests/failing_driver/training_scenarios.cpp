// Of training on a borrowed device: gradients, matrix multiplication, a layer of multi-head attention.
#include <vkattn/backward.hpp>
#include <vkattn/matmul.hpp>
#include <vkattn/multi_head_attention.hpp>

#include <utility>

#include "backward/gradient_table.hpp"
#include "failing_driver/on_device.hpp"

namespace vkattn::tests {

namespace {

/// Binds, records and binds again, as every kind of plan can.
template <class Plan, class Tensors>
Result<void> use_plan(const Plan& plan, const Tensors& tensors) {
  const BufferRange workspace = made_up_buffer(100);
  auto bindings = plan.make_bindings(tensors, workspace);
  if (!bindings) return bindings.error();
  plan.record(made_up_commands(), *bindings);
  if (Result<void> s = plan.rewrite(*bindings, tensors, workspace); !s) return s;
  return outcome(plan.make_bindings(tensors, workspace, OwnPool().get()));
}

/// Leaves compilation for later, where one that failed can be tried again.
template <class Plan, class Desc, class Options>
Result<void> compile_later(const Device& device, const Desc& desc, Options options) {
  options.deferred_compilation = true;
  const auto plan = Plan::create(device, desc, options);
  if (!plan) return plan.error();
  if (Result<void> s = plan->compile(); !s) {
    return plan->is_compiled() ? Error{ErrorCode::kIo, 0, "compiled in spite of an error"} : s.error();
  }
  return {};
}

/// Of a plan whose options ask for statistics and push descriptors.
template <class Plan, class Desc, class Options, class Tensors>
Result<void> look_and_push(const Device& device, const Desc& desc, Options options, const Tensors& tensors) {
  options.capture_statistics = options.push_descriptors = true;
  const auto plan = Plan::create(device, desc, options);
  if (!plan) return plan.error();
  if (const auto statistics = plan->statistics(true); !statistics) return statistics.error();
  return plan->record(made_up_commands(), tensors, made_up_buffer(100));
}

/// Passes over rows, over keys and over heads, for two chunks of the keys.
class Differentiating : public OnDevice {
 public:
  Differentiating() {
    options_.kernel = "tile";
    options_.chunk_keys = 128;
    desc_.attention = small_attention();
    desc_.attention.has_lse = desc_.attention.has_sinks = desc_.has_grad_sinks = true;
    tensors_.forward = made_up_tensors(desc_.attention);
    std::uintptr_t number = 50;
    for (const detail::GradientRow& row : detail::gradient_table()) {
      if (row.is_used(desc_)) tensors_.*row.range = made_up_buffer(++number);
    }
    step("create and use", [this]() -> Result<void> {
      const auto plan = BackwardPlan::create(device_, desc_, options_);
      return plan ? use_plan(*plan, tensors_) : plan.error();
    });
    step("compile", [this] { return compile_later<BackwardPlan>(device_, desc_, options_); });
    step("push", [this] { return look_and_push<BackwardPlan>(device_, desc_, options_, tensors_); });
  }

 private:
  BackwardDesc desc_;
  BackwardOptions options_;
  BackwardTensors tensors_;
};

/// A product and the sum over parts of its inner dimension.
class Multiplying : public OnDevice {
 public:
  Multiplying() {
    options_.kernel = "tile";
    options_.inner_splits = 2;
    desc_.rows = desc_.columns = 8;
    desc_.inner = 200;
    desc_.has_bias = true;
    step("create and use", [this]() -> Result<void> {
      const auto plan = MatmulPlan::create(device_, desc_, options_);
      return plan ? use_plan(*plan, tensors_) : plan.error();
    });
    step("compile", [this] { return compile_later<MatmulPlan>(device_, desc_, options_); });
    step("push", [this] { return look_and_push<MatmulPlan>(device_, desc_, options_, tensors_); });
  }

 private:
  MatmulDesc desc_;
  MatmulOptions options_;
  MatmulTensors tensors_{made_up_buffer(1), made_up_buffer(2), made_up_buffer(3), made_up_buffer(4)};
};

/// A layer without biases, which its gradients would take two more multiplications for.
MultiHeadAttentionDesc small_layer() {
  MultiHeadAttentionDesc desc;
  desc.attention.query_heads = desc.attention.kv_heads = 2;
  desc.attention.query_length = 3;
  desc.d_model = 16;
  desc.has_input_bias = desc.has_output_bias = false;
  desc.saves_for_gradients = true;
  return desc;
}

MultiHeadAttentionTensors layer_tensors() {
  MultiHeadAttentionTensors tensors;
  tensors.query = made_up_buffer(1);
  tensors.output = made_up_buffer(2);
  tensors.saved = made_up_buffer(3);
  tensors.parameters.in_proj_weight = made_up_buffer(4);
  tensors.parameters.out_proj_weight = made_up_buffer(5);
  return tensors;
}

MultiHeadAttentionOptions of_tiles() {
  MultiHeadAttentionOptions options;
  options.attention.kernel = options.matmul_kernel = options.backward_kernel = "tile";
  return options;
}

class LayerForward : public OnDevice {
 public:
  LayerForward() {
    step("create and use", [this]() -> Result<void> {
      const auto plan = MultiHeadAttentionPlan::create(device_, small_layer(), of_tiles());
      return plan ? use_plan(*plan, layer_tensors()) : plan.error();
    });
    step("compile",
         [this] { return compile_later<MultiHeadAttentionPlan>(device_, small_layer(), of_tiles()); });
  }
};

class LayerBackward : public OnDevice {
 public:
  LayerBackward() {
    step("create and use", [this]() -> Result<void> {
      MultiHeadAttentionBackwardDesc desc;
      desc.forward = small_layer();
      MultiHeadAttentionBackwardTensors tensors;
      tensors.forward = layer_tensors();
      tensors.grad_output = made_up_buffer(6);
      tensors.grad_query = made_up_buffer(7);
      tensors.grad_parameters.in_proj_weight = made_up_buffer(8);
      tensors.grad_parameters.out_proj_weight = made_up_buffer(9);
      const auto plan = MultiHeadAttentionBackwardPlan::create(device_, desc, of_tiles());
      return plan ? use_plan(*plan, tensors) : plan.error();
    });
  }
};

}  // namespace

std::vector<ScenarioRow> training_scenarios() {
  const std::set<std::string> got_over{"vkSetDebugUtilsObjectNameEXT", "vkAllocateDescriptorSets"};
  return {row<Differentiating>("Backward", got_over), row<Multiplying>("Matmul", got_over),
          row<LayerForward>("LayerForward", got_over), row<LayerBackward>("LayerBackward", got_over)};
}

}  // namespace vkattn::tests
