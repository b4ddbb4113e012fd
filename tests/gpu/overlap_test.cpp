// Outputs must not overlap any other tensor, except where the headers allow in-place operation.
#include <vkattn/backward.hpp>
#include <vkattn/cache.hpp>
#include <vkattn/matmul.hpp>
#include <vkattn/merge.hpp>
#include <vkattn/multi_head_attention.hpp>

#include <vector>

#include "gpu/support.hpp"

namespace vkattn::tests {
namespace {

class OverlapTest : public GpuTest {
 protected:
  void SetUp() override {
    GpuTest::SetUp();
    if (!IsSkipped()) buffer_ = must(runtime().create_buffer(kBytes));
  }
  /// A range of the one buffer with this many bytes from `first` on.
  [[nodiscard]] BufferRange at(VkDeviceSize first, VkDeviceSize bytes = 4096) const {
    return {buffer_.handle(), first, bytes};
  }
  /// Checks that a plan takes the tensors, or refuses them with these words.
  template <class Made>
  static void expect_words(const Made& made, const std::vector<std::string>& words) {
    if (words.empty()) {
      EXPECT_TRUE(made.ok()) << message_of(made);
    } else {
      EXPECT_TRUE(is_refused(made, ErrorCode::kInvalidArgument, words));
    }
  }

