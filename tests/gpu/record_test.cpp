// Recording allocates nothing: with every kernel, with bindings and with push descriptors, with windows and
// splits.
#include "allocation_count.hpp"
#include "gpu/mute_device.hpp"
#include "gpu/support.hpp"

namespace vkattn::tests {
namespace {

class RecordTest : public GpuTest {
 protected:
  [[nodiscard]] std::string reason_to_skip() const override {
    return bench::allocations_of_this_thread() ? "" : "a sanitizer's operator new counts nothing";
  }

  /// Allocations of recording the plan twice.
  static std::uint64_t allocations_of(const AttentionPlan& plan, const AttentionTensors& tensors,
                                      const BufferRange& workspace, bool push_descriptors) {
    std::optional<Bindings> bindings;
    if (!push_descriptors) bindings.emplace(plan.make_bindings(tensors, workspace).value());
    MuteCounts::dispatches = MuteCounts::transfers = 0;
    const std::uint64_t before = *bench::allocations_of_this_thread();
    bool recorded = true;
    for (int i = 0; i < 2; ++i) {
      if (push_descriptors) {
        recorded = recorded && plan.record(VK_NULL_HANDLE, tensors, workspace).ok();
      } else {
        plan.record(VK_NULL_HANDLE, *bindings);
      }
    }
    const std::uint64_t made = *bench::allocations_of_this_thread() - before;
    EXPECT_TRUE(recorded);
    EXPECT_EQ(MuteCounts::dispatches, 2 * plan.dispatches().size());
    EXPECT_TRUE(push_descriptors || MuteCounts::transfers == 0) << "bindings hold the parameters";
    return made;
  }
};

TEST_F(RecordTest, TheCounterCounts) {
  const std::uint64_t before = *bench::allocations_of_this_thread();
  const auto number = std::make_unique<int>(1);
  const std::string text(100, static_cast<char>('a' + *number));
  EXPECT_EQ(*bench::allocations_of_this_thread() - before, 2U) << text;
}

TEST_F(RecordTest, NoKernelAllocates) {
  struct Case {
    const char* problem;
    bool windows;
    std::uint32_t kv_splits;
  };
  constexpr Case kParts = {"hq8 hkv2 1x512 d64 f16", false, 3};  // for decode, and for merging parts
  constexpr Case kCases[] = {{"b2 hq8 hkv2 64x96 d64 f16 causal lse", false, 1},
                             {"b3 h4 65x130 d128 kv_lengths=0,65,130", false, 1},
                             {"b2 hq8 hkv2 200x96 d64 f16", true, 1},
                             {"b2 h4 65x130 d64 softcap=30 mask=bits:q window=64,0", false, 1},
                             {"b2 hq8 hkv2 200x96 d64 f16 softcap=30", true, 1}};
  std::size_t recorded = 0;
  std::vector<Case> cases = part_of<Case>(kCases);
  cases.push_back(kParts);
  for (const Case& c : cases) {
    const Problem problem = parsed(c.problem);
    const Device device = device_with([&](Capabilities& weaker) {
      if (c.windows) weaker.max_storage_buffer_range = 64 * 1024;
    });
    mute(device);
    auto run = must(harness::ProblemRun::create(runtime(), problem));
    for (const KernelSupport& support : kernel_support(problem.desc, device.capabilities())) {
      for (const bool push_descriptors : {false, true}) {
        if (push_descriptors && !capabilities().push_descriptors) continue;
        PlanOptions options{.kernel = std::string(support.kernel),
                            .kv_splits = c.kv_splits,
                            .push_descriptors = push_descriptors};
        const auto plan = AttentionPlan::create(device, problem.desc, options);
        if (!plan.ok()) {
          EXPECT_NE(plan.error().code, ErrorCode::kVulkan) << plan.error().message;
          continue;  // the kernel does not take the problem
        }
        auto workspace = must(runtime().create_buffer(plan->workspace_bytes() + 4));
        EXPECT_EQ(allocations_of(*plan, run.tensors(), workspace.range(), push_descriptors), 0U)
            << c.problem << " with " << support.kernel
            << (push_descriptors ? ", push descriptors" : ", bindings");
        ++recorded;
      }
    }
  }
  EXPECT_GE(recorded, 2 * cases.size()) << "at least lane and tile take every problem";
}

}  // namespace
}  // namespace vkattn::tests
