// What the structures of the C interface say, as C++ has it.
#include <vkattn/vkattn.h>

#include <gtest/gtest.h>

#include <array>
#include <cstddef>
#include <limits>
#include <string>
#include <type_traits>
#include <vector>

#include "c/convert.hpp"
#include "c/handles.hpp"
#include "c/tensors.hpp"
#include "support/initial.hpp"
#include "support/must.hpp"
#include "support/text.hpp"

namespace vkattn {
namespace {

using tests::has;
using tests::initial;
using tests::message_of;
using tests::must;

TEST(CInterface, DefaultsAreThoseOfCpp) {
  auto attention = initial(vkattn_attention_desc_init);
  EXPECT_TRUE(must(c::attention_desc(&attention)) == AttentionDesc{});
  auto append = initial(vkattn_append_desc_init);
  EXPECT_TRUE(must(c::append_desc(&append)) == AppendDesc{});
  auto merge = initial(vkattn_merge_desc_init);
  EXPECT_EQ(c::merge_desc(&merge)->parts, MergeDesc{}.parts);
  EXPECT_EQ(c::merge_desc(&merge)->has_lse, MergeDesc{}.has_lse);
  auto product = initial(vkattn_matmul_desc_init);
  EXPECT_TRUE(must(c::matmul_desc(&product)) == MatmulDesc{});
  auto backward = initial(vkattn_backward_desc_init);
  EXPECT_EQ(message_of(c::backward_desc(&backward)), "vkattn_attention_desc is null");
  backward.attention = &attention;
  EXPECT_TRUE(must(c::backward_desc(&backward)) == BackwardDesc{});
  auto layer = initial(vkattn_multi_head_attention_desc_init);
  layer.attention = &attention;
  EXPECT_TRUE(must(c::multi_head_attention_desc(&layer)) == MultiHeadAttentionDesc{});
  auto gradients = initial(vkattn_multi_head_attention_backward_desc_init);
  gradients.forward = &layer;
  EXPECT_TRUE(must(c::multi_head_attention_backward_desc(&gradients)) == MultiHeadAttentionBackwardDesc{});
  const PlanOptions options = must(c::attention_options(must(c::plan_options(nullptr))));
  EXPECT_EQ(options.max_dispatch_ns, PlanOptions{}.max_dispatch_ns);
  EXPECT_EQ(options.kernel, "");
  EXPECT_FALSE(options.push_descriptors || options.deferred_compilation || options.strict_nonfinite);
  EXPECT_EQ(c::record_options(nullptr)->dispatch_count, RecordOptions{}.dispatch_count);
}

/// A field of a structure of the C interface, and what it is in C++.
template <class Given, class Expected>
void set(Given& given, const std::type_identity_t<Given>& value, Expected& expected,
         const std::type_identity_t<Expected>& as_cpp) {
  given = value;
  expected = as_cpp;
}

// Each field is set to something else than its default, so that a conversion that forgets one shows.
TEST(CInterface, EveryFieldOfAProblemArrives) {
  const vkattn_strides strides{1, 2, 3, 4};
  const Strides as_cpp{1, 2, 3, 4};
  auto given = initial(vkattn_attention_desc_init);
  AttentionDesc expected;
  given.batch = expected.batch = 2;
  given.query_heads = expected.query_heads = 6;
  given.kv_heads = expected.kv_heads = 3;
  given.query_length = expected.query_length = 7;
  given.kv_length = expected.kv_length = 9;
  given.head_dim = expected.head_dim = 16;
  given.value_dim = expected.value_dim = 24;
  set(given.layout, VKATTN_LAYOUT_BSHD, expected.layout, Layout::kBshd);
  set(given.query, {VKATTN_DATA_TYPE_FLOAT16, 2, &strides}, expected.query, {DataType::kFloat16, as_cpp, 2});
  set(given.key, {VKATTN_DATA_TYPE_Q8_0, 4, nullptr}, expected.key, {DataType::kQ8_0, {}, 4});
  set(given.value, {VKATTN_DATA_TYPE_Q4_0, 8, nullptr}, expected.value, {DataType::kQ4_0, {}, 8});
  set(given.output, {VKATTN_DATA_TYPE_BFLOAT16, 16, &strides}, expected.output,
      {DataType::kBfloat16, as_cpp, 16});
  set(given.scale, 0.5F, expected.scale, 0.5F);
  set(given.causal, 1, expected.causal, true);
  set(given.align, VKATTN_ALIGN_OFFSET, expected.align, Align::kOffset);
  given.offset = expected.offset = 5;
  set(given.query_lengths, VKATTN_LENGTHS_PACKED, expected.query_lengths, Lengths::kPacked);
  set(given.kv_lengths, VKATTN_LENGTHS_PER_ENTRY, expected.kv_lengths, Lengths::kPerEntry);
  given.total_query_length = expected.total_query_length = 11;
  given.total_kv_length = expected.total_kv_length = 13;
  set(given.cache, {VKATTN_KEY_MAPPING_PAGED, 1, 2, 3, 4}, expected.cache, {KeyMapping::kPaged, 1, 2, 3, 4});
  given.softcap = expected.softcap = 3;
  given.mask = VKATTN_MASK_TYPE_BITS;
  given.mask_strides = &strides;
  expected.mask = {MaskType::kBits, as_cpp};
  given.window_left = expected.window.left = 17;
  given.window_right = expected.window.right = 19;
  set(given.alibi, VKATTN_ALIBI_SLOPES_GIVEN, expected.alibi, Alibi::kGiven);
  set(given.has_sinks, 1, expected.has_sinks, true);
  given.dropout = expected.dropout = 0.25F;
  set(given.has_lse, 1, expected.has_lse, true);
  set(given.lse_strides, &strides, expected.lse_strides, as_cpp);
  set(given.weights, VKATTN_WEIGHTS_STAGE_MASKED, expected.weights, WeightsStage::kMasked);
  set(given.weights_strides, &strides, expected.weights_strides, as_cpp);
  EXPECT_TRUE(must(c::attention_desc(&given)) == expected);
}

/// The rotation of an append and of a layer, which have the same fields for it.
template <class Desc>
RotaryDesc set_rotary(Desc& given, vkattn_rotary_style style, RotaryStyle as_cpp) {
  given.rotary_style = style;
  given.rotary_dims = 8;
  given.rotary_base = 500;
  given.rotary_position_scale = 0.5;
  given.rotary_has_frequencies = 1;
  given.rotary_magnitude = 1.5F;
  given.rotary_inverse = 1;
  return {as_cpp, 8, 500, 0.5, true, 1.5F, true};
}

TEST(CInterface, EveryFieldOfAnAppendArrives) {
  auto given = initial(vkattn_append_desc_init);
  AppendDesc expected;
  given.batch = expected.batch = 2;
  given.query_heads = expected.query_heads = 6;
  given.kv_heads = expected.kv_heads = 3;
  given.new_length = expected.new_length = 7;
  given.head_dim = expected.head_dim = 16;
  given.value_dim = expected.value_dim = 24;
  set(given.layout, VKATTN_LAYOUT_PACKED_QKV, expected.layout, Layout::kPackedQkv);
  const std::array<vkattn_tensor_desc vkattn_append_desc::*, 6> tensors{
      &vkattn_append_desc::query,        &vkattn_append_desc::key,       &vkattn_append_desc::value,
      &vkattn_append_desc::query_output, &vkattn_append_desc::cache_key, &vkattn_append_desc::cache_value};
  const std::array<TensorDesc AppendDesc::*, 6> as_cpp{&AppendDesc::query,     &AppendDesc::key,
                                                       &AppendDesc::value,     &AppendDesc::query_output,
                                                       &AppendDesc::cache_key, &AppendDesc::cache_value};
  for (std::uint32_t i = 0; i < 6; ++i) {
    given.*tensors[i] = {i, 1U << i, nullptr};
    expected.*as_cpp[i] = {static_cast<DataType>(i), {}, 1U << i};
  }
  set(given.cache, {VKATTN_KEY_MAPPING_RING, 5, 0, 0, 0}, expected.cache, {KeyMapping::kRing, 5});
  given.cache_length = expected.cache_length = 29;
  set(given.has_positions, 1, expected.has_positions, true);
  given.position = expected.position = 31;
  set(given.new_lengths, VKATTN_LENGTHS_PER_ENTRY, expected.new_lengths, Lengths::kPerEntry);
  given.total_new_length = expected.total_new_length = 37;
  set(given.writes_kv_lengths, 1, expected.writes_kv_lengths, true);
  expected.rotary = set_rotary(given, VKATTN_ROTARY_STYLE_HALF_SPLIT, RotaryStyle::kHalfSplit);
  EXPECT_TRUE(must(c::append_desc(&given)) == expected);
}

TEST(CInterface, EveryFieldOfGradientsArrives) {
  const vkattn_strides strides{1, 2, 3, 4};
  const Strides as_cpp{1, 2, 3, 4};
  const vkattn_tensor_desc output{VKATTN_DATA_TYPE_FLOAT16, 2, nullptr};
  const vkattn_tensor_desc query{VKATTN_DATA_TYPE_BFLOAT16, 4, &strides};
  const vkattn_tensor_desc key{VKATTN_DATA_TYPE_FLOAT32, 8, nullptr};
  const vkattn_tensor_desc value{VKATTN_DATA_TYPE_FLOAT16, 16, &strides};
  const vkattn_tensor_desc mask{VKATTN_DATA_TYPE_FLOAT16, 32, nullptr};
  auto attention = initial(vkattn_attention_desc_init);
  attention.head_dim = 16;
  auto given = initial(vkattn_backward_desc_init);
  given.attention = &attention;
  given.has_grad_query = given.has_grad_key = given.has_grad_value = 0;
  given.has_grad_mask = given.has_grad_alibi_slopes = given.has_grad_sinks = 1;
  given.grad_output = &output;
  given.grad_query = &query;
  given.grad_key = &key;
  given.grad_value = &value;
  given.grad_mask = &mask;
  BackwardDesc expected;
  expected.attention.head_dim = 16;
  expected.has_grad_query = expected.has_grad_key = expected.has_grad_value = false;
  expected.has_grad_mask = expected.has_grad_alibi_slopes = expected.has_grad_sinks = true;
  expected.grad_output = TensorDesc{DataType::kFloat16, {}, 2};
  expected.grad_query = TensorDesc{DataType::kBfloat16, as_cpp, 4};
  expected.grad_key = TensorDesc{DataType::kFloat32, {}, 8};
  expected.grad_value = TensorDesc{DataType::kFloat16, as_cpp, 16};
  expected.grad_mask = TensorDesc{DataType::kFloat16, {}, 32};
  EXPECT_TRUE(must(c::backward_desc(&given)) == expected);
  const vkattn_tensor_desc wrong{9, 0, nullptr};
  given.grad_key = &wrong;
  EXPECT_EQ(message_of(c::backward_desc(&given)), "grad_key.type is 9; the largest there is is 5");
}

TEST(CInterface, EveryFieldOfAProductArrives) {
  const vkattn_matrix_strides strides{5, 6, 7};
  auto given = initial(vkattn_matmul_desc_init);
  MatmulDesc expected;
  given.batch = expected.batch = 2;
  given.rows = expected.rows = 3;
  given.columns = expected.columns = 4;
  given.inner = expected.inner = 5;
  set(given.a, {VKATTN_DATA_TYPE_FLOAT16, 2, &strides}, expected.a,
      {DataType::kFloat16, MatrixStrides{5, 6, 7}, 2});
  set(given.b, {VKATTN_DATA_TYPE_Q8_0, 4, nullptr}, expected.b, {DataType::kQ8_0, {}, 4});
  set(given.output, {VKATTN_DATA_TYPE_BFLOAT16, 8, nullptr}, expected.output, {DataType::kBfloat16, {}, 8});
  set(given.has_bias, given.accumulates = given.a_is_ones = 1, expected.has_bias,
      expected.accumulates = expected.a_is_ones = true);
  set(given.bias_type, VKATTN_DATA_TYPE_FLOAT16, expected.bias_type, DataType::kFloat16);
  EXPECT_TRUE(must(c::matmul_desc(&given)) == expected);
  given.b.type = 77;
  EXPECT_EQ(message_of(c::matmul_desc(&given)), "b.type is 77; the largest there is is 5");
}

TEST(CInterface, EveryFieldOfALayerArrives) {
  const vkattn_data_type parameters = VKATTN_DATA_TYPE_BFLOAT16, gradients = VKATTN_DATA_TYPE_FLOAT32,
                         weights = VKATTN_DATA_TYPE_Q4_0;
  auto attention = initial(vkattn_attention_desc_init);
  attention.causal = 1;
  auto given = initial(vkattn_multi_head_attention_desc_init);
  MultiHeadAttentionDesc expected;
  given.attention = &attention;
  expected.attention.causal = true;
  given.d_model = expected.d_model = 32;
  given.key_input_dim = expected.key_input_dim = 24;
  given.value_input_dim = expected.value_input_dim = 20;
  set(given.inputs, VKATTN_LAYER_INPUTS_SEPARATE, expected.inputs, LayerInputs::kSeparate);
  set(given.packed_weights, given.has_input_bias = given.has_output_bias = 0, expected.packed_weights,
      expected.has_input_bias = expected.has_output_bias = false);
  set(given.type, VKATTN_DATA_TYPE_FLOAT16, expected.type, DataType::kFloat16);
  given.alignment_bytes = expected.alignment_bytes = 4;
  set(given.parameter_type, &parameters, expected.parameter_type, DataType::kBfloat16);
  set(given.weight_type, &weights, expected.weight_type, DataType::kQ4_0);
  expected.rotary = set_rotary(given, VKATTN_ROTARY_STYLE_INTERLEAVED, RotaryStyle::kInterleaved);
  set(given.has_cache, given.has_averaged_weights = given.adds_to_output = given.saves_for_gradients = 1,
      expected.has_cache, expected.has_averaged_weights = expected.adds_to_output = true);
  expected.saves_for_gradients = true;
  EXPECT_TRUE(must(c::multi_head_attention_desc(&given)) == expected);

  auto backward = initial(vkattn_multi_head_attention_backward_desc_init);
  EXPECT_EQ(message_of(c::multi_head_attention_backward_desc(&backward)),
            "vkattn_multi_head_attention_desc is null");
  MultiHeadAttentionBackwardDesc as_cpp;
  backward.forward = &given;
  as_cpp.forward = expected;
  backward.has_grad_query = backward.has_grad_key = backward.has_grad_value = 0;
  as_cpp.has_grad_query = as_cpp.has_grad_key = as_cpp.has_grad_value = false;
  backward.has_grad_parameters = 0;
  as_cpp.has_grad_parameters = false;
  backward.adds_to_inputs = backward.adds_to_parameters = 1;
  as_cpp.adds_to_inputs = as_cpp.adds_to_parameters = true;
  backward.grad_parameter_type = &gradients;
  as_cpp.grad_parameter_type = DataType::kFloat32;
  backward.has_grad_mask = backward.has_grad_alibi_slopes = backward.has_grad_sinks = 1;
  as_cpp.has_grad_mask = as_cpp.has_grad_alibi_slopes = as_cpp.has_grad_sinks = true;
  const vkattn_strides strides{0, 25, 5, 1};
  const vkattn_tensor_desc mask{VKATTN_DATA_TYPE_FLOAT16, 0, &strides};
  backward.grad_mask = &mask;
  as_cpp.grad_mask = TensorDesc{DataType::kFloat16, Strides{0, 25, 5, 1}, 0};
  EXPECT_TRUE(must(c::multi_head_attention_backward_desc(&backward)) == as_cpp);
}

TEST(CInterface, EachKindOfPlanTakesItsOptions) {
  auto all = initial(vkattn_plan_options_init);
  all.kernel = "tile";
  all.max_dispatch_ns = 7;
  all.deferred_compilation = all.capture_statistics = 1;
  vkattn_plan_options given = all;
  given.chunk_keys = 64;
  const BackwardOptions backward = must(c::backward_options(given));
  EXPECT_EQ(backward.kernel, "tile");
  EXPECT_EQ(backward.chunk_keys, 64U);
  EXPECT_EQ(backward.max_dispatch_ns, 7U);
  EXPECT_TRUE(backward.deferred_compilation && backward.capture_statistics);
  EXPECT_FALSE(backward.push_descriptors);
  given.push_descriptors = 1;
  EXPECT_TRUE(c::backward_options(given)->push_descriptors);

  const vkattn_tile_sizes tile{1, 2, 3, 4, 5, 0};
  given = all;
  given.inner_splits = 9;
  given.tile = &tile;
  const MatmulOptions product = must(c::matmul_options(given));
  EXPECT_EQ(product.kernel, "tile");
  EXPECT_EQ(product.inner_splits, 9U);
  EXPECT_TRUE(product.tile == (MatmulTile{1, 4, 3, 5, 2}));
  EXPECT_EQ(product.max_dispatch_ns, 7U);
  EXPECT_TRUE(product.deferred_compilation && product.capture_statistics);
  given.push_descriptors = 1;
  EXPECT_TRUE(c::matmul_options(given)->push_descriptors);

  given = all;
  given.matmul_kernel = "lane";
  given.backward_kernel = "other";
  const vkattn_kernel_refusal refusals[] = {{"lane", "is slow"}, {"tile", "is wrong"}};
  given.matmul_refusals = refusals;
  given.matmul_refusal_count = 2;
  given.backward_refusals = refusals + 1;
  given.backward_refusal_count = 1;
  given.kv_splits = 8;
  given.strict_nonfinite = 1;
  given.arithmetic_type = VKATTN_DATA_TYPE_FLOAT16;
  given.tile = &tile;
  const MultiHeadAttentionOptions layer = must(c::layer_options(given));
  EXPECT_EQ(layer.attention.kernel, "tile");
  EXPECT_EQ(layer.attention.kv_splits, 8U);
  EXPECT_EQ(layer.attention.arithmetic_type, DataType::kFloat16);
  EXPECT_TRUE(layer.attention.strict_nonfinite && layer.attention.tile);
  EXPECT_EQ(layer.matmul_kernel, "lane");
  EXPECT_EQ(layer.backward_kernel, "other");
  ASSERT_EQ(layer.matmul_refusals.size(), 2U);
  EXPECT_EQ(layer.matmul_refusals[1].kernel, "tile");
  ASSERT_EQ(layer.backward_refusals.size(), 1U);
  EXPECT_EQ(layer.backward_refusals[0].reason, "is wrong");
  EXPECT_EQ(layer.max_dispatch_ns, 7U);
  EXPECT_TRUE(layer.deferred_compilation);
}

TEST(CInterface, ParametersAreThoseOfCpp) {
  auto error = initial(vkattn_error_init);
  auto attention = initial(vkattn_attention_desc_init);
  attention.query_heads = 4;
  attention.kv_heads = 2;
  attention.query_length = 3;
  auto layer = initial(vkattn_multi_head_attention_desc_init);
  layer.attention = &attention;
  std::uint32_t count = 0;
  EXPECT_EQ(vkattn_query_parameters(&layer, nullptr, &count, &error), VKATTN_ERROR_INVALID_ARGUMENT);
  EXPECT_TRUE(has(error.message, "d_model"));
  layer.d_model = 32;
  for (const std::uint32_t is_packed : {1U, 0U}) {
    layer.packed_weights = is_packed;
    const auto expected = parameters(must(c::multi_head_attention_desc(&layer)));
    ASSERT_EQ(vkattn_query_parameters(&layer, nullptr, &count, &error), VKATTN_SUCCESS) << error.message;
    ASSERT_EQ(count, expected.size());
    std::vector<vkattn_parameter> all(count);
    ASSERT_EQ(vkattn_query_parameters(&layer, all.data(), &count, &error), VKATTN_SUCCESS) << error.message;
    for (std::size_t i = 0; i < all.size(); ++i) {
      EXPECT_EQ(all[i].name, expected[i].name);
      EXPECT_EQ(all[i].rows, expected[i].rows);
      EXPECT_EQ(all[i].columns, expected[i].columns);
      EXPECT_EQ(all[i].tensor, c::numbers_of(expected[i].range).tensor);
      std::vector<float> values(static_cast<std::size_t>(expected[i].elements()), -1);
      ASSERT_EQ(vkattn_initial_values(&all[i], VKATTN_INITIALISATION_HE_NORMAL, 5, values.data(),
                                      values.size(), &error),
                VKATTN_SUCCESS)
          << error.message;
      EXPECT_EQ(values, initial_values(expected[i], Initialisation::kHeNormal, 5));
    }
  }
}

TEST(CInterface, FirstValuesAreOfAParameterThatCanBe) {
  auto error = initial(vkattn_error_init);
  std::array<float, 12> values{};
  vkattn_parameter parameter{"w", VKATTN_TENSOR_OUT_PROJ_WEIGHT, VKATTN_TENSOR_GRAD_OUT_PROJ_WEIGHT, 3, 4};
  const auto refused = [&](std::uint32_t how, std::size_t count, const char* words) {
    EXPECT_EQ(vkattn_initial_values(&parameter, how, 1, values.data(), count, &error),
              VKATTN_ERROR_INVALID_ARGUMENT);
    EXPECT_TRUE(has(error.message, words));
  };
  refused(4, values.size(), "how is 4; the largest there is is 3");
  refused(0, 11, "has 12 elements, but count is 11");
  parameter.rows = std::int64_t{1} << 62;
  refused(0, values.size(), "but count is 12");
  refused(0, static_cast<std::size_t>(std::numeric_limits<std::int64_t>::max()), "has at least");
  parameter.rows = -3;
  refused(0, values.size(), "cannot have -3 rows");
  EXPECT_EQ(vkattn_initial_values(nullptr, 0, 1, values.data(), 12, &error), VKATTN_ERROR_INVALID_ARGUMENT);
}

}  // namespace
}  // namespace vkattn
