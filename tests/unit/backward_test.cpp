// The descriptor of a backward pass, and the reference's gradients compared with central differences.
#include <vkattn/backward.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstring>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "backward/backward_kernel.hpp"
#include "backward/backward_layout.hpp"
#include "backward/gradient_table.hpp"
#include "backward/scale_parts.hpp"
#include "harness/tensor_memory.hpp"
#include "reference/gradients.hpp"
#include "support/host_problem.hpp"
#include "support/must.hpp"
#include "support/problem_text.hpp"
#include "support/rule.hpp"
#include "support/text.hpp"
#include "unit/central_difference.hpp"
#include "unit/made_up_device.hpp"
#include "vkattn_core_shaders.hpp"
#include "vulkan/shader_code.hpp"

namespace vkattn::tests {
namespace {

std::string refusal(const BackwardDesc& desc) {
  return message_of(validate(desc));
}

void repeat_keys_of_heads(BackwardDesc& desc) {
  desc.attention.key.strides = Strides{0, 0, 8, 1};
}

TEST(BackwardDesc, GradientsAreStoredAsTheirTensors) {
  BackwardDesc desc = backward_of("8x9 d4 dv6 hq2 f16 output=f32");
  EXPECT_EQ(refusal(desc), "");
  const BackwardDesc full = desc.resolved();
  EXPECT_EQ(*full.grad_query, full.attention.query);
  EXPECT_EQ(*full.grad_value, full.attention.value);
  EXPECT_EQ(full.grad_output->type, DataType::kFloat32);
  desc.grad_key = TensorDesc{DataType::kFloat32};
  EXPECT_EQ(desc.resolved().grad_key->strides, full.attention.key.strides);
}

/// If a driver ends loops early, keys come in chunks that are short enough.
TEST(BackwardLayouts, ChunksKeepWithinALoopLimit) {
  const Capabilities cpu = changed(made_up_gpu(), [](Capabilities& c) { c.device_type = DeviceType::kCpu; });
  const Capabilities limited = changed(cpu, [](Capabilities& c) { c.max_loop_iterations = 65535; });
  for (const char* problem :
       {"h2 1000x1000 d128 dropout=0.1", "h8 128x2048 d64 dropout=0.1", "h4 256x2048 d192"}) {
    SCOPED_TRACE(problem);
    const BackwardDesc desc = backward_of(problem).resolved();
    const auto kernel = must(detail::select_backward_kernel(desc, cpu, {.kernel = "lane"}));
    const auto iterations = [&](const Capabilities& device, const PlanOptions& options) {
      const auto layout = detail::lay_out_backward(desc, device, kernel.config, options);
      return layout.ok() ? detail::iterations_over_chunk(desc.attention, layout->chunk_keys) : -1;
    };
    EXPECT_GE(iterations(cpu, {}), 65535);
    EXPECT_LT(iterations(limited, {}), 65535);
    EXPECT_GT(iterations(limited, {}), 65535 / 3) << "no shorter than needed";
    PlanOptions asked;
    asked.chunk_keys = 2048;
    EXPECT_GE(iterations(limited, asked), 65535) << "what is asked for stays, and is refused";
  }
}

/// The scales of every head_dim cost nothing in the products. Other scales are split into two parts of
/// similar size.
TEST(BackwardLayouts, PartsOfTheScale) {
  const auto parts = [](float scale) {
    const detail::ScaleParts p = detail::scale_parts(scale);
    return std::array{p.pair, p.operand, p.sum, static_cast<float>(p.scaled_factors())};
  };
  using Parts = std::array<float, 4>;
  for (const float scale : {0.0F, 1.0F, -1.0F, 0.125F, 1 / std::sqrt(576.0F)}) {
    EXPECT_EQ(parts(scale), (Parts{1, 1, scale, 0})) << scale;
  }
  EXPECT_EQ(parts(100), (Parts{100, 1, 1, 1}));
  EXPECT_EQ(parts(-0x1p-20F), (Parts{0x1p-10F, 1, -0x1p-10F, 1}));
  EXPECT_EQ(parts(-0x1.8p100F), (Parts{0x1p50F, -0x1.8p50F, 1, 2}));
  EXPECT_EQ(parts(0x1.8p-125F), (Parts{0x1p-63F, 1, 0x1.8p-62F, 1}));
}

/// The gradient of a mask is that of the score. Pairs hold it in addition to their own gradient if a part of
/// the scale multiplies the latter.
TEST(BackwardLayouts, KeepsScoreGradientsBesideScaledOnes) {
  const auto keeps = [](const char* words) {
    BackwardDesc desc = backward_of(std::string("8x8 d4 ") + words);
    desc.has_grad_mask = desc.attention.mask.type != MaskType::kNone;
    const Capabilities gpu = made_up_gpu();
    const auto kernel = must(detail::select_backward_kernel(desc.resolved(), gpu, {.kernel = "tile"}));
    return must(detail::lay_out_backward(desc.resolved(), gpu, kernel.config, {})).keeps_score_gradients;
  };
  EXPECT_FALSE(keeps("scale=100"));
  EXPECT_FALSE(keeps("mask=f32:qk"));
  EXPECT_TRUE(keeps("mask=f32:qk scale=100"));
  EXPECT_TRUE(keeps("mask=f32:qk softcap=2"));
}

/// What a CPU's compiler takes grows with a step's rows and keys, most of all where dims are loaded one by
/// one: 5 to 13 s of LLVM 15 for steps of 16 and masked ones beside them, which few pairs need not.
TEST(BackwardKernels, StepsOfFewPairsOfOddDimsAreShortOnCpus) {
  const Capabilities cpu = changed(made_up_gpu(), [](Capabilities& c) { c.device_type = DeviceType::kCpu; });
  const auto summary = [&](const char* problem) {
    return must(detail::select_backward_kernel(backward_of(problem).resolved(), cpu, {.kernel = "lane"}))
        .config.summary;
  };
  for (const char* problem :
       {"16x16 d25", "h2 33x40 d25 f16 causal", "h2 64x64 d24 dv5", "127x128 d24 dv5"}) {
    EXPECT_TRUE(has(summary(problem), " 4 keys or 4 rows a step")) << problem << ": " << summary(problem);
  }
  for (const char* problem : {"64x64 d24 dv8", "128x128 d25"}) {
    EXPECT_TRUE(has(summary(problem), " 16 keys or 32 rows a step")) << problem << ": " << summary(problem);
  }
}

TEST(BackwardKernels, ARefusedKernelIsPassedOver) {
  const BackwardDesc desc = backward_of("64x64 d64").resolved();
  PlanOptions options;
  options.refusals = {{"tile", "was wrong"}};
  EXPECT_EQ(must(detail::select_backward_kernel(desc, made_up_gpu(), options)).config.name, "lane");
  options.kernel = "tile";
  EXPECT_TRUE(
      message_of(detail::select_backward_kernel(desc, made_up_gpu(), options)).ends_with("tile: was wrong"));
}

/// A mask without a gradient is no reason against it.
TEST(BackwardKernels, Matrix2NamesGradientsThatTensorAddressingCannotExpress) {
  EXPECT_TRUE(detail::configure_matrix2_backward(backward_of("64x64 d64 f16 mask=f16:qk").resolved(),
                                                 with_workgroup_scope())
                  .ok());
  BackwardDesc repeated = backward_of("64x64 d64 f16");
  repeated.grad_output = TensorDesc{DataType::kFloat16, Strides{64, 64, 0, 1}, 16};
  EXPECT_TRUE(has(message_of(detail::configure_matrix2_backward(repeated.resolved(), with_workgroup_scope())),
                  "rows of dO that are dense, start at multiples of 16 bytes and are at "
                  "least 64 elements apart"));
}

/// No GPU has measured the staged form: tuning tries it, and PlanOptions::tile asks for it.
TEST(BackwardKernels, StagedBlocksOfMatrix2AreNoDefault) {
  if (!detail::built_shader(detail::shader_binaries(), "backward_matrix2_keys_staged"))
    GTEST_SKIP() << "this build's compiler does not know GL_NV_cooperative_matrix2";
  const Capabilities device = changed(with_workgroup_scope(), [](auto& c) { c.subgroup_vote = true; });
  const auto staged = [&](const char* problem, const TileSizes& tile, const char* kernel = "matrix2") {
    return detail::select_backward_kernel(backward_of(problem).resolved(), device,
                                          {.kernel = kernel, .tile = tile});
  };
  const auto by_default = must(detail::select_backward_kernel(backward_of("64x64 d128 f16").resolved(),
                                                              device, {.kernel = "matrix2"}))
                              .config;
  EXPECT_EQ(by_default.tile, TileSizes{});
  EXPECT_FALSE(has(std::string(by_default.keys.shader), "_staged"));
  constexpr TileSizes k16Rows{.subgroups = 4, .rows = 16, .keys = 32};
  const auto kernel = must(staged("64x64 d128 f16", k16Rows)).config;
  EXPECT_EQ(kernel.tile, k16Rows);
  EXPECT_EQ(kernel.row_tile, 64U);
  EXPECT_EQ(kernel.key_tile, 64U);
  EXPECT_TRUE(has(kernel.summary,
                  "64 rows x 32 keys over 4 subgroups of 32, 17424 bytes of shared memory; 64 keys x 16 rows "
                  "over 4 subgroups of 32, V in shared memory, 26112 bytes of shared memory"))
      << kernel.summary;
  const auto refusal = [&](const TileSizes& tile, const char* name = "matrix2") {
    return message_of(staged("64x64 d128 f16", tile, name));
  };
  EXPECT_TRUE(has(refusal({.subgroups = 4, .rows = 32, .keys = 32}),
                  "holds 256 registers of an invocation with 32 rows a step; there are 255"));
  EXPECT_TRUE(
      has(refusal({.subgroups = 4, .rows = 24, .keys = 32}), "stages no 24 rows a step for 4 subgroups"));
  EXPECT_TRUE(
      has(refusal({.subgroups = 8, .rows = 16, .keys = 32}), "stages no 32 keys a step for 8 subgroups"));
  EXPECT_TRUE(has(refusal({.subgroups = 4, .rows = 0, .keys = 32}), "stages no 0 rows a step"));
  for (const std::uint32_t many : {65U, 1U << 27U, 1U << 28U, 1U << 29U, (1U << 29U) + 1, ~0U}) {
    EXPECT_TRUE(has(refusal({.subgroups = many, .rows = 16, .keys = 32}), "takes up to 64 subgroups"))
        << many;
    EXPECT_TRUE(has(refusal({.subgroups = 4, .rows = many, .keys = 32}), "takes up to 64 subgroups")) << many;
    EXPECT_TRUE(has(refusal({.subgroups = 4, .rows = 16, .keys = many}), "takes up to 64 subgroups")) << many;
  }
  EXPECT_TRUE(has(refusal({.threads = 128, .rows = 16, .keys = 32}), "subgroups, rows and keys"));
  EXPECT_TRUE(has(refusal(k16Rows, "tile"), "has block sizes of its own for gradients"));
  EXPECT_TRUE(has(message_of(staged("64x64 d64 bf16", k16Rows)), "takes float16 alone in its staged form"));

  for (const auto& [problem, forms] : {std::pair{"64x64 d64 f16", 4}, {"64x64 d128 f16", 1}}) {
    const auto candidates = tuning_candidates(backward_of(problem), device);
    EXPECT_EQ(candidates.front(), (KernelTile{"matrix2", {}})) << problem;
    EXPECT_EQ(std::ranges::count_if(candidates, [](const KernelTile& c) { return c.tile.subgroups == 4; }),
              forms)
        << problem;
  }
}

/// A kernel that stores no pairs needs no chunks, and a workspace of two numbers for each row. By request it
/// keeps gradients of scores in chunks, if its pass over keys has more to do than that.
TEST(BackwardLayouts, Matrix2KeepsTwoNumbersOfEachRow) {
  BackwardDesc desc = backward_of("b2 hq4 hkv2 1000x3000 d64 f16 output=f32").resolved();
  desc.grad_output = TensorDesc{DataType::kFloat16, desc.attention.query.strides, 16};
  desc.grad_query = TensorDesc{DataType::kFloat32, desc.attention.query.strides, 16};
  const auto kernel = must(detail::configure_matrix2_backward(desc, with_workgroup_scope()));
  const auto layout_of = [&](std::uint32_t chunk_keys) {
    PlanOptions asked;
    asked.chunk_keys = chunk_keys;
    return must(detail::lay_out_backward(desc, made_up_gpu(), kernel, asked));
  };
  constexpr std::uint64_t kRows = 2 * 4 * 1000;
  EXPECT_EQ(layout_of(0).chunks, 1U);
  EXPECT_EQ(layout_of(0).chunk_keys, 3008U);
  EXPECT_EQ(layout_of(0).workspace_bytes, 8 * kRows);
  EXPECT_EQ(layout_of(128).chunks, 24U);
  EXPECT_EQ(layout_of(128).chunk_keys, 128U);
  EXPECT_EQ(layout_of(128).workspace_bytes, 8 * kRows + 4 * kRows * 128);
  desc.has_grad_key = desc.has_grad_value = false;
  EXPECT_EQ(layout_of(128).workspace_bytes, 8 * kRows);
}

/// On CPUs, where rows of gradients share sets of a cache: here those of Q and K (16 heads of 128), not those
/// of V.
TEST(BackwardLayouts, SumsLieApartFromRowsThatShareCacheSets) {
  const BackwardDesc desc = backward_of("h16 64x64 d128 dv20 layout=bshd").resolved();
  const auto sums = [&](const Capabilities& device) {
    PlanOptions lane;
    lane.kernel = "lane";
    const auto kernel = must(detail::select_backward_kernel(desc, device, lane)).config;
    return must(detail::lay_out_backward(desc, device, kernel, {})).sums.bytes;
  };
  EXPECT_EQ(sums(made_up_gpu()), 0U);
  Capabilities cpu = small_device(DeviceType::kCpu);
  EXPECT_EQ(sums(cpu), 4U * 2 * 16 * 64 * 128);
  cpu.max_storage_buffer_range = 4U * 2 * 16 * 64 * 128 - 1;
  EXPECT_EQ(sums(cpu), 0U) << "without room they live in the gradients";
}

TEST(BackwardDesc, TheGradientOfAMaskHasItsHeads) {
  BackwardDesc desc = backward_of("h6 5x7 d8 mask=f32:h3qk");
  desc.has_grad_mask = true;
  const auto bytes = [&] {
    EXPECT_TRUE(validate(desc).ok());
    return detail::row_of(&BackwardTensors::grad_mask).bytes(desc.resolved());
  };
  EXPECT_EQ(bytes(), 3U * 5 * 7 * 4);
  desc.attention.mask = {MaskType::kFloat32, {}, 1};
  EXPECT_EQ(bytes(), 5U * 7 * 4);
  desc.grad_mask = TensorDesc{DataType::kFloat32, Strides{35, 35, 7, 1}};
  EXPECT_EQ(bytes(), 5U * 7 * 4) << "one head, whatever its stride";
  desc.attention.mask.heads = 2;
  EXPECT_EQ(bytes(), 2U * 5 * 7 * 4);
}

/// A changed problem, and the words that refuse it.
TEST(BackwardDesc, WhatHasNoGradientsIsRefusedByName) {
  struct Case {
    const char *problem, *words;
    void (*change)(BackwardDesc&) = [](BackwardDesc&) {};
  };
  for (const Case& c :
       {Case{"8x32 d32 key=q8_0", "type of key is q8_0"},
        {"8x32 d32 value=q4_0", "type of value is q4_0"},
        {"8x32 d32 page=16", "pages"},
        {"8x32 d32 ring=16", "ring"},
        {"8x8 d8", "has_lse", [](auto& d) { d.attention.has_lse = false; }},
        {"8x8 d8", "has_lse", [](auto& d) { d.has_grad_lse = true, d.attention.has_lse = false; }},
        {"8x8 d8", "no gradient",
         [](auto& d) {
           d.has_grad_query = d.has_grad_key = d.has_grad_value = false;
           d.has_grad_lse = true;
         }},
        {"8x8 d8", "not there", [](auto& d) { d.has_grad_mask = true; }},
        {"8x8 d8 mask=bits", "boolean", [](auto& d) { d.has_grad_mask = true; }},
        {"8x8 d8 alibi", "kGiven or kTimesMask", [](auto& d) { d.has_grad_alibi_slopes = true; }},
        {"8x8 d8", "has_sinks", [](auto& d) { d.has_grad_sinks = true; }},
        {"8x8 d8 hq2", "grad_query", [](auto& d) { d.grad_query = TensorDesc{DataType::kQ8_0}; }},
        {"8x8 d8 hq2", "elements of grad_key overlap", repeat_keys_of_heads},
        {"8x8 d8 hq2", "head_dim", [](auto& d) { d.attention.head_dim = 0; }}}) {
    BackwardDesc desc = backward_of(c.problem);
    c.change(desc);
    EXPECT_TRUE(has(refusal(desc), c.words)) << c.problem;
    expect_refused_in_c(desc, validate(desc).error());
  }
  BackwardDesc desc = backward_of("8x8 d8 hq2");
  repeat_keys_of_heads(desc);
  desc.grad_key = TensorDesc{DataType::kFloat32, Strides{128, 64, 8, 1}};
  EXPECT_EQ(refusal(desc), "") << "a gradient need not repeat what its tensor repeats";
}

/// The gradient of the lse lies as the lse does.
TEST(BackwardDesc, TheGradientOfTheLseHasItsStrides) {
  const detail::GradientRow& row = detail::row_of(&BackwardTensors::grad_lse);
  BackwardDesc desc = backward_of("b2 hq4 hkv2 5x7 d8");
  EXPECT_EQ(row.bytes(desc.resolved()), 0U);
  desc.has_grad_lse = true;
  EXPECT_EQ(row.bytes(desc.resolved()), 4U * 2 * 4 * 5);
  desc.attention.lse_strides = Strides{1, 2, 8, 1};
  EXPECT_EQ(refusal(desc), "");
  EXPECT_EQ(*row.storage(desc.resolved()).strides, (Strides{1, 2, 8, 1}));
}

/// A problem of float32 tensors with a gradient of its output, and of its lse if it has one. The loss, which
/// all gradients belong to, is the sum of the products of output and lse and those gradients.
class Differences {
 public:
  explicit Differences(std::string_view words)
      : host(std::string("7x9 b2 hq4 hkv2 d5 dv3 ") + std::string(words)) {
    const AttentionDesc& desc = host.problem.desc;
    inputs.grad_output_desc = desc.output;
    inputs.grad_mask = *desc.resolved().mask.strides;
    grad_output = waves(*harness::output_shape(desc).bytes(), 1.7);
    if (desc.has_lse) grad_lse = waves(*harness::lse_shape(desc).bytes(), 2.3);
  }

