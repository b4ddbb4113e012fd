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
auto use_plan(const Plan& plan, const Tensors& tensors) {
  const BufferRange workspace = made_up_buffer(100);
  auto bindings = must(plan.make_bindings(tensors, workspace));
  plan.record(made_up_commands(), bindings);
  must(plan.rewrite(bindings, tensors, workspace));
  return plan.make_bindings(tensors, workspace, OwnPool().get());
}

/// Of a plan whose options ask for statistics and push descriptors.
template <class Plan, class Desc, class Options, class Tensors>
Result<void> look_and_push(const Device& device, const Desc& desc, Options options, const Tensors& tensors) {
  options.capture_statistics = options.push_descriptors = true;
  const Plan plan = must(Plan::create(device, desc, options));
  must(plan.statistics(true));
  return plan.record(made_up_commands(), tensors, made_up_buffer(100));
}

/// The three of a kind of plan.
template <class Plan, class Desc, class Options, class Tensors>
class OfOnePlan : public OnDevice {
 protected:
  void add_steps() {
    step("create and use",
         [this] { return use_plan(must(Plan::create(device_, desc_, options_)), tensors_); });
    step("compile", [this] { compile_later<Plan>(device_, desc_, options_); });
    step("push", [this] { return look_and_push<Plan>(device_, desc_, options_, tensors_); });
  }

  Desc desc_;
  Options options_;
  Tensors tensors_;
};

/// Passes over rows, over keys and over heads, for two chunks of the keys.
class Differentiating : public OfOnePlan<BackwardPlan, BackwardDesc, PlanOptions, BackwardTensors> {
 public:
  Differentiating() {
    options_.kernel = "tile";
    options_.chunk_keys = 128;
    desc_.attention = small_attention();
    desc_.attention.has_lse = desc_.attention.has_sinks = desc_.has_grad_sinks = true;
    tensors_ = made_up_tensors<BackwardTensors>(desc_, 50);
    tensors_.forward = made_up_tensors(desc_.attention);
    add_steps();
  }
};

/// A product and the sum over parts of its inner dimension.
class Multiplying : public OfOnePlan<MatmulPlan, MatmulDesc, PlanOptions, MatmulTensors> {
 public:
  Multiplying() {
    options_.kernel = "tile";
    options_.inner_splits = 2;
    desc_ = small_product();
    tensors_ = {made_up_buffer(1), made_up_buffer(2), made_up_buffer(3), made_up_buffer(4)};
    add_steps();
  }
};

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
  options.attention.kernel = options.matmul.kernel = options.backward.kernel = "tile";
  return options;
}

class LayerForward : public OnDevice {
 public:
  LayerForward() {
    step("create and use", [this] {
      return use_plan(must(MultiHeadAttentionPlan::create(device_, small_layer(), of_tiles())),
                      layer_tensors());
    });
    step("compile", [this] { compile_later<MultiHeadAttentionPlan>(device_, small_layer(), of_tiles()); });
  }
};

class LayerBackward : public OnDevice {
 public:
  LayerBackward() {
    step("create and use", [this] {
      MultiHeadAttentionBackwardDesc desc;
      desc.forward = small_layer();
      MultiHeadAttentionBackwardTensors tensors;
      tensors.forward = layer_tensors();
      tensors.grad_output = made_up_buffer(6);
      tensors.grad_query = made_up_buffer(7);
      tensors.grad_parameters.in_proj_weight = made_up_buffer(8);
      tensors.grad_parameters.out_proj_weight = made_up_buffer(9);
      return use_plan(must(MultiHeadAttentionBackwardPlan::create(device_, desc, of_tiles())), tensors);
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
