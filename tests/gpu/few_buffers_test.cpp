// Devices that have the four storage buffers that Vulkan guarantees, and no more: every feature runs, alone
// and with others, and gives what it gives elsewhere. unit/storage_buffers_test.cpp has the numbers of all
// plans.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "gpu/any_kernel.hpp"
#include "support/feature_problems.hpp"

namespace vkattn::tests {
namespace {

class FewBuffers : public AnyKernelTest {
 protected:
  /// Options of the kernel on the device as if it had so few. A plan that binds more than that is an error.
  [[nodiscard]] static RunOptions options_of(std::uint32_t buffers) {
    RunOptions options = seen_as(kernel(), [&](Capabilities& c) { c.max_stage_storage_buffers = buffers; });
    options.inspect = [=](const AttentionPlan& plan) {
      EXPECT_LE(plan.requirements().storage_buffers, buffers);
    };
    return options;
  }
  [[nodiscard]] static RunOptions of_four() { return options_of(4); }
  [[nodiscard]] static std::string sized(std::string_view words) {
    return with_sizes(words, kernel() == "decode" ? kFewLengths : kManyLengths,
                      is_on_matrix_units() ? "b2 hq4 hkv2 d24 dv16" : "b2 hq4 hkv2 d20 dv12") +
           (is_on_matrix_units() ? " f16" : "");
  }
};
INSTANTIATE_TEST_SUITE_P(Kernels, FewBuffers, testing::ValuesIn(kEveryKernelName), kernel_test_name);

TEST_P(FewBuffers, EachFeatureAlone) {
  std::vector<std::string> words{"",         "lse",        "kv_lengths=100,41 lse", "page=16",
                                 "ring=120", "cache=e4m3", "weights=probabilities", "weights=scores"};
  if (!is_on_matrix_units()) words.emplace_back("f16 lse");
  if (kernel() != "matrix2") words.insert(words.end(), {"cache=q8_0", "cache=q4_0 lse"});
  for (const FeatureProblem& row : kSingleFeatures) words.emplace_back(row.words);
  for (const std::string& each : part_of<std::string>(words)) {
    const bool needs_whole_blocks = each.find("cache=q") != each.npos;
    const std::string text = needs_whole_blocks ? typed("b2 hq4 hkv2 3x129 d32 " + each) : sized(each);
    EXPECT_TRUE(runs_right(runtime(), text, of_four()));
  }
}

TEST_P(FewBuffers, SeveralFeatures) {
  for (const FeatureProblem& row : part_of<FeatureProblem>(kFeatureProblems)) {
    const bool has_both = std::string_view(row.words).find("weights=probabilities lse") != std::string::npos;
    EXPECT_TRUE(runs_right(runtime(), sized(row.words), options_of(has_both ? 5 : 4)));
  }
}

/// Tensors that begin inside of a word, or between the alignments of descriptors.
TEST_P(FewBuffers, TensorsAtOddPlaces) {
  for (const char* const words : part_of({"shift=3 mask=f32:bhqk hidden=0.4 kv_lengths=100,129",
                                          "shift=1 mask=f16:bhqk hidden=0.4 kv_lengths=120,77 sinks lse",
                                          "shift=3 mask=bytes:hqk hidden=0.4 alibi=given query_lengths=Q,A"}))
    EXPECT_TRUE(runs_right(runtime(), sized(words), of_four()));
}

/// A fifth buffer is the mask's, which is then not copied.
TEST_P(FewBuffers, AFifthIsTheMasks) {
  const std::string text = sized("mask=f32:bhqk hidden=0.3 kv_lengths=100,129 lse");
  const auto workspace = [&](std::uint32_t buffers) {
    VkDeviceSize bytes = 0;
    RunOptions options = options_of(buffers);
    options.inspect = [&](const AttentionPlan& plan) { bytes = plan.workspace_bytes(); };
    EXPECT_TRUE(runs_right(runtime(), text, options));
    return bytes;
  };
  const VkDeviceSize mask = 4 * 2 * 4 * (kernel() == "decode" ? 3 : 70) * 129;
  EXPECT_GE(workspace(4), workspace(5) + mask);
}

TEST_P(FewBuffers, PartsOfTheKeys) {
  RunOptions options = of_four();
  options.kv_splits = 3;
  run_part({"b2 h2 9x700 d32", "h2 9x700 d32 lse sinks kv_lengths=500", "h2 9x700 d32 mask=bits hidden=0.5"},
           options);
}

/// Windows have buffers of their own, those of further keys the buffer of the first ones.
TEST_P(FewBuffers, Windows) {
  RunOptions options = seen_as(kernel(), [](Capabilities& c) {
    c.max_stage_storage_buffers = 4;
    c.max_storage_buffer_range = 24 * 1024;
  });
  options.inspect = [](const AttentionPlan& plan) {
    EXPECT_EQ(plan.requirements().storage_buffers, 4U);
    EXPECT_GT(plan.dispatches().size(), 3U);
  };
  run_part({"b3 hq4 hkv2 33x65 d32 lse mask=f32:bhqk hidden=0.3 kv_lengths=65,0,20",
            "b2 hq4 hkv2 9x400 d32 alibi=given sinks lse causal align=bottom-right kv_lengths=400,130 "
            "mask=f32:bhqk hidden=0.3"},
           options);
}

/// All heads have one mask, so a window of fewer heads copies as much of it, and only fewer rows make the
/// buffer fit.
TEST_P(FewBuffers, WindowsOfFewerRowsHoldLessOfTheMask) {
  RunOptions options = seen_as(kernel(), [](Capabilities& c) {
    c.max_stage_storage_buffers = 4;
    c.max_storage_buffer_range = 4608;
  });
  options.inspect = [](const AttentionPlan& plan) {
    EXPECT_EQ(plan.requirements().storage_buffers, 4U);
    EXPECT_GT(plan.dispatches().size(), 3U);
  };
  run_part({"b2 hq4 hkv1 4x260 d8 f16 mask=f32:qk hidden=0.3 lse"}, options);
}

TEST_P(FewBuffers, SlicesAndPushDescriptors) {
  const Problem problem = parsed(typed("b2 h4 40x96 d32 lse causal dropout=0.2 kv_lengths=96,50"));
  for (const bool push : {false, true}) {
    if (push && !capabilities().push_descriptors) continue;
    const Device device = device_with([](Capabilities& c) { c.max_stage_storage_buffers = 4; });
    PlanOptions options{.kernel = kernel(), .max_dispatch_ns = 1, .push_descriptors = push};
    const auto plan = must(AttentionPlan::create(device, problem.desc, options));
    harness::ProblemRun run = ready_run(problem);
    run.set_probability_type(plan.probability_type());
    const Buffer workspace = must(runtime().create_workspace(plan));
    std::optional<Bindings> bindings;
    if (!push) bindings.emplace(must(plan.make_bindings(run.tensors(), workspace.range())));
    const auto count = static_cast<std::uint32_t>(plan.dispatches().size());
    const std::uint32_t step = count / 5 + 1;
    for (std::uint32_t first = 0; first < count; first += step) {
      must(runtime().execute([&](VkCommandBuffer commands) {
        const RecordOptions slice{.first_dispatch = first, .dispatch_count = step};
        if (push) return must(plan.record(commands, run.tensors(), workspace.range(), slice));
        plan.record(commands, *bindings, slice);
      }));
    }
    GpuTest::expect_right(run);
  }
}

TEST_P(FewBuffers, TheSameBitsEachTime) {
  const std::string text = sized("mask=f16:bhqk hidden=0.4 alibi=given sinks kv_lengths=120,77 lse");
  const Problem problem = parsed(text);
  const Device device = device_with([](Capabilities& c) { c.max_stage_storage_buffers = 4; });
  const auto plan = must(AttentionPlan::create(device, problem.desc, {.kernel = kernel()}));
  Bound it = bound(plan, problem);
  std::vector<std::byte> first;
  for (int i = 0; i < 3; ++i) {
    must(runtime().execute(plan, it.bindings));
    const std::vector<std::byte> got = read_back(runtime(), it.run.output());
    EXPECT_TRUE(first.empty() || got == first) << "run " << i;
    first = got;
  }
}

}  // namespace
}  // namespace vkattn::tests
