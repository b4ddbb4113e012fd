// The workgroup that finishes the last part of a tile's keys combines the parts, in the kernel's own
// dispatch.
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "gpu/gpu_family.hpp"
#include "gpu/support.hpp"

namespace vkattn::tests {
namespace {

class LastPart : public GpuTest {
 protected:
  [[nodiscard]] std::string reason_to_skip() const override {
    const Capabilities& c = capabilities();
    if (!c.vulkan_memory_model_device_scope || !c.mapped_device_memory)
      return "the device combines in a pass";
    return reason_against(runtime(), "decode", "1x64 d64 f16");
  }

  /// A plan that combines in its kernel, or, on a device without that scope, in a pass. With a family as on
  /// such a GPU.
  static AttentionPlan plan_of(const Problem& problem, std::uint32_t parts, bool in_kernel = true,
                               const GpuFamily* family = nullptr) {
    RunOptions options{.kernel = "decode", .kv_splits = parts};
    options.device = device_with([&](Capabilities& c) {
      if (family != nullptr) pretend(c, *family, "decode");
      if (!in_kernel) c.vulkan_memory_model_device_scope = false;
    });
    AttentionPlan plan = must(make_plan(runtime(), problem.desc, options));
    EXPECT_EQ(plan.dispatches().back().pass, in_kernel ? "decode" : "combine") << plan.describe();
    EXPECT_TRUE(has(plan.describe(),
                    in_kernel ? "merged by the last workgroup of each tile" : "merged by the combine pass"));
    return plan;
  }
  /// With a workspace of NaN.
  static Bound poisoned(const AttentionPlan& plan, const Problem& problem) {
    Bound it = bound(plan, problem);
    must(runtime().write(it.workspace, 0, std::vector<std::byte>(it.workspace.size(), std::byte{0xff})));
    return it;
  }
  static std::vector<std::byte> outputs(const harness::ProblemRun& run) {
    std::vector<std::byte> all = read_back(runtime(), run.output());
    const std::vector<std::byte> lse = read_back(runtime(), run.lse());
    all.insert(all.end(), lse.begin(), lse.end());
    return all;
  }
  static std::vector<std::byte> executed(const AttentionPlan& plan, Bound& it) {
    must(it.run.poison_outputs());
    must(runtime().execute(plan, it.bindings));
    return outputs(it.run);
  }
};

constexpr const char* kProblems[] = {
    "b3 hq8 hkv2 1x1500 d64 f16 lse",
    "hq6 hkv2 2x700 d40 dv24 lse causal align=bottom-right",
    "b2 hq16 hkv1 1x900 d128 bf16 lse kv_lengths=900,1",
    "b3 hq5 hkv1 3x1100 d24 f16 lse query_lengths=3,0,2 kv_lengths=1100,4,0",
    "hq4 hkv2 3x1300 d33 dv17 lse mask=bits hidden=0.7 block=100 sinks dropout=0.2",
    "hq8 hkv2 1x2000 d64 cache=q8_0 page=16 lse window=600,20 align=bottom-right",
};

TEST_F(LastPart, GivesTheBitsOfTheCombinePass) {
  for (const char* text : part_of<const char*>(kProblems)) {
    const Problem problem = parsed(text);
    for (const std::uint32_t parts : {2U, 3U, 9U, 14U}) {
      const AttentionPlan plan = plan_of(problem, parts), in_pass = plan_of(problem, parts, false);
      EXPECT_EQ(plan.dispatches().size() + 1, in_pass.dispatches().size());
      Bound one = poisoned(plan, problem), two = poisoned(in_pass, problem);
      EXPECT_EQ(executed(plan, one), executed(in_pass, two)) << text << " in " << parts << " parts";
      expect_right(one.run);
    }
  }
}

/// AMD's and NVIDIA's GPUs have their own numbers of parts in flight, by the rows of a thread: a round that
/// is not full, and several. In small subgroups a lane weighs several vectors of parts.
TEST_F(LastPart, GivesTheBitsOfTheCombinePassInTheRoundsOfFamilies) {
  constexpr const char* kRows[] = {"hq4 hkv4 1x3300 d16 f16 lse", "hq4 hkv2 1x3300 d40 lse sinks",
                                   "hq3 hkv1 1x3300 d24 dv16 lse causal align=bottom-right",
                                   "b2 hq8 hkv2 1x3300 d64 f16 lse kv_lengths=3300,40",
                                   "hq4 hkv1 1x3300 d200 f16 lse"};
  for (const GpuFamily& family : kGpuFamilies) {
    const bool is_own = family.architecture == detail::Architecture::kAmdRdna ||
                        family.architecture == detail::Architecture::kNvidia;
    if (!is_own) continue;
    const Device device = device_with([&](Capabilities& c) { pretend(c, family, "decode"); });
    for (const char* text : part_of<const char*>(kRows)) {
      const Problem problem = parsed(text);
      if (!reason_against(device.capabilities(), "decode", problem.desc, DataType::kFloat32).empty())
        continue;
      for (const std::uint32_t parts : {7U, 16U, 52U}) {
        const AttentionPlan plan = plan_of(problem, parts, true, &family);
        const AttentionPlan in_pass = plan_of(problem, parts, false, &family);
        Bound one = poisoned(plan, problem), two = poisoned(in_pass, problem);
        EXPECT_EQ(executed(plan, one), executed(in_pass, two)) << text << " as on " << family.name;
        expect_right(one.run);
      }
    }
  }
}

TEST_F(LastPart, GivesTheSameBitsOnEachRun) {
  for (const char* text : {"hq32 hkv32 1x1024 d64 lse", "b3 hq8 hkv2 1x1500 d64 f16 lse softcap=20"}) {
    const Problem problem = parsed(text);
    const AttentionPlan plan = plan_of(problem, 5);
    Bound it = poisoned(plan, problem);
    const std::vector<std::byte> first = executed(plan, it);
    expect_right(it.run);
    for (int i = 1; i < kSameBitsRuns; ++i) ASSERT_EQ(executed(plan, it), first) << text << ", run " << i;
  }
}

/// Executions behind one another in flight share bindings; others have their own, and the same or another
/// workspace.
TEST_F(LastPart, ExecutionsInFlightDoNotDisturbEachOther) {
  const Problem problem = parsed("b2 hq8 hkv4 1x1200 d64 lse");
  const AttentionPlan plan = plan_of(problem, 6);
  Bound first = poisoned(plan, problem), second = poisoned(plan, problem);
  const std::vector<std::byte> wanted = executed(plan, first);
  expect_right(first.run);
  harness::ProblemRun third = ready_run(problem);
  const Bindings shared = must(plan.make_bindings(third.tensors(), first.workspace.range()));
  for (int i = 0; i < kSameBitsRuns; ++i) {
    for (harness::ProblemRun* run : {&first.run, &second.run, &third}) must(run->poison_outputs());
    must(runtime().execute([&](VkCommandBuffer commands) {
      for (int again = 0; again < 4; ++again) {
        plan.record(commands, first.bindings, {.wait_for_earlier = true});
        plan.record(commands, second.bindings);  // at the same time, on a workspace of its own
        plan.record(commands, shared, {.wait_for_earlier = true});  // on the first one's
      }
    }));
    for (const harness::ProblemRun* run : {&first.run, &second.run, &third}) EXPECT_EQ(outputs(*run), wanted);
  }
}

/// All parts of a tile are in one dispatch, so slices of an execution, and executions that end early, leave
/// no count behind.
TEST_F(LastPart, FollowsExecutionsInSlices) {
  const Problem problem = parsed("b2 hq4 hkv2 1x1300 d32 mask=bits lse");
  const AttentionPlan plan = plan_of(problem, 5);
  ASSERT_EQ(plan.dispatches().size(), 2U) << "the block mask comes before the kernel";
  Bound it = poisoned(plan, problem);
  const std::vector<std::byte> whole = executed(plan, it);
  expect_right(it.run);
  const auto slice = [&](const RecordOptions& options) {
    must(runtime().execute([&](VkCommandBuffer commands) { plan.record(commands, it.bindings, options); }));
  };
  for (int i = 0; i < kSameBitsRuns; ++i) {
    must(it.run.poison_outputs());
    slice({.dispatch_count = 1});  // given up
    slice({.dispatch_count = 1});
    EXPECT_NE(outputs(it.run), whole);
    slice({.first_dispatch = 1, .dispatch_count = 1});
    EXPECT_EQ(outputs(it.run), whole);
    EXPECT_EQ(executed(plan, it), whole);
  }
  // More dispatches of the kernel: the pass combines.
  RunOptions cut{.kernel = "decode", .max_dispatch_ns = 1, .kv_splits = 5};
  cut.inspect = [](const AttentionPlan& p) {
    EXPECT_EQ(p.dispatches().back().pass, "combine") << p.describe();
  };
  EXPECT_TRUE(runs_right(runtime(), problem, cut));
}

TEST_F(LastPart, CountsAnewAfterARewrite) {
  Problem problem = parsed("hq8 hkv4 1x1200 d64 lse sinks");
  const AttentionPlan plan = plan_of(problem, 4);
  Bound it = poisoned(plan, problem);
  must(runtime().execute(plan, it.bindings));
  problem.seed = 2;
  harness::ProblemRun other = ready_run(problem);
  for (const harness::ProblemRun* run : {&other, &it.run, &other}) {
    must(plan.rewrite(it.bindings, run->tensors(), it.workspace.range()));
    must(runtime().execute(plan, it.bindings));
    expect_right(*run);
  }
}

/// Where the form is impossible, or would take longer, the pass combines.
TEST_F(LastPart, IsAPassElsewhere) {
  struct Case {
    const char* problem;
    std::uint32_t parts;
    void (*change)(Capabilities&);
  };
  constexpr Case kCases[] = {
      {kProblems[0], 4, [](Capabilities& c) { c.vulkan_memory_model_device_scope = false; }},
      {kProblems[0], 4, [](Capabilities& c) { c.vulkan_memory_model = false; }},
      {kProblems[0], 4, [](Capabilities& c) { c.mapped_device_memory = false; }},
      {"1x1500 d64", 4, [](Capabilities& c) { c.max_stage_storage_buffers = 5; }},
      {"b2 hq4 hkv2 1x700 d32 lse", 4, [](Capabilities& c) { c.max_storage_buffer_range = 32 * 1024; }},
      {"hq16 hkv1 1x20000 d16 lse", 300, [](Capabilities&) {}},
  };
  for (const Case& each : part_of<Case>(kCases)) {
    RunOptions options{.kernel = "decode", .device = device_with(each.change), .kv_splits = each.parts};
    options.inspect = [](const AttentionPlan& plan) {
      EXPECT_EQ(plan.dispatches().back().pass, "combine") << plan.describe();
    };
    EXPECT_TRUE(runs_right(runtime(), each.problem, options));
  }
  if (!capabilities().push_descriptors) return;
  const Problem problem = parsed(kProblems[0]);
  const auto pushed = must(AttentionPlan::create(
      runtime().device(), problem.desc, {.kernel = "decode", .kv_splits = 4, .push_descriptors = true}));
  EXPECT_EQ(pushed.dispatches().back().pass, "combine") << "its counts would lie in the workspace";
}

}  // namespace
}  // namespace vkattn::tests