  [[nodiscard]] reference::Gradients gradients() {
    inputs.forward = host.inputs();
    inputs.grad_output = HostInput(grad_output);
    inputs.grad_lse = HostInput(grad_lse);
    return reference::compute_gradients(host.problem.desc.resolved(), inputs);
  }

  [[nodiscard]] double loss() const {
    const AttentionDesc desc = host.problem.desc.resolved();
    const Strides& s = *desc.output.strides;
    double sum = 0;
    for_each_row(host, [&](std::int64_t b, std::int64_t h, std::int64_t i) {
      const reference::Row row = host.row(b, h, i);
      const reference::RowIndex at = reference::stored_row(desc, host.inputs(), {b, h, i});
      for (std::int64_t d = 0; d < desc.value_dim; ++d) {
        const std::int64_t element = at.batch * s.batch + at.head * s.head + at.query * s.row + d * s.dim;
        sum += row.output[static_cast<std::size_t>(d)] *
               static_cast<double>(grad_output[static_cast<std::size_t>(element)]);
      }
      const Strides& l = *desc.lse_strides;
      const std::int64_t number = at.batch * l.batch + at.head * l.head + at.query * l.row;
      if (desc.has_lse && std::isfinite(row.lse))
        sum += row.lse * static_cast<double>(grad_lse[static_cast<std::size_t>(number)]);
    });
    return sum;
  }

