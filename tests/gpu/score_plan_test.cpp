// Plans with score functions: block masks, tables, their descriptions and refusals.
#include <algorithm>
#include <array>
#include <utility>

#include "gpu/block_masks.hpp"
#include "gpu/score_support.hpp"

namespace vkattn::tests {
namespace {

/// Has a block mask in a buffer of the test's own.
class BlockMasks : public ScoreFunctions {
 protected:
  [[nodiscard]] std::string reason_to_skip() const override {
    if (std::string reason = ScoreFunctions::reason_to_skip(); !reason.empty()) return reason;
    const auto plan = make_plan(runtime(), problem_of("").desc, options(score_));
    return plan.ok() && plan->block_mask_bytes() == 0 ? "the kernel passes no blocks by" : "";
  }
  /// A problem of 150 queries and 190 keys in documents, with these words.
  [[nodiscard]] static Problem problem_of(std::string_view words) {
    return parsed(typed(std::string("b2 hq4 hkv2 150x190 d16 lse ").append(words)));
  }
  void prepare(std::string_view words = "") {
    problem_ = problem_of(words);
    plan_ = must(make_plan(runtime(), problem_.desc, options(score_)));
    layout_ = plan_->block_mask_layout().value();
    mask_ = must(runtime().create_buffer(plan_->block_mask_bytes()));
    table_ = filled_buffer(runtime(), score_.tables[0]);
  }

  /// Runs with the block mask, which is computed or is complete already, and compares.
  testing::AssertionResult runs(bool complete) {
    harness::ProblemRun run = ready_run(problem_);
    run.set_score_function({table_.range()}, score_.hook);
    run.set_block_mask(mask_.range(), complete);
    must(run.execute(*plan_));
    const auto report = must(run.check());
    if (report.passed()) return testing::AssertionSuccess();
    return testing::AssertionFailure() << report.to_string();
  }

  [[nodiscard]] std::vector<BlockVisibility> read_mask() const {
    return elements_of<BlockVisibility>(runtime(), mask_, plan_->block_mask_bytes() / 4);
  }
  void write_mask(const std::vector<BlockVisibility>& words) const {
    EXPECT_TRUE(runtime().write(mask_, 0, std::as_bytes(std::span(words))).ok());
  }

  /// Whether causality and a left window hide the block from all of its rows, in problems with such words.
  [[nodiscard]] bool is_out_of_sight(std::int64_t first_row, std::int64_t first_key) const {
    const AttentionDesc& desc = problem_.desc;
    if (!desc.causal || desc.kv_lengths != Lengths::kUniform) return false;
    const std::int64_t group = desc.query_heads / desc.kv_heads;
    const std::int64_t last_row = std::min(first_row + layout_->rows, desc.query_length * group) - 1;
    const std::int64_t last_key = std::min<std::int64_t>(first_key + layout_->keys, desc.kv_length) - 1;
    return first_key > last_row / group || last_key < first_row / group - desc.window.left;
  }

  /// Compares each word with what the documents leave of a block. Returns the number of words of each kind.
  [[nodiscard]] std::array<std::size_t, 3> expect_exact() const {
    const auto expected = [&](const MaskBlock& block) {
      if (is_out_of_sight(block.first_row, block.first_key)) return BlockVisibility::kHidden;
      return visibility_of(problem_.desc, *layout_, block,
                           [](std::int64_t /*head*/, std::int64_t query, std::int64_t key) {
                             return document(query) == document(key);
                           });
    };
    std::array<std::size_t, 3> found{};
    expect_exact_blocks(problem_.desc, *layout_, read_mask(), expected, found);
    return found;
  }

