// The C interface on a device: gradients, products and layers, whose bits are those of the C++ classes.
#include <cstring>
#include <span>
#include <string>
#include <utility>

#include "gpu/c_interface.hpp"

namespace vkattn::tests {
namespace {

/// One buffer for the tensors of a test.
class TensorArena {
 public:
  explicit TensorArena(const Runtime& runtime)
      : runtime_(runtime), buffer_(runtime.create_buffer(kBytes).value()), first_(kBytes / 4) {
    // Small numbers of both signs, each another one.
    for (std::size_t i = 0; i < first_.size(); ++i) {
      first_[i] = static_cast<float>((i * 2654435761U >> 8U) % 4001) / 2000 - 1;
    }
  }
  /// `elements` of float32.
  [[nodiscard]] BufferRange take(std::int64_t elements) {
    const VkDeviceSize bytes = static_cast<VkDeviceSize>(elements) * 4;
    const BufferRange range{buffer_.handle(), used_, bytes};
    used_ = (used_ + bytes + 255) / 256 * 256;
    EXPECT_LE(used_, kBytes);
    return range;
  }
  /// Integers of small size, which features may take as lengths.
  void zero(const BufferRange& range) {
    std::fill_n(first_.begin() + static_cast<std::ptrdiff_t>(range.offset / 4), range.size / 4, 0.0F);
  }
  void reset() const { EXPECT_TRUE(runtime_.write(buffer_, 0, std::as_bytes(std::span(first_))).ok()); }
  [[nodiscard]] std::vector<float> read() const {
    std::vector<float> all(first_.size());
    EXPECT_TRUE(runtime_.read(buffer_, 0, std::as_writable_bytes(std::span(all))).ok());
    return all;
  }
  /// That a range holds other bits than at first.
  [[nodiscard]] bool has_changed(const BufferRange& range, const std::vector<float>& now) const {
    return std::memcmp(now.data() + range.offset / 4, first_.data() + range.offset / 4, range.size) != 0;
  }

 private:
  static constexpr VkDeviceSize kBytes = 1U << 19U;
  const Runtime& runtime_;
  Buffer buffer_;
  std::vector<float> first_;
  VkDeviceSize used_ = 0;
};

class CInterfaceLayers : public CInterfaceTest {
 protected:
  /// Runs both on the same numbers and compares every byte.
  template <class Plan, class Tensors>
  void expect_the_same(const Plan& plan, const OwnedPlan& c_plan, const Tensors& tensors,
                       const TensorArena& arena, const std::vector<BufferRange>& written) {
    const Execution execution = execution_of(c_plan, bindings_of(tensors));
    EXPECT_EQ(execution.its.workspace_size, plan.requirements().workspace_bytes);
    arena.reset();
    const auto bindings = must(plan.make_bindings(tensors, execution.workspace.range()));
    ASSERT_TRUE(runtime().execute([&](VkCommandBuffer c) { plan.record(c, bindings); }).ok());
    const std::vector<float> expected = arena.read();
    for (const BufferRange& range : written) EXPECT_TRUE(arena.has_changed(range, expected)) << range.offset;
    for (const vkattn_binding& each : execution.tensors) {
      EXPECT_EQ(vkattn_plan_tensor_range(c_plan, each.tensor, each.offset), each.size) << each.tensor;
    }
    arena.reset();
    execute(c_plan, execution.its);
    EXPECT_EQ(std::memcmp(arena.read().data(), expected.data(), expected.size() * 4), 0);
    arena.reset();
    execute_slices(c_plan, execution.its);
    EXPECT_EQ(std::memcmp(arena.read().data(), expected.data(), expected.size() * 4), 0) << "in slices";
    EXPECT_EQ(text_of(vkattn_plan_describe, c_plan), plan.describe());
    expect_same_passes(plan, c_plan);
    if constexpr (requires { plan.attention(); }) {
      expect_same_kernel(plan.attention(), c_plan);
    } else {
      expect_same_kernel(plan, c_plan);
    }
  }
  /// One dispatch at a time.
  void execute_slices(vkattn_plan* plan, const vkattn_execution& execution) {
    const OwnedBindings bindings = bindings_of_plan(plan, execution);
    const std::size_t count = list_of<double>(vkattn_plan_get_estimates, plan).size();
    vkattn_record_options slice = initial(vkattn_record_options_init);
    slice.dispatch_count = 1;
    for (; slice.first_dispatch < count; ++slice.first_dispatch) {
      ASSERT_TRUE(done(record(plan, bindings, &slice)));
    }
  }

