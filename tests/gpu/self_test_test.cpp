// Self-tests of each kind of plan: they accept right results and report wrong ones, and the runtime obeys
// them.
#include <vkattn/multi_head_attention.hpp>
#include <vkattn/self_test.hpp>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "gpu/first_use.hpp"
#include "problem/gradients.hpp"
#include "self_test/small_test.hpp"

namespace vkattn::tests {
namespace {

/// If the problem has the word lse, of a loss that depends on it.
BackwardDesc gradients_of(std::string_view text) {
  const AttentionDesc attention = parsed(text).desc;
  BackwardDesc desc = bench::with_all_gradients(attention);
  desc.has_grad_lse = attention.has_lse;
  return desc;
}

MatmulDesc product(std::int64_t rows, std::int64_t columns, std::int64_t inner, DataType type) {
  MatmulDesc desc{.rows = rows, .columns = columns, .inner = inner};
  desc.a.type = desc.b.type = desc.output.type = type;
  return desc;
}

class SelfTestTest : public FirstUseTest {
 protected:
  /// Runs a test. `memory` is the content of its buffer before and after.
  static void run(const SelfTest& test, std::vector<std::byte>& memory) {
    const Buffer buffer = filled_buffer(runtime(), memory);
    const auto bindings = must(test.make_bindings(buffer.range()));
    must(runtime().execute([&](VkCommandBuffer c) { test.record(c, bindings); }));
    memory = elements_of<std::byte>(runtime(), buffer, memory.size());
  }

  /// Checks that the results are right, and that one wrong element is found.
  template <class Plan>
  static void expect_tells(const Plan& plan) {
    const SelfTest test = must(SelfTest::create(runtime().device(), plan));
    std::vector<std::byte> memory(static_cast<std::size_t>(test.buffer_bytes()));
    must(test.fill(memory));
    const std::vector<std::byte> before = memory;
    run(test, memory);
    EXPECT_EQ(test.check(memory).value(), "");
    // Results start as words of all ones. No other words are so.
    std::vector<std::size_t> results;
    for (std::size_t at = 0; at + 4 <= memory.size(); at += 4) {
      std::uint32_t word = 0;
      std::memcpy(&word, &before[at], 4);
      if (word == ~0U) results.push_back(at);
    }
    ASSERT_FALSE(results.empty());
    const std::size_t at = results[results.size() / 2];
    memory[at + 1] ^=
        std::byte{0x40};  // changes the exponent of a 32-bit number, and those of both 16-bit numbers
    memory[at + 3] ^= std::byte{0x40};
    EXPECT_NE(test.check(memory).value(), "") << "byte " << at;
  }

  /// Checks that the test's plan has the plan's configuration, by which the outcome is kept.
  static void expect_stands_for(const AttentionPlan& plan) {
    const auto small = must(detail::small_plan(runtime().device(), plan, {}, TestPurpose::kResults));
    EXPECT_EQ(small.configuration(), plan.configuration());
    EXPECT_EQ(small.arithmetic_type(), plan.arithmetic_type());
  }
  static void expect_stands_for(const BackwardPlan& plan) {
    const auto small = must(detail::small_plan(runtime().device(), plan, {}));
    EXPECT_EQ(small.configuration(), plan.configuration());
    EXPECT_EQ(small.keeps_gradients(), plan.keeps_gradients());
  }
  static void expect_stands_for(const MatmulPlan& plan) {
    const auto small = must(detail::small_plan(runtime().device(), plan, {}));
    EXPECT_EQ(small.configuration(), plan.configuration());
    EXPECT_EQ(small.requirements().workspace_bytes != 0, plan.requirements().workspace_bytes != 0)
        << "one is split, the other is not";
  }