  Problem problem_;
  ScoreSetup score_ = documents();
  std::optional<AttentionPlan> plan_;
  std::optional<BlockMaskLayout> layout_;
  Buffer mask_, table_;
};

INSTANTIATE_TEST_SUITE_P(Kernels, BlockMasks, testing::ValuesIn(kEveryKernelName), kernel_test_name);

TEST_P(BlockMasks, AreExact) {
  prepare();
  EXPECT_TRUE(runs(false));
  const auto found = expect_exact();
  EXPECT_GT(found[0], 0U);
  EXPECT_GT(found[1], 0U);
}

/// The lengths of causality and window are fixed, so blocks that they hide wholly are marked as hidden.
TEST_P(BlockMasks, AreExactInAWindow) {
  prepare("causal window=60,-1");
  EXPECT_TRUE(runs(false));
  EXPECT_GT(expect_exact()[0], 0U);
  EXPECT_TRUE(runs(true));
}

/// Lengths may change while a block mask is kept, so they must not affect it.
TEST_P(BlockMasks, AreKeptWhereLengthsChange) {
  prepare("causal align=bottom-right kv_lengths=150,20");
  EXPECT_TRUE(runs(false));
  (void)expect_exact();
  for (const auto& [first, second] : {std::pair{20, 190}, {190, 1}}) {
    problem_.kv_lengths = {first, second};
    EXPECT_TRUE(runs(true)) << first << ", " << second;
  }
}

TEST_P(BlockMasks, AreKeptAndTakenFromTheCaller) {
  prepare();
  EXPECT_TRUE(runs(false));
  const std::vector<BlockVisibility> words = read_mask();
  EXPECT_TRUE(runs(true));
  // A block mask that hides nothing is also right, because the function decides about each position.
  write_mask(std::vector<BlockVisibility>(words.size(), BlockVisibility::kMixed));
  EXPECT_TRUE(runs(true));
  // The block mask is not computed again, so what it hides stays hidden.
  write_mask(std::vector<BlockVisibility>(words.size(), BlockVisibility::kHidden));
  EXPECT_FALSE(runs(true));
  EXPECT_TRUE(runs(false));
  EXPECT_EQ(read_mask(), words);
}

TEST_P(BlockMasks, AreRefusedByName) {
  prepare();
  harness::ProblemRun run = ready_run(problem_);
  run.set_score_function({table_.range()}, score_.hook);
  const auto executed = [&](const BufferRange& range) {
    run.set_block_mask(range, true);
    return run.execute(*plan_);
  };
  EXPECT_TRUE(is_refused(executed({}), ErrorCode::kInvalidArgument, {"complete but its buffer is null"}));
  EXPECT_TRUE(is_refused(executed({mask_.handle(), 0, 8}), ErrorCode::kInvalidArgument,
                         {"the block mask needs", "its range has 8"}));
}

class ScoreFunctionPlans : public GpuTest {
 protected:
  static Result<AttentionPlan> plan_of(const ScoreSetup& score, bool push_descriptors = false) {
    AttentionDesc desc = parsed("9x20 d16").desc;
    desc.score_function = score.function;
    return AttentionPlan::create(runtime().device(), desc, {.push_descriptors = push_descriptors});
  }
};

TEST_F(ScoreFunctionPlans, TellTheFunctionAndDifferByIt) {
  const auto first = must(plan_of(prefix()));
  const auto again = must(plan_of(prefix()));
  const auto other = must(plan_of(relative_bias()));
  const auto none = must(AttentionPlan::create(runtime().device(), parsed("9x20 d16").desc));
  EXPECT_EQ(first.configuration(), again.configuration());
  EXPECT_NE(first.configuration(), other.configuration());
  EXPECT_NE(first.configuration(), none.configuration());
  EXPECT_TRUE(has(first.describe(), "score function: test.glsl, hides keys\n"));
  EXPECT_TRUE(has(other.describe(), "score function: test.glsl\n"));
}

TEST_F(ScoreFunctionPlans, RefuseTablesByName) {
  const auto plan = must(plan_of(prefix()));
  const auto run = must(harness::ProblemRun::create(runtime(), parsed("9x20 d16")));
  const auto table = must(runtime().create_buffer(4096));
  const auto workspace = must(runtime().create_buffer(plan.workspace_bytes() + 4));
  AttentionTensors tensors = run.tensors();
  const auto bound = [&](const BufferRange& range) {
    tensors.score_buffers[0] = range;
    return plan.make_bindings(tensors, workspace.range());
  };
  const ErrorCode code = ErrorCode::kInvalidArgument;
  EXPECT_TRUE(is_refused(bound({}), code, {"buffer prefix", "is null"}));
  EXPECT_TRUE(is_refused(bound({table.handle(), 0, 3}), code, {"buffer prefix", "4 bytes", "3"}));
  if (capabilities().min_storage_offset_alignment > 4) {
    EXPECT_TRUE(is_refused(bound({table.handle(), 4, 64}), code,
                           {"buffer prefix begins at byte 4", "minStorageBufferOffsetAlignment"}));
  }
  EXPECT_TRUE(is_refused(bound({table.handle(), 0, capabilities().max_storage_buffer_range + 1}), code,
                         {"buffer prefix has", "maxStorageBufferRange"}));
  // 113 elements of float16 end within a word. The last element would be read together with bytes outside of
  // the range, or not at all.
  EXPECT_TRUE(
      is_refused(bound({table.handle(), 0, 226}), code, {"buffer prefix has 226 bytes", "give it 228"}));
  tensors.score_buffers[0] = table.range();
  EXPECT_TRUE(plan.make_bindings(tensors, workspace.range()).ok());
}

/// A function that does not compile in the kernel that would be chosen.
class BrokenInOneKernel : public ScoreShaders {
 public:
  BrokenInOneKernel(Shared<const ScoreShaders> whole, std::string kernel)
      : whole_(std::move(whole)), broken_("attention_" + std::move(kernel)) {}
  [[nodiscard]] std::string_view name() const noexcept override { return whole_->name(); }
  [[nodiscard]] const std::vector<ScoreBuffer>& buffers() const noexcept override {
    return whole_->buffers();
  }
  [[nodiscard]] bool hides_keys() const noexcept override { return whole_->hides_keys(); }
  [[nodiscard]] Result<std::span<const std::uint32_t>> binary(
      std::string_view shader) const noexcept override {
    if (!shader.starts_with(broken_)) return whole_->binary(shader);
    return Error{ErrorCode::kUnsupported, VK_SUCCESS, "is broken"};
  }

