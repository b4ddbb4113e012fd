// Plans with score functions: block masks, tables, what they tell and refuse.
#include <algorithm>
#include <array>
#include <utility>

#include "gpu/score_support.hpp"

namespace vkattn::tests {
namespace {

/// A block mask in a buffer of the test's own.
class BlockMasks : public ScoreFunctions {
 protected:
  void SetUp() override {
    ScoreFunctions::SetUp();
    if (IsSkipped() || HasFatalFailure()) return;
    const auto made = make_plan(runtime(), problem_.desc, options(score_));
    ASSERT_TRUE(made.ok()) << made.error().message;
    plan_ = *made;
    if (plan_->block_mask_bytes() == 0) GTEST_SKIP() << "the kernel passes no blocks by";
    layout_ = plan_->block_mask_layout();
    ASSERT_TRUE(layout_.has_value());
    mask_ = *runtime().create_buffer(plan_->block_mask_bytes());
    table_ = *runtime().create_buffer(score_.tables[0].size() * 4);
    ASSERT_TRUE(runtime().write(table_, 0, std::as_bytes(std::span(score_.tables[0]))).ok());
  }

  /// Runs with the block mask, computed or taken as it is, and compares.
  testing::AssertionResult runs(bool complete) {
    auto run = harness::ProblemRun::create(runtime(), problem_);
    if (!run.ok()) return testing::AssertionFailure() << run.error().message;
    run->set_score_function({table_.range()}, score_.hook);
    if (!run->fill_inputs().ok() || !run->poison_outputs().ok())
      return testing::AssertionFailure() << "filling";
    run->set_block_mask(mask_.range(), complete);
    if (const auto time = run->execute(*plan_); !time.ok())
      return testing::AssertionFailure() << time.error().message;
    const auto report = run->check();
    if (!report.ok() || !report->passed()) {
      return testing::AssertionFailure() << (report.ok() ? report->to_string() : report.error().message);
    }
    return testing::AssertionSuccess();
  }

  [[nodiscard]] std::vector<BlockVisibility> read_mask() const {
    std::vector<BlockVisibility> words(plan_->block_mask_bytes() / 4);
    EXPECT_TRUE(runtime().read(mask_, 0, std::as_writable_bytes(std::span(words))).ok());
    return words;
  }
  void write_mask(const std::vector<BlockVisibility>& words) const {
    EXPECT_TRUE(runtime().write(mask_, 0, std::as_bytes(std::span(words))).ok());
  }

  /// That causality and a left window hide the block from all of its rows; of problems with such words.
  [[nodiscard]] bool is_out_of_sight(std::int64_t first_row, std::int64_t first_key) const {
    const AttentionDesc& desc = problem_.desc;
    if (!desc.causal || desc.kv_lengths != Lengths::kUniform) return false;
    const std::int64_t group = desc.query_heads / desc.kv_heads;
    const std::int64_t last_row = std::min(first_row + layout_->rows, desc.query_length * group) - 1;
    const std::int64_t last_key = std::min<std::int64_t>(first_key + layout_->keys, desc.kv_length) - 1;
    return first_key > last_row / group || last_key < first_row / group - desc.window.left;
  }

  /// Compares each word with what block_of() says; how many of each kind there are.
  void expect_exact(std::array<std::size_t, 3>& found) const {
    const std::vector<BlockVisibility> words = read_mask();
    const AttentionDesc& desc = problem_.desc;
    for (std::int64_t b = 0; b < desc.batch; ++b) {
      for (std::int64_t h = 0; h < desc.kv_heads; ++h) {
        for (std::int64_t row = 0; row < desc.query_length * 2; row += layout_->rows) {
          for (std::int64_t key = 0; key < desc.kv_length; key += layout_->keys) {
            const std::int64_t word = b * layout_->batch_stride + h * layout_->head_stride +
                                      row / layout_->rows * layout_->row_stride + key / layout_->keys;
            ASSERT_EQ(words.at(static_cast<std::size_t>(word)), block_of(row, key)) << row << " " << key;
            ++found[static_cast<std::size_t>(block_of(row, key))];
          }
        }
      }
    }
  }

  /// What the documents leave of a block, position by position.
  [[nodiscard]] BlockVisibility block_of(std::int64_t first_row, std::int64_t first_key) const {
    if (is_out_of_sight(first_row, first_key)) return BlockVisibility::kHidden;
    const AttentionDesc& desc = problem_.desc;
    const std::int64_t group = desc.query_heads / desc.kv_heads;
    std::int64_t seen = 0;
    std::int64_t all = 0;
    for (std::int64_t row = first_row; row < first_row + layout_->rows && row < desc.query_length * group;
         ++row) {
      for (std::int64_t key = first_key; key < first_key + layout_->keys && key < desc.kv_length;
           ++key, ++all) {
        if (document(row / group) == document(key)) ++seen;
      }
    }
    return seen == 0     ? BlockVisibility::kHidden
           : seen == all ? BlockVisibility::kVisible
                         : BlockVisibility::kMixed;
  }