  /// Dispatches of every plan; pipelines and the probability type where the class, or its attention, has
  /// them.
  template <class Plan>
  void expect_same_passes(const Plan& plan, const vkattn_plan* c_plan) {
    const std::vector<DispatchInfo> expected = plan.dispatches();
    const auto told = list_of<vkattn_dispatch>(vkattn_plan_get_dispatches, c_plan);
    EXPECT_EQ(list_of<double>(vkattn_plan_get_estimates, c_plan).size(), expected.size());
    ASSERT_EQ(told.size(), expected.size());
    for (std::size_t i = 0; i < told.size(); ++i) {
      EXPECT_EQ(told[i].pass, expected[i].pass);
      EXPECT_EQ(told[i].tile_count, expected[i].tile_count);
      EXPECT_EQ(told[i].workgroups[0], expected[i].workgroups[0]);
      EXPECT_EQ(told[i].estimated_ns, expected[i].estimated_ns);
    }
  }
  template <class Plan>
  void expect_same_kernel(const Plan& plan, const vkattn_plan* c_plan) {
    vkattn_data_type type = 99;
    const vkattn_result result = vkattn_plan_get_probability_type(c_plan, &type, &error_);
    if constexpr (requires { plan.probability_type(); }) {
      EXPECT_TRUE(done(result));
      EXPECT_EQ(type, static_cast<vkattn_data_type>(plan.probability_type()));
    } else {
      EXPECT_TRUE(refused(result, "there are no probability types of "));
    }
    const vkattn_result arithmetic = vkattn_plan_get_arithmetic_type(c_plan, &type, &error_);
    if constexpr (requires { plan.arithmetic_type(); }) {
      EXPECT_EQ(arithmetic, VKATTN_SUCCESS) << error_.message;
      EXPECT_EQ(type, static_cast<vkattn_data_type>(plan.arithmetic_type()));
    } else {
      EXPECT_EQ(arithmetic, VKATTN_ERROR_INVALID_ARGUMENT);
      EXPECT_NE(std::strstr(error_.message, "there are no arithmetic types of "), nullptr) << error_.message;
    }
    if constexpr (requires { plan.pipelines(); }) {
      const std::vector<PipelineInfo> expected = plan.pipelines();
      const auto told = list_of<vkattn_pipeline>(vkattn_plan_get_pipelines, c_plan);
      ASSERT_EQ(told.size(), expected.size());
      for (std::size_t i = 0; i < told.size(); ++i) {
        EXPECT_EQ(told[i].pass, expected[i].pass);
        EXPECT_EQ(told[i].shader, expected[i].shader);
        EXPECT_EQ(told[i].workgroup_size, expected[i].workgroup_size);
      }
    }
  }

