// Plans for parts of a problem's batch and heads, whose ranges begin later in the same buffers, give the bits
// of the whole problem.
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "attention/tensor_table.hpp"
#include "gpu/support.hpp"

namespace vkattn::tests {
namespace {

/// Some batch entries and KV heads of a problem, with the query heads of these.
struct Part {
  std::int64_t first_entry, entries, first_kv_head, kv_heads;
};

class SubRangesTest : public GpuTest, public testing::WithParamInterface<const char*> {
 protected:
  /// The part as a problem of its own, with the strides of the whole.
  static AttentionDesc part_of_whole(const AttentionDesc& whole, const Part& part) {
    AttentionDesc desc = whole;
    desc.batch = part.entries;
    desc.kv_heads = part.kv_heads;
    desc.query_heads = part.kv_heads * (whole.query_heads / whole.kv_heads);
    return desc;
  }

  /// The tensors of the whole, from the first elements of the part on.
  static AttentionTensors tensors_of_part(const AttentionDesc& whole, const AttentionTensors& all,
                                          const Part& part, const AttentionPlan& plan) {
    AttentionTensors tensors = all;
    for (const detail::TensorRow& row : detail::tensor_table()) {
      if (!row.is_used(whole)) continue;
      const TensorDesc storage = row.storage(whole);
      const bool of_keys = row.cut == detail::TensorCut::kKeyRows;
      const std::int64_t head = part.first_kv_head * (of_keys ? 1 : whole.query_heads / whole.kv_heads);
      const std::int64_t first = part.first_entry * storage.strides->batch + head * storage.strides->head;
      BufferRange& range = tensors.*row.range;
      range.offset += static_cast<VkDeviceSize>(first) * element_bytes(storage.type);
      range.size = plan.range_bytes(row.range, range.offset);
    }
    return tensors;
  }

  /// A plan of the whole problem, or of a part of it. No plan splits the keys, so that all compute the same
  /// sums.
  static AttentionPlan plan_of(const AttentionDesc& desc) {
    return must(AttentionPlan::create(runtime().device(), desc, {.kernel = GetParam(), .kv_splits = 1}));
  }
  static void execute_part(const harness::ProblemRun& run, const Part& part) {
    const AttentionDesc whole = run.problem().desc.resolved();
    const AttentionPlan plan = plan_of(part_of_whole(whole, part));
    bind_and_execute(runtime(), plan, tensors_of_part(whole, run.tensors(), part, plan));
  }
  /// Output and lse with the bytes around them.
  using Bytes = std::vector<std::byte>;
  static std::pair<Bytes, Bytes> written(const harness::ProblemRun& run) {
    return {read_back(runtime(), run.output()), read_back(runtime(), run.lse())};
  }
};

// decode takes few rows.
INSTANTIATE_TEST_SUITE_P(Kernels, SubRangesTest, testing::Values("lane", "tile"), kernel_test_name);

TEST_P(SubRangesTest, HalvesGiveTheBitsOfTheWhole) {
  for (const std::string layout : {"", " layout=bshd f16"}) {
    const Problem problem =
        parsed("b2 hq8 hkv4 33x70 d16 causal lse kv_lengths=40,70 sinks alibi=given" + layout);
    harness::ProblemRun run = ready_run(problem);
    must(run.execute(plan_of(problem.desc)));
    expect_right(run);
    const auto whole = written(run);
    const Part entries[] = {{0, 1, 0, 4}, {1, 1, 0, 4}}, heads[] = {{0, 2, 0, 2}, {0, 2, 2, 2}};
    for (const auto& [first, second] : {std::pair(entries[0], entries[1]), {heads[0], heads[1]}}) {
      must(run.poison_outputs());
      execute_part(run, first);
      EXPECT_NE(written(run), whole) << "one half alone";
      execute_part(run, second);
      EXPECT_EQ(written(run), whole);
    }
  }
}

}  // namespace
}  // namespace vkattn::tests