  Problem problem_ = parsed(typed("b2 hq4 hkv2 150x190 d16 lse"));
  ScoreSetup score_ = documents();
  std::optional<AttentionPlan> plan_;
  std::optional<BlockMaskLayout> layout_;
  Buffer mask_, table_;
};

constexpr const char* kBlockKernels[] = {"lane", "tile", "decode", "matrix", "matrix2"};
INSTANTIATE_TEST_SUITE_P(Kernels, BlockMasks, testing::ValuesIn(kBlockKernels), kernel_test_name);

TEST_P(BlockMasks, AreExact) {
  EXPECT_TRUE(runs(false));
  std::array<std::size_t, 3> found{};
  expect_exact(found);
  EXPECT_GT(found[0], 0U);
  EXPECT_GT(found[1], 0U);
}

/// Causality and the window, whose lengths are fixed: blocks that they hide whole are hidden.
class BlockMasksInAWindow : public BlockMasks {
 protected:
  BlockMasksInAWindow() { problem_ = parsed(typed("b2 hq4 hkv2 150x190 d16 lse causal window=60,-1")); }
};
INSTANTIATE_TEST_SUITE_P(Kernels, BlockMasksInAWindow, testing::ValuesIn(kBlockKernels), kernel_test_name);

TEST_P(BlockMasksInAWindow, AreExact) {
  EXPECT_TRUE(runs(false));
  std::array<std::size_t, 3> found{};
  expect_exact(found);
  EXPECT_GT(found[0], 0U);
  EXPECT_TRUE(runs(true));
}

/// Lengths may change under a block mask that is kept, so they must not show in it.
class BlockMasksWithLengths : public BlockMasks {
 protected:
  BlockMasksWithLengths() {
    problem_ = parsed(typed("b2 hq4 hkv2 150x190 d16 lse causal align=bottom-right kv_lengths=150,20"));
  }
};
INSTANTIATE_TEST_SUITE_P(Kernels, BlockMasksWithLengths, testing::ValuesIn(kBlockKernels), kernel_test_name);

TEST_P(BlockMasksWithLengths, AreKeptWhereLengthsChange) {
  EXPECT_TRUE(runs(false));
  std::array<std::size_t, 3> found{};
  expect_exact(found);
  for (const auto& [first, second] : {std::pair{20, 190}, {190, 1}}) {
    problem_.kv_lengths = {first, second};
    EXPECT_TRUE(runs(true)) << first << ", " << second;
  }
}

TEST_P(BlockMasks, AreKeptAndTakenFromTheCaller) {
  EXPECT_TRUE(runs(false));
  const std::vector<BlockVisibility> words = read_mask();
  EXPECT_TRUE(runs(true));
  // Whatever the function says of each position is right, too.
  write_mask(std::vector<BlockVisibility>(words.size(), BlockVisibility::kMixed));
  EXPECT_TRUE(runs(true));
  // Not computed again: what is hidden stays hidden.
  write_mask(std::vector<BlockVisibility>(words.size(), BlockVisibility::kHidden));
  EXPECT_FALSE(runs(true));
  EXPECT_TRUE(runs(false));
  EXPECT_EQ(read_mask(), words);
}

TEST_P(BlockMasks, AreRefusedByName) {
  auto run = harness::ProblemRun::create(runtime(), problem_);
  ASSERT_TRUE(run.ok());
  run->set_score_function({table_.range()}, score_.hook);
  const auto refusal = [&](const BufferRange& range) {
    run->set_block_mask(range, true);
    const auto time = run->execute(*plan_);
    EXPECT_FALSE(time.ok());
    return time.ok() ? Error{} : time.error();
  };
  EXPECT_TRUE(names(refusal({}), ErrorCode::kInvalidArgument, {"complete but its buffer is null"}));
  EXPECT_TRUE(names(refusal({mask_.handle(), 0, 8}), ErrorCode::kInvalidArgument,
                    {"the block mask needs", "its range has 8"}));
}

class ScoreFunctionPlans : public GpuTest {
 protected:
  static Result<AttentionPlan> plan_of(const ScoreSetup& score, bool push_descriptors = false) {
    AttentionDesc desc = parsed("9x20 d16").desc;
    desc.score_function = score.function;
    PlanOptions options;
    options.push_descriptors = push_descriptors;
    return AttentionPlan::create(runtime().device(), desc, options);
  }
};

TEST_F(ScoreFunctionPlans, TellTheFunctionAndDifferByIt) {
  const auto first = plan_of(prefix());
  const auto again = plan_of(prefix());
  const auto other = plan_of(relative_bias());
  const auto none = AttentionPlan::create(runtime().device(), parsed("9x20 d16").desc);
  ASSERT_TRUE(first.ok() && again.ok() && other.ok() && none.ok());
  EXPECT_EQ(first->configuration(), again->configuration());
  EXPECT_NE(first->configuration(), other->configuration());
  EXPECT_NE(first->configuration(), none->configuration());
  EXPECT_NE(first->describe().find("score function: test.glsl, hides keys\n"), std::string::npos);
  EXPECT_NE(other->describe().find("score function: test.glsl\n"), std::string::npos);
}

TEST_F(ScoreFunctionPlans, RefuseTablesByName) {
  const auto plan = plan_of(prefix());
  ASSERT_TRUE(plan.ok()) << plan.error().message;
  const auto run = harness::ProblemRun::create(runtime(), parsed("9x20 d16"));
  const auto table = runtime().create_buffer(4096);
  const auto workspace = runtime().create_buffer(plan->workspace_bytes() + 4);
  ASSERT_TRUE(run.ok() && table.ok() && workspace.ok());
  AttentionTensors tensors = run->tensors();
  const auto refusal = [&](const BufferRange& range) {
    tensors.score_buffers[0] = range;
    const auto bindings = plan->make_bindings(tensors, workspace->range());
    EXPECT_FALSE(bindings.ok());
    return bindings.ok() ? Error{} : bindings.error();
  };
  const ErrorCode code = ErrorCode::kInvalidArgument;
  EXPECT_TRUE(names(refusal({}), code, {"buffer prefix", "is null"}));
  EXPECT_TRUE(names(refusal({table->handle(), 0, 3}), code, {"buffer prefix", "4 bytes", "3"}));
  if (capabilities().min_storage_offset_alignment > 4) {
    EXPECT_TRUE(names(refusal({table->handle(), 4, 64}), code,
                      {"buffer prefix begins at byte 4", "minStorageBufferOffsetAlignment"}));
  }
  EXPECT_TRUE(names(refusal({table->handle(), 0, capabilities().max_storage_buffer_range + 1}), code,
                    {"buffer prefix has", "maxStorageBufferRange"}));
  tensors.score_buffers[0] = table->range();
  EXPECT_TRUE(plan->make_bindings(tensors, workspace->range()).ok());
}

/// A function that does not compile in the kernel that would be chosen.
class BrokenInOneKernel : public ScoreShaders {
 public:
  BrokenInOneKernel(std::shared_ptr<const ScoreShaders> whole, std::string kernel)
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
  std::shared_ptr<const ScoreShaders> whole_;
  std::string broken_;
};

TEST_F(ScoreFunctionPlans, TakeTheNextKernelWhereTheFunctionDoesNotCompile) {
  AttentionDesc desc = parsed("h2 40x75 d16").desc;
  desc.score_function = prefix().function;
  const auto usual = AttentionPlan::create(runtime().device(), desc);
  ASSERT_TRUE(usual.ok()) << usual.error().message;
  const std::string kernel(usual->kernel_name());
  desc.score_function = std::make_shared<BrokenInOneKernel>(prefix().function, kernel);
  const auto plan = AttentionPlan::create(runtime().device(), desc);
  ASSERT_TRUE(plan.ok()) << plan.error().message;
  EXPECT_NE(plan->kernel_name(), kernel);
  EXPECT_NE(plan->describe().find("is broken"), std::string::npos) << plan->describe();
  PlanOptions options;
  options.kernel = kernel;
  const auto forced = AttentionPlan::create(runtime().device(), desc, options);
  ASSERT_FALSE(forced.ok());
  EXPECT_TRUE(names(forced.error(), ErrorCode::kUnsupported, {"is broken"}));
}

// The same with tensors in place of bindings.
TEST_F(ScoreFunctionPlans, GoWithPushDescriptors) {
  if (!capabilities().push_descriptors || capabilities().max_push_descriptors < 21) {
    GTEST_SKIP() << "the device has no 21 push descriptors";
  }
  const Problem problem = parsed("b2 h2 40x75 d16 lse");
  const ScoreSetup score = prefix();
  AttentionDesc desc = problem.desc;
  desc.score_function = score.function;
  PlanOptions options;
  options.push_descriptors = true;
  const auto plan = AttentionPlan::create(runtime().device(), desc, options);
  ASSERT_TRUE(plan.ok()) << plan.error().message;
  auto run = harness::ProblemRun::create(runtime(), problem);
  auto table = runtime().create_buffer(8);
  auto workspace = runtime().create_buffer(plan->workspace_bytes() + 4);
  ASSERT_TRUE(run.ok() && table.ok() && workspace.ok());
  ASSERT_TRUE(runtime().write(*table, 0, std::as_bytes(std::span(score.tables[0]))).ok());
  run->set_score_function({table->range()}, score.hook);
  ASSERT_TRUE(run->fill_inputs().ok() && run->poison_outputs().ok());
  bool recorded = false;
  const auto times = runtime().execute([&](VkCommandBuffer commands) {
    recorded = plan->record(commands, run->tensors(), workspace->range()).ok();
  });
  ASSERT_TRUE(times.ok() && recorded);
  const auto report = run->check();
  ASSERT_TRUE(report.ok());
  EXPECT_TRUE(report->passed()) << report->to_string();
}

}  // namespace
}  // namespace vkattn::tests