 private:
  Shared<const ScoreShaders> whole_;
  std::string broken_;
};

TEST_F(ScoreFunctionPlans, TakeTheNextKernelWhereTheFunctionDoesNotCompile) {
  AttentionDesc desc = parsed("h2 40x75 d16").desc;
  desc.score_function = prefix().function;
  const auto usual = must(AttentionPlan::create(runtime().device(), desc));
  const std::string kernel(usual.kernel_name());
  desc.score_function = std::make_shared<BrokenInOneKernel>(prefix().function, kernel);
  const auto plan = must(AttentionPlan::create(runtime().device(), desc));
  EXPECT_NE(plan.kernel_name(), kernel);
  EXPECT_TRUE(has(plan.describe(), "is broken"));
  EXPECT_TRUE(is_refused(AttentionPlan::create(runtime().device(), desc, {.kernel = kernel}),
                         ErrorCode::kUnsupported, {"is broken"}));
}

/// Devices with few storage buffers.
class FewBuffersOfScores : public ScoreFunctions {};
INSTANTIATE_TEST_SUITE_P(Kernels, FewBuffersOfScores, testing::ValuesIn(kEveryKernelName), kernel_test_name);

/// Their tables are bound as they are, as nobody knows their size before the call.
TEST_P(FewBuffersOfScores, TakeOneForEachTable) {
  for (const ScoreSetup& score : {prefix(), relative_bias(), both()}) {
    RunOptions run = options(score);
    const auto tables = static_cast<std::uint32_t>(score.tables.size());
    run.device = device_with([&](Capabilities& c) { c.max_stage_storage_buffers = 4 + tables; });
    run.inspect = [=](const AttentionPlan& plan) {
      EXPECT_EQ(plan.requirements().storage_buffers, 4 + tables);
    };
    EXPECT_TRUE(runs_right(runtime(), typed("b2 hq4 hkv2 9x100 d16 lse kv_lengths=100,60"), run));
    run.device = device_with([&](Capabilities& c) { c.max_stage_storage_buffers = 3 + tables; });
    const auto refused = make_plan(runtime(), parsed(typed("b2 hq4 hkv2 9x100 d16 lse")).desc, run);
    EXPECT_TRUE(is_refused(refused, ErrorCode::kLimitExceeded,
                           {"needs " + std::to_string(4 + tables) + " storage buffers"}));
  }
}

// Runs with tensors instead of bindings.
TEST_F(ScoreFunctionPlans, GoWithPushDescriptors) {
  if (!capabilities().push_descriptors || capabilities().max_push_descriptors < 21) {
    GTEST_SKIP() << "the device has no 21 push descriptors";
  }
  const Problem problem = parsed("b2 h2 40x75 d16 lse");
  const ScoreSetup score = prefix();
  AttentionDesc desc = problem.desc;
  desc.score_function = score.function;
  const auto plan = must(AttentionPlan::create(runtime().device(), desc, {.push_descriptors = true}));
  harness::ProblemRun run = ready_run(problem);
  const Buffer table = filled_buffer(runtime(), score.tables[0]);
  const Buffer workspace = runtime().create_workspace(plan).value();
  run.set_score_function({table.range()}, score.hook);
  must(runtime().execute(
      [&](VkCommandBuffer commands) { must(plan.record(commands, run.tensors(), workspace.range())); }));
  expect_right(run);
}

}  // namespace
}  // namespace vkattn::tests