  static constexpr VkDeviceSize kBytes = VkDeviceSize{1} << 18U;
  Buffer buffer_;
};

/// Q and O have 16 rows of 8 float32, 512 bytes each. K and V have 256 rows, 8192 bytes. The lse has 64
/// bytes.
TEST_F(OverlapTest, OutputsOfAttention) {
  AttentionDesc desc{.query_length = 16, .kv_length = 256, .head_dim = 8, .has_lse = true};
  const auto plan = must(make_plan(runtime(), desc, {.kernel = "tile", .kv_splits = 2}));
  const VkDeviceSize workspace_bytes = plan.workspace_bytes();
  ASSERT_GT(workspace_bytes, 0U);
  const BufferRange workspace = at(65536, workspace_bytes);
  AttentionTensors good;
  good.query = at(0);
  good.key = good.value = at(4096, 8192);  // inputs may overlap
  good.output = at(16384);
  good.lse = at(16896);
  const auto expect_bound = [&](BufferRange AttentionTensors::*tensor, VkDeviceSize first,
                                const std::vector<std::string>& words) {
    AttentionTensors tensors = good;
    tensors.*tensor = at(first);
    expect_words(plan.make_bindings(tensors, workspace), words);
  };
  expect_words(plan.make_bindings(good, workspace), {});
  expect_bound(
      &AttentionTensors::output, 0,
      {"the output tensor, bytes 0 to 511 of its buffer, overlaps the query tensor, bytes 0 to 511"});
  expect_bound(&AttentionTensors::output, 12272, {"output tensor, bytes 12272 to 12783", "key tensor"});
  expect_bound(&AttentionTensors::output, 16400, {"output tensor", "lse tensor, bytes 16896 to 16959"});
  expect_bound(&AttentionTensors::lse, 496, {"lse tensor", "query tensor"});
  expect_bound(&AttentionTensors::lse, 16960, {});
  expect_bound(&AttentionTensors::output, 65536, {"the workspace, bytes 65536 to", "output tensor"});
  expect_bound(&AttentionTensors::query, 65536, {"the workspace, bytes 65536 to", "query tensor"});
  auto bindings = must(plan.make_bindings(good, workspace));
  AttentionTensors bad = good;
  bad.output = good.query;
  EXPECT_TRUE(is_refused(plan.rewrite(bindings, bad, workspace), ErrorCode::kInvalidArgument, {"overlaps"}));
  const Buffer other = must(runtime().create_buffer(4096));
  bad.output = other.range();
  EXPECT_TRUE(plan.rewrite(bindings, bad, workspace).ok()) << "the same bytes of another buffer";
}

TEST_F(OverlapTest, TensorsThatArePushed) {
  if (!capabilities().push_descriptors) GTEST_SKIP() << "the device has no VK_KHR_push_descriptor";
  AttentionDesc desc{.query_length = 16, .kv_length = 16, .head_dim = 8};
  const auto plan = must(AttentionPlan::create(runtime().device(), desc,
                                               {.kernel = "lane", .kv_splits = 1, .push_descriptors = true}));
  AttentionTensors tensors;
  tensors.query = tensors.key = tensors.value = tensors.output = at(0);
  EXPECT_TRUE(is_refused(plan.record(VK_NULL_HANDLE, tensors), ErrorCode::kInvalidArgument,
                         {"the output tensor", "overlaps the query tensor"}));
}

/// One tensor for Q, K and V, and one for their gradients: rows of 3 * 2 * 8 elements.
TEST_F(OverlapTest, GradientsThatLieBetweenOneAnother) {
  BackwardDesc desc;
  AttentionDesc& attention = desc.attention;
  attention = {.query_heads = 2, .query_length = 16, .kv_length = 16, .head_dim = 8, .has_lse = true};
  attention.set_layout(Layout::kPackedQkv);
  desc.has_grad_lse = true;
  const auto plan = must(BackwardPlan::create(runtime().device(), desc));
  const VkDeviceSize width = 2 * 8 * 4;
  const auto bound_at = [&](VkDeviceSize query, VkDeviceSize key, VkDeviceSize value) {
    BackwardTensors tensors;
    tensors.forward.query = at(0);
    tensors.forward.key = at(width);
    tensors.forward.value = at(2 * width);
    tensors.forward.output = at(8192);
    tensors.forward.lse = at(16384);
    tensors.grad_output = at(20480);
    tensors.grad_lse = at(24576);
    tensors.grad_query = at(query);
    tensors.grad_key = at(key);
    tensors.grad_value = at(value);
    return plan.make_bindings(tensors, at(65536, plan.workspace_bytes()));
  };
  expect_words(bound_at(32768, 32768 + width, 32768 + 2 * width), {});
  expect_words(bound_at(32768, 32768 + width, 32768 + width),
               {"the grad_key tensor", "overlaps the grad_value tensor"});
  expect_words(bound_at(32768, 32768 + width - 16, 32768 + 2 * width),
               {"grad_query tensor", "grad_key tensor"});
  expect_words(bound_at(0, 32768 + width, 32768 + 2 * width), {"grad_query tensor", "query tensor"});
  expect_words(bound_at(8192, 32768 + width, 32768 + 2 * width), {"grad_query tensor", "output tensor"});
  expect_words(bound_at(24576, 32768 + width, 32768 + 2 * width), {"grad_query tensor", "grad_lse tensor"});
}

TEST_F(OverlapTest, AppendsInPlace) {
  AppendDesc desc{.query_heads = 1, .new_length = 4, .head_dim = 8};
  desc.cache_length = 16;
  desc.has_positions = desc.writes_kv_lengths = true;
  const auto plan = must(AppendPlan::create(runtime().device(), desc));
  AppendTensors good;
  good.query = at(0);
  good.key = at(128);
  good.value = at(256);
  good.query_output = at(0);
  good.cache_key = at(1024);
  good.cache_value = at(1536);
  good.positions = good.kv_lengths = at(4096);
  expect_words(plan.make_bindings(good), {});
  const auto refused = [&](BufferRange AppendTensors::*tensor, VkDeviceSize first,
                           const std::vector<std::string>& words) {
    AppendTensors tensors = good;
    tensors.*tensor = at(first);
    expect_words(plan.make_bindings(tensors), words);
  };
  refused(&AppendTensors::query_output, 16, {"query_output tensor", "query tensor", "begin where that does"});
  refused(&AppendTensors::cache_value, 1520, {"cache_key tensor", "cache_value tensor"});
  refused(&AppendTensors::key, 1024, {"cache_key tensor", "key tensor"});
  refused(&AppendTensors::kv_lengths, 1024, {"cache_key tensor", "kv_lengths tensor"});
  // With other strides the output cannot be in the query's place.
  desc.query.strides = Strides{0, 0, 16, 1};
  const auto wider = must(AppendPlan::create(runtime().device(), desc));
  good.key = at(8192);
  good.value = at(12288);
  expect_words(wider.make_bindings(good), {"query_output tensor", "query tensor"});
}

/// A cache in which each row of K is followed by its row of V.
TEST_F(OverlapTest, KeysAndValuesOfOneCache) {
  AppendDesc desc{.kv_heads = 2, .new_length = 4, .head_dim = 8};
  desc.cache_length = 16;
  desc.cache_key.strides = desc.cache_value.strides = Strides{0, 16 * 16, 16, 1};
  const auto plan = must(AppendPlan::create(runtime().device(), desc));
  AppendTensors tensors;
  tensors.key = at(32768);
  tensors.value = at(36864);
  tensors.cache_key = at(0);
  tensors.cache_value = at(32);
  expect_words(plan.make_bindings(tensors), {});
  tensors.cache_value = at(16);
  expect_words(plan.make_bindings(tensors), {"cache_key tensor", "cache_value tensor"});
}

/// Reads columns 0 to 7 of rows of 16, and writes columns 8 to 15.
TEST_F(OverlapTest, ProductsAndMerges) {
  MatmulDesc product{.rows = 8, .columns = 8, .inner = 8};
  product.a.strides = product.output.strides = MatrixStrides{0, 16, 1};
  const auto plan = must(MatmulPlan::create(runtime().device(), product));
  const auto bind = [&](VkDeviceSize output) {
    return plan.make_bindings(MatmulTensors{at(0), at(8192), {}, at(output)},
                              at(65536, plan.requirements().workspace_bytes));
  };
  expect_words(bind(32), {});
  expect_words(bind(16), {"the output tensor, bytes 16 to", "overlaps the a tensor, bytes 0 to 479"});
  expect_words(bind(8192), {"output tensor", "b tensor"});
  const auto merge = must(MergePlan::create(runtime().device(), {.rows = 4, .value_dim = 4, .parts = 2}));
  const auto merged = [&](VkDeviceSize output, VkDeviceSize lse) {
    return merge.make_bindings(MergeTensors{at(0), at(1024), at(output), at(lse)});
  };
  expect_words(merged(0, 1024), {});
  expect_words(merged(64, 1024), {"output tensor", "overlaps the parts tensor", "begin where that does"});
  expect_words(merged(0, 1040), {"lse tensor", "part_lse tensor"});
  expect_words(merged(4096, 4112), {"output tensor", "lse tensor"});
  const auto of_halves = must(MergePlan::create(
      runtime().device(), {.rows = 4, .value_dim = 4, .parts = 2, .part_type = DataType::kFloat16}));
  expect_words(of_halves.make_bindings(MergeTensors{at(0), at(1024), at(0), at(1024)}),
               {"output tensor", "overlaps the parts tensor"});
}

/// The steps of a layer never overlap. Only the layer's own tensors are compared with each other.
/// tests/unit/every_operation_test.cpp tests every pair.
class LayerOverlaps : public OverlapTest {
 protected:
  static MultiHeadAttentionDesc layer() {
    MultiHeadAttentionDesc desc;
    desc.attention.query_heads = 2;
    desc.attention.query_length = 8;
    desc.attention.alibi = Alibi::kGiven;
    desc.d_model = 16;
    desc.adds_to_output = true;
    return desc;
  }
  [[nodiscard]] MultiHeadAttentionTensors tensors() const {
    MultiHeadAttentionTensors all;
    all.query = at(0);
    all.output = at(4096);
    all.parameters = {at(8192), {}, {}, {}, at(12288), at(16384), at(20480)};
    all.attention.alibi_slopes = at(24576);
    all.saved = at(28672, 16384);
    return all;
  }
};

/// Several projections of one input add to its gradient, which is a single tensor.
TEST_F(LayerOverlaps, GradientsOfAnInputThatIsReadThreeTimes) {
  MultiHeadAttentionBackwardDesc desc{.forward = layer()};
  desc.forward.saves_for_gradients = true;
  desc.forward.packed_weights = false;
  const auto plan = must(MultiHeadAttentionBackwardPlan::create(runtime().device(), desc));
  const BufferRange workspace = at(131072, plan.requirements().workspace_bytes);
  MultiHeadAttentionBackwardTensors good;
  good.forward = tensors();
  good.forward.parameters = {{}, at(8192), at(8192), at(8192), at(12288), at(16384), at(20480)};
  good.grad_output = at(49152);
  good.grad_query = at(53248);
  good.grad_parameters = {{}, at(57344), at(61440), at(65536), at(69632), at(73728), at(77824)};
  expect_words(plan.make_bindings(good, workspace), {});
  good.grad_parameters.k_proj_weight = at(57344);
  expect_words(plan.make_bindings(good, workspace),
               {"the gradient of q_proj_weight", "overlaps the gradient of k_proj_weight"});
}

TEST_F(LayerOverlaps, LengthsMayBeThePositionsOfACache) {
  MultiHeadAttentionDesc desc = layer();
  desc.has_cache = true;
  desc.attention.kv_length = 16;
  desc.attention.align = Align::kBottomRight;
  const auto plan = must(MultiHeadAttentionPlan::create(runtime().device(), desc));
  MultiHeadAttentionTensors good = tensors();
  good.cache_key = at(32768);
  good.cache_value = at(36864);
  good.positions = good.attention.kv_lengths = at(40960);
  const BufferRange workspace = at(65536, plan.requirements().workspace_bytes);
  expect_words(plan.make_bindings(good, workspace), {});
  MultiHeadAttentionTensors bad = good;
  bad.attention.kv_lengths = bad.attention.alibi_slopes;
  expect_words(plan.make_bindings(bad, workspace), {"kv_lengths tensor", "alibi_slopes tensor"});
  bad = good;
  bad.cache_value = at(33024);
  expect_words(plan.make_bindings(bad, workspace), {"cache_key tensor", "cache_value tensor"});
  bad = good;
  bad.output = at(32768);
  expect_words(plan.make_bindings(bad, workspace), {"cache_key tensor", "output"});
}

}  // namespace
}  // namespace vkattn::tests