  template <class Desc>
  static bool takes(const Desc& desc, std::string_view kernel) {
    return reason_against(capabilities(), kernel, desc).empty();
  }
};

constexpr const char* kKinds[] = {"lane", "tile", "matrix"};

TEST_F(SelfTestTest, OfGradientsTellsRightFromWrong) {
  // This self-test keeps the same properties of a problem as attention's self-test.
  for (const char* const problem :
       {"hq4 hkv2 9x20 d17 dv24 bf16 causal softcap=5 mask=f16:bhqk sinks lse",
        "h2 64x64 d40 f16 mask=f32:k window=20,9 align=7 alibi=given dropout=0.2 kv_lengths=50"}) {
    const BackwardDesc desc = gradients_of(problem);
    for (const char* const kernel : {"tile", "matrix"}) {
      if (!takes(desc, kernel)) continue;
      const auto plan = must(BackwardPlan::create(runtime().device(), desc, {.kernel = kernel}));
      SCOPED_TRACE(plan.configuration());
      EXPECT_EQ(SelfTest::is_needed(plan), kernel == std::string_view("matrix"));
      expect_tells(plan);
    }
  }
}

/// The code of kept gradients is another one, and an outcome is kept by the code.
TEST_F(SelfTestTest, OfKeptGradientsKeepsThemToo) {
  const BackwardDesc desc = gradients_of("hq4 hkv2 9x200 d24 f16 causal lse");
  if (!takes(desc, "matrix2")) GTEST_SKIP() << "matrix2 does not run here";
  std::vector<std::string> configurations;
  for (const std::uint32_t chunk_keys : {0U, 64U}) {
    const auto plan =
        must(BackwardPlan::create(runtime().device(), desc, {.kernel = "matrix2", .chunk_keys = chunk_keys}));
    SCOPED_TRACE(plan.configuration());
    EXPECT_EQ(plan.keeps_gradients(), chunk_keys != 0);
    expect_stands_for(plan);
    expect_tells(plan);
    configurations.push_back(plan.configuration());
  }
  EXPECT_NE(configurations[0], configurations[1]);
}

/// decode holds few rows, and specialization depends on their number.
TEST_F(SelfTestTest, OfDecodeHasTheRowsOfItsProblem) {
  PlanOptions options;
  options.kernel = "decode";
  for (const char* const problem : {"hq8 hkv1 2x300 d32 f16 causal align=bottom-right lse",
                                    "hq12 hkv4 1x90 d24 mask=bits sinks softcap=5 lse"}) {
    const AttentionDesc desc = parsed(problem).desc;
    if (!takes(desc, "decode")) GTEST_SKIP() << reason_against(runtime(), "decode", problem);
    options.kv_splits = 1;
    const auto plan = must(AttentionPlan::create(runtime().device(), desc, options));
    SCOPED_TRACE(plan.configuration());
    EXPECT_FALSE(SelfTest::is_needed(plan));
    expect_stands_for(plan);
    expect_tells(plan);
    must(SelfTest::create(runtime().device(), plan, {}, TestPurpose::kTime));
  }
}

TEST_F(SelfTestTest, OfProductsTellsRightFromWrong) {
  std::vector<MatmulDesc> all{
      product(64, 64, 64, DataType::kFloat16), product(33, 7, 130, DataType::kBfloat16),
      product(16, 16, 4096, DataType::kFloat16), product(20, 30, 64, DataType::kFloat32),
      MatmulDesc::sum_columns(40, 30, DataType::kFloat16)};
  all[0].has_bias = true;
  all[1].output.type = DataType::kFloat32;
  all[2].a.strides = MatrixStrides{0, 1, 16};
  all[2].b.strides = MatrixStrides{0, 1, 4099};
  all[3].b.type = DataType::kQ8_0;
  for (const MatmulDesc& desc : all) {
    for (const char* const kernel : kKinds) {
      if (!takes(desc, kernel)) continue;
      PlanOptions options;
      options.kernel = kernel;
      if (desc.inner == 4096) options.inner_splits = 2;
      const auto plan = must(MatmulPlan::create(runtime().device(), desc, options));
      SCOPED_TRACE(plan.configuration());
      if (desc.inner == 4096) {
        EXPECT_NE(plan.requirements().workspace_bytes, 0U) << "it is split";
      }
      expect_stands_for(plan);
      EXPECT_EQ(SelfTest::is_needed(plan), kernel == std::string_view("matrix"));
      expect_tells(plan);
    }
  }
}

/// The test of a product runs the code of the product, with any kernel.
TEST_F(SelfTestTest, OfProductsLoadAsTheirProducts) {
  MatmulDesc odd = product(33, 70, 129, DataType::kFloat16);
  MatmulDesc turned = product(64, 64, 64, DataType::kFloat16);
  turned.a.strides = MatrixStrides{0, 1, 64};
  MatmulDesc apart = product(64, 64, 64, DataType::kFloat16);
  apart.a.strides = MatrixStrides{0, 128, 2};
  MatmulDesc of_one_row = product(1, 64, 33, DataType::kFloat16);
  MatmulDesc batches = product(64, 64, 64, DataType::kFloat16);
  batches.batch = 2;
  batches.b.strides = MatrixStrides{4099, 64, 1};
  batches.output.strides = MatrixStrides{4096, 64, 1};
  for (const MatmulDesc& desc :
       {odd, turned, apart, of_one_row, batches, product(64, 64, 64, DataType::kFloat16)}) {
    for (const char* const kernel : kKinds) {
      if (!takes(desc, kernel)) continue;
      for (const std::uint32_t splits : {1U, 3U}) {
        const auto plan = must(
            MatmulPlan::create(runtime().device(), desc,
                               {.kernel = kernel, .inner_splits = splits, .deferred_compilation = true}));
        expect_stands_for(plan);
      }
    }
  }
}

/// Outcomes are kept by the configuration.
TEST_F(SelfTestTest, ConfigurationsTellTheModesOfTheDevice) {
  const MatmulDesc desc = product(64, 64, 64, DataType::kFloat32);
  const AttentionDesc attention = parsed("h2 64x64 d32").desc;
  const BackwardDesc gradients = gradients_of("h2 64x64 d32");
  const auto configurations = [&](const Device& device) {
    const auto products = MatmulPlan::create(device, desc, {.kernel = "lane", .deferred_compilation = true});
    const auto forward =
        AttentionPlan::create(device, attention, {.kernel = "lane", .deferred_compilation = true});
    const auto backward =
        BackwardPlan::create(device, gradients, {.kernel = "lane", .deferred_compilation = true});
    return std::array{products.value().configuration(), forward.value().configuration(),
                      backward.value().configuration()};
  };
  const auto own = configurations(runtime().device());
  const auto other = configurations(
      device_with([](Capabilities& c) { c.rounds_float16_to_nearest = !c.rounds_float16_to_nearest; }));
  for (std::size_t i = 0; i < own.size(); ++i) EXPECT_NE(own[i], other[i]);
  EXPECT_EQ(configurations(device_with([](Capabilities&) {})), own);
}

TEST_F(SelfTestTest, OfFloat16ArithmeticRunsInFloat16) {
  if (!capabilities().shader_float16) GTEST_SKIP() << "the device has no shaderFloat16";
  for (const char* const problem : {"h2 64x64 d32 f16 lse", "hq4 hkv2 9x80 d40 f16 causal softcap=5 lse"}) {
    RunOptions options{.kernel = "tile", .arithmetic_type = DataType::kFloat16};
    options.kv_splits = 1;  // as the test has
    const auto plan = must(tests::make_plan(runtime(), parsed(problem).desc, options));
    expect_stands_for(plan);
    expect_tells(plan);
  }
}

/// The places in the one buffer are aligned to 16 bytes.
TEST_F(SelfTestTest, TensorsMayPromiseMoreThanTheBufferHas) {
  constexpr std::uint32_t kMore = 256;
  const Device& device = runtime().device();
  AttentionDesc attention = parsed("h2 64x64 d32 f16 lse").desc;
  for (TensorDesc* const tensor : {&attention.query, &attention.key, &attention.value, &attention.output})
    tensor->alignment_bytes = kMore;
  BackwardDesc gradients = bench::with_all_gradients(attention).resolved();
  for (auto* const gradient :
       {&gradients.grad_output, &gradients.grad_query, &gradients.grad_key, &gradients.grad_value})
    (*gradient)->alignment_bytes = kMore;
  MatmulDesc desc = product(64, 64, 64, DataType::kFloat16);
  for (MatrixDesc* const matrix : {&desc.a, &desc.b, &desc.output}) matrix->alignment_bytes = kMore;
  for (const char* const kernel : kKinds) {
    SCOPED_TRACE(kernel);
    const auto expect_told = [&](const auto& problem, const auto& make) {
      if (takes(problem, kernel)) expect_tells(must(make()));
    };
    expect_told(desc, [&] { return MatmulPlan::create(device, desc, {.kernel = kernel}); });
    expect_told(gradients, [&] { return BackwardPlan::create(device, gradients, {.kernel = kernel}); });
    expect_told(attention, [&] { return AttentionPlan::create(device, attention, {.kernel = kernel}); });
  }
}

TEST_F(SelfTestTest, OfTimesIsRight) {
  const UnrolledLoops unrolled;
  for (const char* const problem :
       {"h2 64x64 d17 causal softcap=5", "hq4 hkv2 64x64 d32 f16 cache=e4m3 mask=f16:bhqk window=9,9"}) {
    const auto plan = must(tests::make_plan(runtime(), parsed(problem).desc, {"lane"}));
    const auto test = must(SelfTest::create(runtime().device(), plan, {}, TestPurpose::kTime));
    std::vector<std::byte> memory(static_cast<std::size_t>(test.buffer_bytes()));
    ASSERT_TRUE(test.fill(memory).ok());
    EXPECT_NE(test.check(memory).value(), "") << "nothing is written yet";
    run(test, memory);
    EXPECT_EQ(test.check(memory).value(), "") << problem;
  }
}

// How the runtime uses outcomes.

TEST_F(SelfTestTest, OfAttentionOnMatrixUnitsIsTested) {
  const AttentionDesc desc = parsed("h2 64x64 d32 f16").desc;
  bool is_tested = false;
  for (const auto& [kernel, other] : {std::pair{"matrix", "matrix2"}, {"matrix2", "matrix"}}) {
    if (!takes(desc, kernel)) continue;
    SCOPED_TRACE(kernel);
    expect_tested<PlanOptions>(
        kernel, {"lane", "lane_decode", "tile", "decode", other},
        [&](const Runtime& on, const PlanOptions& options) { return on.make_plan(desc, options); });
    is_tested = true;
  }
  if (!is_tested) GTEST_SKIP() << "the device runs no kernel on matrix units";
}

TEST_F(SelfTestTest, OfGradientsOnMatrixUnitsIsTested) {
  const BackwardDesc desc = gradients_of("h2 20x30 d16 f16");
  if (!takes(desc, "matrix")) GTEST_SKIP() << "the device runs no gradients on matrix units";
  expect_tested<PlanOptions>(
      "matrix", {"lane", "tile", "matrix2"},
      [&](const Runtime& on, const PlanOptions& options) { return on.make_plan(desc, options); });
}

TEST_F(SelfTestTest, OfProductsOnMatrixUnitsIsTested) {
  const MatmulDesc desc = product(20, 30, 40, DataType::kFloat16);
  if (!takes(desc, "matrix")) GTEST_SKIP() << "the device runs no products on matrix units";
  expect_tested<PlanOptions>("matrix", {"lane", "tile"}, [&](const Runtime& on, const PlanOptions& options) {
    return on.make_plan(desc, options);
  });
}

MultiHeadAttentionDesc small_layer() {
  MultiHeadAttentionDesc desc;
  desc.attention.query_heads = 2;
  desc.attention.query_length = 6;
  desc.d_model = 32;
  desc.type = DataType::kFloat16;
  desc.saves_for_gradients = true;
  return desc;
}

TEST_F(SelfTestTest, OfStepsOfALayerIsTested) {
  if (!takes(gradients_of("h2 6x6 d16 f16"), "matrix")) GTEST_SKIP() << "the device has no matrix units";
  MultiHeadAttentionOptions options;
  options.attention.kernel = options.matmul.kernel = options.backward.kernel = "matrix";
  MultiHeadAttentionOptions of_gradients = options;
  of_gradients.matmul.kernel.clear();  // no kernel on matrix units computes sums of columns
  int products_on_matrices = 0;
  const auto set_products = [&](const Runtime& on) {
    of_gradients.make_matmul = [&](const MatmulDesc& desc, const PlanOptions& how) {
      PlanOptions own = how;
      if (takes(desc, "matrix")) {
        own.kernel = "matrix";
        ++products_on_matrices;
      }
      return on.make_plan(desc, own);
    };
  };
  const MultiHeadAttentionBackwardDesc backward{.forward = small_layer()};
  {
    const Runtime first = fresh_runtime();
    must(first.make_plan(small_layer(), options));
    set_products(first);
    must(first.make_plan(backward, of_gradients));
    const std::string text = read_file(outcomes());
    for (const char* const kind : {"passed matrix, ", "passed matmul matrix, ", "passed backward matrix, "}) {
      EXPECT_TRUE(has(text, kind)) << text;
    }
    EXPECT_GE(products_on_matrices, 4) << "inputs and weights, of packed inputs and of the output";
  }
  fail_all();
  const Runtime later = fresh_runtime();
  set_products(later);
  for (const char* const kernel : {"matrix", "lane"}) {
    of_gradients.backward.kernel = kernel;
    EXPECT_TRUE(is_refused(later.make_plan(backward, of_gradients), ErrorCode::kUnsupported,
                           {"matrix", "self-test"}));
  }
  options.attention.kernel.clear();
  EXPECT_TRUE(
      is_refused(later.make_plan(small_layer(), options), ErrorCode::kUnsupported, {"matrix", "self-test"}));
  EXPECT_TRUE(later.make_plan(small_layer()).ok()) << "others are there";
}

/// Programs with a device of their own test the steps of a layer where they make them.
TEST_F(SelfTestTest, LayersTakeTheirPlansFromTheCaller) {
  int attentions = 0, products = 0, gradients = 0;
  const Device& device = runtime().device();
  MultiHeadAttentionOptions options;
  options.make_attention = [&](const AttentionDesc& desc, const PlanOptions& how) {
    ++attentions;
    return AttentionPlan::create(device, desc, how);
  };
  options.make_matmul = [&](const MatmulDesc& desc, const PlanOptions& how) {
    ++products;
    return MatmulPlan::create(device, desc, how);
  };
  options.make_backward = [&](const BackwardDesc& desc, const PlanOptions& how) -> Result<BackwardPlan> {
    ++gradients;
    if (how.kernel == "lane") return BackwardPlan::create(device, desc, how);
    return Error{ErrorCode::kUnsupported, VK_SUCCESS, "of no use"};
  };
  options.backward.kernel = "lane";
  must(MultiHeadAttentionPlan::create(device, small_layer(), options));
  EXPECT_EQ(attentions, 1);
  EXPECT_EQ(products, 2) << "packed inputs, and the output";

  must(MultiHeadAttentionBackwardPlan::create(device, {.forward = small_layer()}, options));
  EXPECT_EQ(gradients, 1);
  options.backward.kernel.clear();
  const auto refused = MultiHeadAttentionBackwardPlan::create(device, {.forward = small_layer()}, options);
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().message, "gradients of attention: of no use");
}

/// Such plans would bind a layer's tensors to other shapes, or give handles of one device to another.
TEST_F(SelfTestTest, LayersRefusePlansOfOtherProblemsAndDevices) {
  const Device& device = runtime().device();
  const auto forward = [&](const MultiHeadAttentionOptions& options, const char* name, const char* what) {
    EXPECT_TRUE(is_refused(MultiHeadAttentionPlan::create(device, small_layer(), options),
                           ErrorCode::kInvalidArgument, {name, what}));
  };
  const auto backward = [&](const MultiHeadAttentionOptions& options, const char* what) {
    EXPECT_TRUE(
        is_refused(MultiHeadAttentionBackwardPlan::create(device, {.forward = small_layer()}, options),
                   ErrorCode::kInvalidArgument, {"make_backward", what}));
  };
  RuntimeOptions again{.device = capabilities().device_name, .pipeline_cache = false};
  const Runtime other = Runtime::create(again).value();
  const auto with = [&](const Device& on, bool changes) {
    MultiHeadAttentionOptions attention, products, gradients;
    attention.make_attention = [&on, changes](AttentionDesc desc, const PlanOptions& how) {
      if (changes) desc.softcap = 5;
      return AttentionPlan::create(on, desc, how);
    };
    products.make_matmul = [&on, changes](MatmulDesc desc, const PlanOptions& how) {
      if (changes) desc.has_bias = !desc.has_bias;
      return MatmulPlan::create(on, desc, how);
    };
    gradients.make_backward = [&on, changes](BackwardDesc desc, const PlanOptions& how) {
      if (changes) desc.has_grad_query = !desc.has_grad_query;
      return BackwardPlan::create(on, desc, how);
    };
    for (MultiHeadAttentionOptions* const each : {&attention, &products, &gradients})
      each->deferred_compilation = true;
    const char* const what = changes ? "another problem" : "another VkDevice";
    forward(attention, "make_attention", what);
    forward(products, "make_matmul", what);
    backward(gradients, what);
  };
  with(other.device(), false);
  with(device, true);
}

}  // namespace
}  // namespace vkattn::tests