  /// Compares the gradient at every third element of a tensor, whose memory is `bytes`.
  void expect(const char* name, std::vector<std::byte>& bytes, const TensorDesc& storage,
              const reference::Gradient& gradient) const {
    SCOPED_TRACE(name);
    std::vector<std::size_t> places;  // the places of the elements, in the order of their addresses
    std::vector<double> expected;
    std::size_t count = 0;
    const harness::TensorShape shape = harness::shape_of(storage, gradient.extents);
    harness::AddressOrder(shape).for_each([&](std::int64_t offset, const harness::Position& p) {
      if (count++ % 3 != 0) return;
      places.push_back(static_cast<std::size_t>(offset));
      expected.push_back(gradient.values[gradient.index(p.batch, p.head, p.row, p.dim)]);
    });
    const std::vector<float> all = numbers<float>(bytes);
    std::vector<float> some;
    for (const std::size_t place : places) some.push_back(all[place]);
    expect_gradient(some, expected, [&] {
      for (std::size_t i = 0; i < some.size(); ++i) put(bytes, places[i], some[i]);
      return loss();
    });
    put(bytes, all);
  }

  HostProblem host;
  std::vector<float> grad_output, grad_lse;
  reference::BackwardInputs inputs;

 private:
  static std::vector<float> waves(std::int64_t bytes, double step) {
    std::vector<float> numbers(static_cast<std::size_t>(bytes) / 4);
    for (std::size_t i = 0; i < numbers.size(); ++i) {
      numbers[i] = static_cast<float>(std::sin(static_cast<double>(i) * step + 0.3));
    }
    return numbers;
  }
};

class GradientReference : public testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(
    Features, GradientReference,
    testing::Values("", "causal", "causal align=bottom-right", "window=2,1 align=1", "kv_lengths=9,4",
                    "query_lengths=3,7", "sequences query_lengths=3,5 kv_lengths=9,4",
                    "mask=f32:bhqk hidden=0.2", "mask=f32:hk", "mask=bits:bhqk hidden=0.4", "softcap=1.5",
                    "alibi=given", "sinks", "dropout=0.4", "mask=f32:bh2qk hidden=0.2", "mask=f32:h2k",
                    "mask=f32:hqk hidden=0.2 alibi=times-mask", "mask=f32:bh2k alibi=times-mask softcap=2",
                    "softcap=2 mask=f32:q alibi=given sinks dropout=0.3 causal align=2",
                    // The lse is before dropout. In rows that see no key it is the sink, or no number.
                    "lse", "lse dropout=0.4", "lse causal align=-3", "lse causal align=-3 sinks",
                    "lse sequences query_lengths=3,5 kv_lengths=9,4",
                    "lse softcap=2 mask=f32:q alibi=given sinks dropout=0.3 causal align=2"));

TEST_P(GradientReference, IsTheCentralDifference) {
  Differences differences(GetParam());
  const AttentionDesc desc = differences.host.problem.desc.resolved();
  HostProblem& host = differences.host;
  const reference::Gradients gradients = differences.gradients();
  differences.expect("query", host.query, desc.query, gradients.query);
  differences.expect("key", host.key, desc.key, gradients.key);
  differences.expect("value", host.value, desc.value, gradients.value);
  if (desc.mask.type == MaskType::kFloat32) {
    differences.expect("mask", host.mask, {DataType::kFloat32, desc.mask.strides, 0}, gradients.mask);
  }
  auto& per_head = host.small.per_head;
  const auto loss = [&] { return differences.loss(); };
  if (has_given_slopes(desc.alibi)) {
    expect_gradient(per_head[&AttentionTensors::alibi_slopes], gradients.alibi_slopes.values, loss);
  }
  if (desc.has_sinks) expect_gradient(per_head[&AttentionTensors::sinks], gradients.sinks.values, loss);
}

}  // namespace
}  // namespace vkattn::tests