  static MultiHeadAttentionParameters take_parameters(const MultiHeadAttentionDesc& desc,
                                                      TensorArena& arena) {
    MultiHeadAttentionParameters all;
    for (const ParameterShape& shape : parameters(desc)) all.*shape.range = arena.take(shape.elements());
    return all;
  }
};

TEST_F(CInterfaceLayers, GradientsAreThoseOfCpp) {
  AttentionDesc attention = parsed("b2 hq4 hkv2 9x20 d16 causal softcap=3 lse").desc;
  vkattn_attention_desc c_attention = desc_of(attention);
  attention.has_sinks = true;
  c_attention.has_sinks = 1;
  BackwardDesc desc;
  desc.attention = attention;
  desc.has_grad_sinks = true;
  vkattn_backward_desc c_desc = initial(vkattn_backward_desc_init);
  c_desc.attention = &c_attention;
  c_desc.has_grad_sinks = 1;
  const auto plan = must(BackwardPlan::create(runtime().device(), desc));
  const OwnedPlan c_plan = plan_of(vkattn_plan_create_backward, c_desc);
  EXPECT_EQ(choice_of(c_plan).kernel, plan.kernel_name());
  EXPECT_EQ(vkattn_plan_tensor_range(c_plan, VKATTN_TENSOR_BLOCK_MASK, 0), 0U);
  EXPECT_EQ(vkattn_plan_tensor_range(c_plan, VKATTN_TENSOR_GRAD_MASK, 0), 0U);
  EXPECT_NE(self_test_of(c_plan).get(), nullptr);
  TensorArena arena(runtime());
  BackwardTensors tensors;
  const std::int64_t query = 2 * 4 * 9 * 16, key = 2 * 2 * 20 * 16;
  for (BufferRange* const range :
       {&tensors.forward.query, &tensors.forward.output, &tensors.grad_output, &tensors.grad_query}) {
    *range = arena.take(query);
  }
  for (BufferRange* const range :
       {&tensors.forward.key, &tensors.forward.value, &tensors.grad_key, &tensors.grad_value}) {
    *range = arena.take(key);
  }
  tensors.forward.lse = arena.take(2 * 4 * 9);
  tensors.forward.sinks = arena.take(4);
  tensors.grad_sinks = arena.take(4);
  expect_the_same(plan, c_plan, tensors, arena,
                  {tensors.grad_query, tensors.grad_key, tensors.grad_value, tensors.grad_sinks});
}

TEST_F(CInterfaceLayers, ProductsAreThoseOfCpp) {
  MatmulDesc desc;
  desc.batch = 2;
  desc.rows = 13;
  desc.columns = 20;
  desc.inner = 300;
  desc.has_bias = desc.accumulates = true;
  desc.b.strides = MatrixStrides{0, 1, 300};  // a weight, transposed
  const vkattn_matrix_strides strides{0, 1, 300};
  vkattn_matmul_desc c_desc = initial(vkattn_matmul_desc_init);
  c_desc.batch = 2;
  c_desc.rows = 13;
  c_desc.columns = 20;
  c_desc.inner = 300;
  c_desc.has_bias = c_desc.accumulates = 1;
  c_desc.b.strides = &strides;
  MatmulOptions options;
  options.inner_splits = 2;
  options.kernel = "tile";
  vkattn_plan_options c_options = initial(vkattn_plan_options_init);
  c_options.inner_splits = 2;
  c_options.kernel = "tile";
  const auto plan = must(MatmulPlan::create(runtime().device(), desc, options));
  // Its block sizes, asked for by name.
  vkattn_kernel_choice choice{};
  {
    const OwnedPlan by_table = plan_of(vkattn_plan_create_matmul, c_desc, &c_options);
    choice = choice_of(by_table);
    EXPECT_STREQ(choice.kernel, "tile");
    EXPECT_EQ(text_of(vkattn_plan_get_configuration, by_table), plan.configuration());
    EXPECT_EQ(vkattn_plan_needs_self_test(by_table), 0U);
    EXPECT_NE(self_test_of(by_table).get(), nullptr);
    EXPECT_EQ(choice.tile.keys, plan.tile().inner);
  }
  c_options.tile = &choice.tile;
  const OwnedPlan c_plan = plan_of(vkattn_plan_create_matmul, c_desc, &c_options);
  TensorArena arena(runtime());
  const MatmulTensors tensors{arena.take(2 * 13 * 300), arena.take(20 * 300), arena.take(20),
                              arena.take(2 * 13 * 20)};
  expect_the_same(plan, c_plan, tensors, arena, {tensors.output});
}

TEST_F(CInterfaceLayers, LayersAndTheirGradientsAreThoseOfCpp) {
  vkattn_attention_desc attention = heads();
  vkattn_multi_head_attention_desc c_desc = whole_layer_of(attention);
  const MultiHeadAttentionDesc desc = c::multi_head_attention_desc(&c_desc).value();
  const auto plan = must(MultiHeadAttentionPlan::create(runtime().device(), desc));
  const OwnedPlan c_plan = plan_of(vkattn_plan_create_multi_head_attention, c_desc);
  TensorArena arena(runtime());
  MultiHeadAttentionBackwardTensors all;
  MultiHeadAttentionTensors& tensors = all.forward;
  tensors.query = arena.take(2 * 5 * 32);
  tensors.output = arena.take(2 * 5 * 32);
  tensors.parameters = take_parameters(desc, arena);
  tensors.saved = arena.take(static_cast<std::int64_t>(plan.saved_bytes() / 4));
  tensors.averaged_weights = arena.take(2 * 5 * 5);
  tensors.attention.weights = arena.take(2 * 4 * 5 * 5);
  tensors.attention.alibi_slopes = arena.take(4);
  expect_the_same(plan, c_plan, tensors, arena,
                  {tensors.output, tensors.saved, tensors.averaged_weights, tensors.attention.weights});

  vkattn_multi_head_attention_backward_desc c_backward =
      initial(vkattn_multi_head_attention_backward_desc_init);
  c_backward.forward = &c_desc;
  c_backward.adds_to_parameters = c_backward.has_grad_alibi_slopes = 1;
  const auto gradients = must(MultiHeadAttentionBackwardPlan::create(
      runtime().device(), c::multi_head_attention_backward_desc(&c_backward).value()));
  const OwnedPlan c_gradients = plan_of(vkattn_plan_create_multi_head_attention_backward, c_backward);
  // What the forward pass wrote beside `saved` is not bound.
  tensors.output = tensors.averaged_weights = tensors.attention.weights = {};
  all.grad_output = arena.take(2 * 5 * 32);
  all.grad_query = arena.take(2 * 5 * 32);
  all.grad_parameters = take_parameters(desc, arena);
  all.grad_alibi_slopes = arena.take(4);
  expect_the_same(gradients, c_gradients, all, arena,
                  {all.grad_query, all.grad_alibi_slopes, all.grad_parameters.in_proj_weight,
                   all.grad_parameters.in_proj_bias, all.grad_parameters.out_proj_weight,
                   all.grad_parameters.out_proj_bias});
}

TEST_F(CInterfaceLayers, LayersOverACacheAreThoseOfCpp) {
  vkattn_attention_desc attention = heads();
  attention.query_length = 2;
  attention.kv_length = 7;
  attention.align = VKATTN_ALIGN_BOTTOM_RIGHT;
  vkattn_multi_head_attention_desc c_desc = layer_of(attention);
  c_desc.has_cache = 1;
  const MultiHeadAttentionDesc desc = c::multi_head_attention_desc(&c_desc).value();
  const auto plan = must(MultiHeadAttentionPlan::create(runtime().device(), desc));
  const OwnedPlan c_plan = plan_of(vkattn_plan_create_multi_head_attention, c_desc);
  TensorArena arena(runtime());
  MultiHeadAttentionTensors tensors;
  tensors.query = arena.take(2 * 2 * 32);
  tensors.output = arena.take(2 * 2 * 32);
  tensors.parameters = take_parameters(desc, arena);
  tensors.cache_key = arena.take(2 * 2 * 7 * 8);
  tensors.cache_value = arena.take(2 * 2 * 7 * 8);
  tensors.positions = arena.take(2);
  arena.zero(tensors.positions);
  tensors.attention.kv_lengths = arena.take(2);
  tensors.attention.alibi_slopes = arena.take(4);
  expect_the_same(plan, c_plan, tensors, arena,
                  {tensors.output, tensors.cache_key, tensors.cache_value, tensors.attention.kv_lengths});
}

TEST_F(CInterfaceLayers, ProductsTakePushDescriptors) {
  if (!capabilities().push_descriptors) GTEST_SKIP() << "the device has no VK_KHR_push_descriptor";
  vkattn_matmul_desc desc = initial(vkattn_matmul_desc_init);
  desc.rows = 1;
  desc.columns = 3;
  desc.inner = 4;
  desc.a_is_ones = 1;
  vkattn_plan_options options = initial(vkattn_plan_options_init);
  options.push_descriptors = 1;
  options.inner_splits = 1;
  const OwnedPlan plan = plan_of(vkattn_plan_create_matmul, desc, &options);
  TensorArena arena(runtime());
  MatmulTensors tensors;
  tensors.b = arena.take(12);
  tensors.output = arena.take(3);
  arena.reset();
  ASSERT_TRUE(done(record_push(plan, execution_of(plan, bindings_of(tensors)).its)));
  const std::vector<float> now = arena.read();
  for (std::size_t i = 0; i < 3; ++i) {
    EXPECT_NEAR(now[tensors.output.offset / 4 + i], now[i] + now[i + 3] + now[i + 6] + now[i + 9], 1e-6F);
  }
}

}  // namespace
}  // namespace vkattn::tests
