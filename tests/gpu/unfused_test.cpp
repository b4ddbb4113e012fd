// The unfused baseline is as right as the kernels that are measured against it.
#include "gpu/support.hpp"
#include "harness/unfused_plan.hpp"
#include "support/unrolled_loops.hpp"

namespace vkattn::tests {
namespace {

using harness::UnfusedPlan;

class Unfused : public GpuTest {
 protected:
  static Result<UnfusedPlan> plan(std::string_view problem, const Device& device = runtime().device()) {
    return UnfusedPlan::create(device, parsed(problem).desc);
  }
  static testing::AssertionResult runs_right(std::string_view problem,
                                             const Device& device = runtime().device()) {
    const auto made = plan(problem, device);
    if (!made.ok()) return testing::AssertionFailure() << problem << ": " << made.error().message;
    return matches_reference(runtime(), parsed(problem), *made, RunOptions{std::string(harness::kUnfused)});
  }
};

TEST_F(Unfused, MatchesTheReference) {
  const UnrolledLoops unrolled;  // 255 keys of 255 dims are as many iterations as lavapipe allows
  for (const char* problem : part_of(
           {"1x1 d1 lse", "h2 33x65 d17 dv5 lse", "b2 hq6 hkv2 70x129 d64 f16 causal lse",
            "b3 h2 5x77 d24 kv_lengths=0,1,77 lse", "40x20 d16 causal align=-20 lse", "4x0 d8 lse",
            "hq8 hkv2 65x33 d33 dv40 layout=bshd pad=3 shift=1 output=f16 lse",
            "h2 64x255 d255 bf16 aligned=0",
            "b2 31x257 d71 query=bf16 key=f32 value=f16 output=f32 causal align=bottom-right scale=-0.3"})) {
    EXPECT_TRUE(runs_right(problem));
  }
}

TEST_F(Unfused, WithoutSixteenBitStorage) {
  EXPECT_TRUE(runs_right("h3 25x50 d17 f16 lse",
                         device_with([](Capabilities& c) { c.storage_buffer_16bit = false; })));
}

TEST_F(Unfused, KeepsTheMatrixInTheWorkspace) {
  const auto made = must(plan("b2 h3 40x50 d8 lse"));
  EXPECT_EQ(made.workspace_bytes(), 2U * 3U * 40U * 50U * 4U);
  const detail::ProgramDesc& program = made.program();
  ASSERT_EQ(program.passes.size(), 3U);
  EXPECT_EQ(program.passes[0].name, "scores");
  EXPECT_EQ(program.passes[1].name, "softmax");
  EXPECT_EQ(program.passes[2].name, "weighted_sum");
  EXPECT_EQ(program.steps.size(), 3U);
  EXPECT_TRUE(runs_right("b2 h3 40x50 d8 lse"));
}

TEST_F(Unfused, WhatItCannotDoIsRefused) {
  struct Refusal {
    const char* problem;
    ErrorCode code;
    std::vector<std::string> words;
    std::function<void(Capabilities&)> change;
  };
  const Refusal refusals[] = {
      {"64x64 d64 softcap=3", ErrorCode::kUnsupported, {"unfused", "softcap"}, {}},
      {"64x64 d64 sequences=queries query_lengths=9", ErrorCode::kUnsupported, {"packed queries"}, {}},
      {"h2 100x100 d8",
       ErrorCode::kLimitExceeded,
       {"80000", "maxStorageBufferRange", "65536"},
       [](Capabilities& c) { c.max_storage_buffer_range = 64 * 1024; }},
      {"h2 100x2000 d8",
       ErrorCode::kLimitExceeded,
       {"one descriptor", "maxStorageBufferRange", "65536"},
       [](Capabilities& c) { c.max_storage_buffer_range = 64 * 1024; }},
      {"1x1100000 d8", ErrorCode::kLimitExceeded, {"1048560", "1100000"}, {}},
      {"512x32768 d64",
       ErrorCode::kLimitExceeded,
       {"Mesa before 25", "after 65535 iterations"},
       [](Capabilities& c) { c.max_loop_iterations = 65535; }},
  };
  for (const Refusal& refusal : refusals) {
    const Device device = device_with([&](Capabilities& c) {
      c.max_loop_iterations = 0;
      if (refusal.change) refusal.change(c);
    });
    EXPECT_TRUE(is_refused(plan(refusal.problem, device), refusal.code, refusal.words)) << refusal.problem;
  }
  EXPECT_TRUE(
      is_refused(runtime().make_plan(parsed("64x64 d64").desc, {.kernel = std::string(harness::kUnfused)}),
                 ErrorCode::kNotFound, {"there is no kernel 'unfused'"}));
}

TEST_F(Unfused, GridsAreFoldedAndSplit) {
  EXPECT_TRUE(runs_right("b2 h5 70x90 d16 causal lse", device_with([](Capabilities& c) {
                           c.max_workgroup_count = {3, 2, 1};
                         })));
}

}  // namespace
}  // namespace vkattn::tests
