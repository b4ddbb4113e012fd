// Block masks of problems with a mask are exact, block by block. score_plan_test.cpp has those of score
// functions.
#include <array>
#include <cmath>
#include <string>
#include <vector>

#include "gpu/block_masks.hpp"
#include "reference/storage.hpp"

namespace vkattn::tests {
namespace {

/// Masks whose rows begin anywhere within a word, in which the last block is not full, or which repeat.
constexpr std::array kMasks{"mask=bits:bhqk hidden=0.8 block=32",
                            "mask=bits hidden=0.5 block=40",
                            "mask=bits:q hidden=0.9",
                            "mask=bits:bhk hidden=0.8 block=48",
                            "mask=bytes:bhqk hidden=0.8 block=32",
                            "mask=bytes:bqk hidden=0.5 block=37",
                            "mask=bytes:hq hidden=0.5 block=16",
                            "mask=f32 hidden=0.8 block=32",
                            "mask=f32:bqk hidden=0.5 zeros=0.4 block=64",
                            "mask=f32:q hidden=0.5 zeros=1 block=32",
                            "mask=f16 hidden=0.1 zeros=1 block=50",
                            "mask=f16:bh2qk hidden=0.1 zeros=1 block=50 alibi=times-mask",
                            "mask=f16:hqk hidden=0.4 zeros=0.5 block=40"};

class MaskBlocks : public KernelTest {
 protected:
  /// What the mask leaves of a block. A number that is added to a score makes the block a mixed one.
  [[nodiscard]] static BlockVisibility block_of(const AttentionDesc& desc, const BlockMaskLayout& layout,
                                                const HostInput& mask, const MaskBlock& block) {
    const auto sees = [&](std::int64_t head, std::int64_t query, std::int64_t key) {
      return !std::isinf(reference::mask_bias(mask, desc, block.batch, head, query, key));
    };
    const auto stays = [&](std::int64_t head, std::int64_t query, std::int64_t key) {
      return reference::mask_bias(mask, desc, block.batch, head, query, key) == 0;
    };
    const BlockVisibility left = visibility_of(desc, layout, block, sees);
    if (left == BlockVisibility::kHidden) return left;
    return visibility_of(desc, layout, block, stays) == BlockVisibility::kVisible ? BlockVisibility::kVisible
                                                                                  : BlockVisibility::kMixed;
  }

  /// Runs the problem with a buffer for its block mask, and compares the block mask too.
  static void run(const Problem& problem, const RunOptions& options, std::array<std::size_t, 3>& found) {
    const auto plan = must(make_plan(runtime(), problem.desc, options));
    const auto layout = plan.block_mask_layout();
    ASSERT_TRUE(layout.has_value());
    EXPECT_EQ(plan.range_bytes(&AttentionTensors::block_mask), plan.block_mask_bytes());
    const Buffer buffer = runtime().create_buffer(plan.block_mask_bytes()).value();
    harness::ProblemRun run = ready_run(problem);
    run.set_block_mask(buffer.range(), false);
    must(run.execute(plan));
    expect_right(run);
    const auto words = elements_of<BlockVisibility>(runtime(), buffer, plan.block_mask_bytes() / 4);
    const auto look = [&](const reference::Inputs& inputs) {
      const auto expected = [&](const MaskBlock& block) {
        return block_of(problem.desc, *layout, inputs.mask, block);
      };
      expect_exact_blocks(problem.desc, *layout, words, expected, found);
    };
    ASSERT_TRUE(run.visit_inputs(look).ok());
  }
};

INSTANTIATE_TEST_SUITE_P(Kernels, MaskBlocks, testing::ValuesIn(kKernelNames), kernel_test_name);

/// Runs also with a workgroup for each block, as GPUs do. Blocks begin between the heads of a query.
TEST_P(MaskBlocks, AreExact) {
  RunOptions options;
  options.kernel = kernel();
  std::array<std::size_t, 3> found{};
  std::string masks;
  for (const char* const mask : part_of<const char*>(kMasks)) {
    // decode only looks for blocks among many keys.
    const std::string sizes = kernel() == "decode" ? "3x1100 " : "75x195 ";
    const Problem problem = parsed("b2 hq6 hkv2 d16 " + sizes + std::string(mask));
    SCOPED_TRACE(mask);
    masks += mask + std::string("; ");
    options.device.reset();
    run(problem, options, found);
    if (HasFatalFailure()) return;
    options.device = device_with([](Capabilities& c) { c.device_type = DeviceType::kDiscreteGpu; });
    run(problem, options, found);
    if (HasFatalFailure()) return;
  }
  EXPECT_GT(found[0] + found[2], 0U) << "these masks make mixed blocks only: " << masks;
}

}  // namespace
}  // namespace vkattn::tests
