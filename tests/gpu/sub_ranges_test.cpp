// One problem by plans of parts of its batch and heads, whose ranges begin further on in the same buffers:
// the bits of the whole, on one device and on two.
#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <utility>
#include <vector>

#include "attention/tensor_table.hpp"
#include "gpu/support.hpp"

namespace vkattn::tests {
namespace {

/// Batch entries and KV heads of a problem, with the query heads of these.
struct Part {
  std::int64_t first_entry, entries, first_kv_head, kv_heads;
};

/// Both plans keep to one part of the keys, so that their sums are the same.
PlanOptions in_one_part(const char* kernel) {
  PlanOptions options;
  options.kernel = kernel;
  options.kv_splits = 1;
  return options;
}

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

  /// The whole's tensors from the part's first elements on.
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

  /// Plans a part and executes it.
  static void execute_part(const Runtime& on, const harness::ProblemRun& run, const Part& part) {
    const AttentionDesc whole = run.problem().desc.resolved();
    const auto plan =
        must(AttentionPlan::create(on.device(), part_of_whole(whole, part), in_one_part(GetParam())));
    const auto bindings = must(plan.make_bindings(tensors_of_part(whole, run.tensors(), part, plan)));
    ASSERT_TRUE(on.execute(plan, bindings).ok());
  }

  using Bytes = std::vector<std::byte>;
  /// Output and lse, with what lies around them.
  static std::pair<Bytes, Bytes> written(const Runtime& on, const harness::ProblemRun& run) {
    return {read_back(on, run.output()), read_back(on, run.lse())};
  }
  /// What the plan of the whole problem writes, which is right; the outputs are poisoned again.
  static std::pair<Bytes, Bytes> written_by_whole(harness::ProblemRun& run) {
    const auto plan = AttentionPlan::create(runtime().device(), run.problem().desc, in_one_part(GetParam()));
    EXPECT_TRUE(plan.ok()) << plan.error().message;
    EXPECT_TRUE(run.execute(*plan).ok());
    expect_right(run);
    auto whole = written(runtime(), run);
    EXPECT_TRUE(run.poison_outputs().ok());
    return whole;
  }
};

// decode takes few rows.
INSTANTIATE_TEST_SUITE_P(Kernels, SubRangesTest, testing::Values("lane", "tile"), kernel_test_name);

constexpr const char* kProblem = "b2 hq8 hkv4 33x70 d16 causal lse kv_lengths=40,70 sinks alibi=given";
constexpr Part kFirstEntry{0, 1, 0, 4}, kSecondEntry{1, 1, 0, 4};

TEST_P(SubRangesTest, HalvesGiveTheBitsOfTheWhole) {
  for (const std::string layout : {"", " layout=bshd f16"}) {
    const Problem problem = parsed(kProblem + layout);
    harness::ProblemRun run = ready_run(problem);
    const auto whole = written_by_whole(run);
    const std::vector<Part> divisions[] = {{kFirstEntry, kSecondEntry}, {{0, 2, 0, 2}, {0, 2, 2, 2}}};
    for (const std::vector<Part>& parts : divisions) {
      ASSERT_TRUE(run.poison_outputs().ok());
      ASSERT_NO_FATAL_FAILURE(execute_part(runtime(), run, parts[0]));
      EXPECT_NE(written(runtime(), run), whole) << "one half alone";
      ASSERT_NO_FATAL_FAILURE(execute_part(runtime(), run, parts[1]));
      EXPECT_EQ(written(runtime(), run), whole);
    }
  }
}

// Each with a VkDevice of its own on the same physical device, and with all tensors in its memory.
TEST_P(SubRangesTest, HalvesOnTwoDevicesGiveTheBitsOfTheWhole) {
  RuntimeOptions options;
  options.pipeline_cache = false;
  options.validation = std::getenv("VKATTN_VALIDATION") != nullptr;
  const auto other = must(Runtime::create(options));
  const Problem problem = parsed(kProblem);
  harness::ProblemRun first = ready_run(problem);
  const harness::ProblemRun second = ready_run(problem, other);
  const auto whole = written_by_whole(first);
  ASSERT_NO_FATAL_FAILURE(execute_part(runtime(), first, kFirstEntry));
  ASSERT_NO_FATAL_FAILURE(execute_part(other, second, kSecondEntry));
  // The first entry's half of each tensor, then the second's.
  const auto joined = [](const harness::ProblemRun::Tensor& tensor, Bytes head, const Bytes& tail) {
    const auto half = static_cast<std::ptrdiff_t>(tensor.offset + tensor.bytes / 2);
    std::copy(tail.begin() + half, tail.end(), head.begin() + half);
    return head;
  };
  const auto [output, lse] = written(runtime(), first);
  const auto [other_output, other_lse] = written(other, second);
  EXPECT_EQ(joined(first.output(), output, other_output), whole.first);
  EXPECT_EQ(joined(first.lse(), lse, other_lse), whole.second);
  EXPECT_NE(output, whole.first) << "one half alone";
}

}  // namespace
}  // namespace vkattn::tests
