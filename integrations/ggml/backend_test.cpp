// ggml computes its attention with vkattn: each result is compared with float64 and with ggml's CPU back end.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "float64.hpp"
#include "graph.hpp"
#include "support/pairwise.hpp"

namespace vkattn::ggml {
namespace {

constexpr std::uint64_t kSeed = 7;
/// What ggml's own tests allow its back ends.
constexpr double kMostSquaredError = 5e-4;

class GgmlTest : public testing::Test {
 protected:
  void SetUp() override {
    ours_ = backend_of("vkattn");
    cpu_ = backend_of("CPU");
    if (!ours_ && std::getenv("VKATTN_TEST_REQUIRE_DEVICE") == nullptr) GTEST_SKIP() << "no Vulkan device";
    ASSERT_TRUE(ours_) << "ggml has not loaded the back end that GGML_BACKEND_PATH names";
    ASSERT_TRUE(cpu_) << "ggml has no CPU back end in VKATTN_GGML_BACKENDS";
    set_threads(cpu_.get(), 2);
  }

  Backend ours_, cpu_;
};

/// The squared difference, as a share of the square of what is expected.
double squared_error(const std::vector<float>& got, const std::vector<float>& expected) {
  double difference = 0, size = 0;
  for (std::size_t i = 0; i < expected.size(); ++i) {
    const double g = got[i], e = expected[i];
    difference += (g - e) * (g - e);
    size += e * e;
  }
  return size == 0 ? difference : difference / size;
}

void fill_with_nan(ggml_tensor& tensor) {
  const std::vector<float> nan(static_cast<std::size_t>(ggml_nelements(&tensor)), NAN);
  ggml_backend_tensor_set(&tensor, nan.data(), 0, nan.size() * sizeof(float));
}

bool is_block_type(ggml_type type) {
  return ggml_blck_size(type) > 1;
}

Shape shape_of(const tests::FactorRow& row) {
  static constexpr ggml_type kTypes[] = {GGML_TYPE_F32, GGML_TYPE_F16, GGML_TYPE_BF16, GGML_TYPE_Q8_0,
                                         GGML_TYPE_Q4_0};
  static constexpr std::int64_t kDims[][2] = {{64, 64}, {40, 40}, {128, 128}, {96, 64}, {576, 512}};
  static constexpr std::int64_t kHeads[][2] = {{4, 4}, {8, 2}, {6, 1}, {12, 3}};
  static constexpr std::int64_t kLengths[][2] = {{1, 1}, {1, 300}, {3, 37}, {37, 113}, {70, 64}};
  Shape shape;
  shape.key = kTypes[row[0]];
  shape.value_is_key = row[1] == std::size(kTypes);
  shape.value = shape.value_is_key ? shape.key : kTypes[row[1]];
  shape.head_dim = kDims[row[2]][0];
  shape.value_dim = kDims[row[2]][1];
  if (is_block_type(shape.key) || is_block_type(shape.value)) {  // rows of whole blocks
    shape.head_dim = (shape.head_dim + 31) / 32 * 32;
    shape.value_dim = (shape.value_dim + 31) / 32 * 32;
  }
  shape.query_heads = kHeads[row[3]][0];
  shape.kv_heads = kHeads[row[3]][1];
  shape.queries = kLengths[row[4]][0];
  shape.keys = kLengths[row[4]][1];
  shape.mask = static_cast<Mask>(row[5]);
  shape.max_bias = row[6] == 1 && shape.mask != Mask::kNone ? 8.0F : 0.0F;
  shape.softcap = row[7] == 1 ? 10.0F : 0.0F;
  shape.has_sinks = row[8] == 1;
  shape.order = static_cast<Order>(row[9]);
  shape.batch = static_cast<std::int64_t>(row[10]) + 1;
  return shape;
}

TEST_F(GgmlTest, EachPairOfFeaturesIsRightBesideFloat64AndTheCpu) {
  const std::vector<tests::FactorRow> rows = tests::pairwise_rows({5, 6, 5, 4, 5, 7, 2, 2, 2, 3, 2}, kSeed);
  double worst = 0, worst_beside_cpu = 0;
  for (const tests::FactorRow& row : rows) {
    const Shape shape = shape_of(row);
    SCOPED_TRACE(to_string(shape));
    const Graph graph(shape, ours_.get(), kSeed), other(shape, cpu_.get(), kSeed);
    ASSERT_TRUE(ggml_backend_supports_op(ours_.get(), &graph.node()));
    fill_with_nan(graph.node());
    ASSERT_EQ(ggml_backend_graph_compute(ours_.get(), graph.graph()), GGML_STATUS_SUCCESS);
    ASSERT_EQ(ggml_backend_graph_compute(cpu_.get(), other.graph()), GGML_STATUS_SUCCESS);
    const double share = Float64(shape, graph).compare(graph.output()).share;
    EXPECT_LE(share, 1);
    const double beside_cpu = squared_error(other.output(), graph.output());
    EXPECT_LE(beside_cpu, kMostSquaredError);
    worst = std::max(worst, share);
    worst_beside_cpu = std::max(worst_beside_cpu, beside_cpu);
  }
  std::printf("%zu graphs; largest error %.2g of the tolerance, squared error beside the CPU %.2g\n",
              rows.size(), worst, worst_beside_cpu);
}

TEST_F(GgmlTest, WhatItDoesNotComputeIsLeftToOthers) {
  Shape shape;
  shape.keys = 64;
  for (const ggml_type type : {GGML_TYPE_Q4_1, GGML_TYPE_Q5_0, GGML_TYPE_Q5_1, GGML_TYPE_IQ4_NL}) {
    shape.key = shape.value = type;
    const Graph graph(shape, cpu_.get(), kSeed);
    EXPECT_FALSE(ggml_backend_supports_op(ours_.get(), &graph.node())) << ggml_type_name(type);
  }
  shape.key = shape.value = GGML_TYPE_F16;
  shape.head_dim = 640;
  const Graph wide(shape, cpu_.get(), kSeed);
  EXPECT_FALSE(ggml_backend_supports_op(ours_.get(), &wide.node()));
  shape.head_dim = 64;
  shape.queries = 8;
  shape.mask = Mask::kShared;
  const Graph graph(shape, cpu_.get(), kSeed);
  ASSERT_TRUE(ggml_backend_supports_op(ours_.get(), &graph.node()));
  // Tensors that would be read beyond their ends: fewer rows of V, keys or rows of the mask than of K and Q.
  ggml_tensor &value = *graph.node().src[2], &mask = *graph.node().src[3];
  for (std::int64_t* const size : {&value.ne[1], &mask.ne[0], &mask.ne[1]}) {
    --*size;
    EXPECT_FALSE(ggml_backend_supports_op(ours_.get(), &graph.node()));
    ++*size;
  }
}

/// What a scheduler made of a small layer.
struct Layer {
  std::vector<float> output;
  std::string attention, rest;  ///< the back ends that computed them
};

/// A product, attention, a product and a sum, by a scheduler over the back ends.
Layer compute_layer(std::vector<ggml_backend_t> backends) {
  constexpr std::int64_t kDim = 64, kHeads = 4, kLength = 48;
  constexpr std::size_t kTensors = 64;
  const std::unique_ptr<ggml_context, Deleter> owner(
      ggml_init({kTensors * ggml_tensor_overhead() + ggml_graph_overhead(), nullptr, true}));
  ggml_context* context = owner.get();
  ggml_tensor* input = ggml_new_tensor_2d(context, GGML_TYPE_F32, kDim * kHeads, kLength);
  ggml_tensor* weights = ggml_new_tensor_2d(context, GGML_TYPE_F32, kDim * kHeads, kDim * kHeads);
  ggml_set_input(input);
  ggml_set_input(weights);
  const auto heads = [&](ggml_tensor* rows) {
    return ggml_permute(context, ggml_reshape_3d(context, rows, kDim, kHeads, kLength), 0, 2, 1, 3);
  };
  ggml_tensor* query = heads(ggml_mul_mat(context, weights, input));
  ggml_tensor* attention =
      ggml_flash_attn_ext(context, query, heads(input), heads(input), nullptr, 0.125F, 0, 0);
  ggml_tensor* rows = ggml_reshape_2d(context, attention, kDim * kHeads, kLength);
  ggml_tensor* output = ggml_add(context, ggml_mul_mat(context, weights, rows), input);
  ggml_set_output(output);
  ggml_cgraph* graph = ggml_new_graph(context);
  ggml_build_forward_expand(graph, output);
  ggml_backend_sched_t scheduler = ggml_backend_sched_new(
      backends.data(), nullptr, static_cast<int>(backends.size()), kTensors, false, true);
  EXPECT_TRUE(ggml_backend_sched_alloc_graph(scheduler, graph));
  std::mt19937_64 random(kSeed);
  std::normal_distribution<float> normal(0, 0.1F);
  for (ggml_tensor* tensor : {input, weights}) {
    std::vector<float> values(static_cast<std::size_t>(ggml_nelements(tensor)));
    for (float& value : values) value = normal(random);
    ggml_backend_tensor_set(tensor, values.data(), 0, values.size() * sizeof(float));
  }
  EXPECT_EQ(ggml_backend_sched_graph_compute(scheduler, graph), GGML_STATUS_SUCCESS);
  Layer layer;
  layer.output.resize(static_cast<std::size_t>(ggml_nelements(output)));
  ggml_backend_tensor_get(output, layer.output.data(), 0, layer.output.size() * sizeof(float));
  layer.attention = ggml_backend_name(ggml_backend_sched_get_tensor_backend(scheduler, attention));
  layer.rest = ggml_backend_name(ggml_backend_sched_get_tensor_backend(scheduler, output));
  ggml_backend_sched_free(scheduler);
  return layer;
}

TEST_F(GgmlTest, TheSchedulerSharesAGraphWithTheCpu) {
  const Layer shared = compute_layer({ours_.get(), cpu_.get()}), alone = compute_layer({cpu_.get()});
  EXPECT_EQ(shared.attention, "vkattn");
  EXPECT_EQ(shared.rest, "CPU");
  EXPECT_EQ(alone.attention, "CPU");
  EXPECT_GT(squared_error(std::vector<float>(alone.output.size()), alone.output),
            0.5);  // it is not all zeros
  EXPECT_LE(squared_error(shared.output, alone.output), 1e-10);
}

/// ggml's public functions reach the functions that the tables of interface.hpp place there.
TEST_F(GgmlTest, GgmlFindsEachFunctionOfTheInterface) {
  ggml_backend_dev_t device = ggml_backend_get_device(ours_.get());
  EXPECT_STREQ(ggml_backend_name(ours_.get()), "vkattn");
  EXPECT_STREQ(ggml_backend_dev_name(device), "vkattn");
  EXPECT_GT(std::string(ggml_backend_dev_description(device)).size(), 0U);
  EXPECT_EQ(ggml_backend_dev_type(device), GGML_BACKEND_DEVICE_TYPE_ACCEL);
  ggml_backend_dev_props properties;
  ggml_backend_dev_get_props(device, &properties);
  EXPECT_STREQ(properties.name, "vkattn");
  EXPECT_TRUE(properties.caps.buffer_from_host_ptr);
  EXPECT_FALSE(properties.caps.async || properties.caps.events || properties.caps.host_buffer);
  std::size_t free = 1, total = 1;
  ggml_backend_dev_memory(device, &free, &total);
  EXPECT_EQ(free + total, 0U);
  EXPECT_EQ(ggml_backend_dev_buffer_type(device), ggml_backend_cpu_buffer_type());
  EXPECT_EQ(ggml_backend_dev_host_buffer_type(device), nullptr);
  EXPECT_TRUE(ggml_backend_dev_supports_buft(device, ggml_backend_cpu_buffer_type()));
  EXPECT_EQ(ggml_backend_event_new(device), nullptr);
  ggml_backend_synchronize(ours_.get());
  alignas(64) float memory[64] = {};
  ggml_backend_buffer_t buffer =
      ggml_backend_dev_buffer_from_host_ptr(device, memory, sizeof(memory), sizeof(memory));
  EXPECT_EQ(ggml_backend_buffer_get_base(buffer), memory);
  ggml_backend_buffer_free(buffer);
  ggml_backend_reg_t library = ggml_backend_dev_backend_reg(device);
  EXPECT_STREQ(ggml_backend_reg_name(library), "vkattn");
  EXPECT_EQ(ggml_backend_reg_dev_count(library), 1U);
  EXPECT_EQ(ggml_backend_reg_dev_get(library, 0), device);
  EXPECT_EQ(ggml_backend_reg_get_proc_address(library, "ggml_backend_set_n_threads"), nullptr);
  const Backend second = backend_of("vkattn");
  EXPECT_TRUE(ggml_guid_matches(ggml_backend_guid(second.get()), ggml_backend_guid(ours_.get())));
  EXPECT_FALSE(ggml_guid_matches(ggml_backend_guid(cpu_.get()), ggml_backend_guid(ours_.get())));
}

}  // namespace
}  // namespace vkattn::ggml
