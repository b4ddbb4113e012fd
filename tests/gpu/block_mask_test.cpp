// The block masks of problems with a mask: exact, block by block. Those of score functions are in
// score_plan_test.cpp.
#include <algorithm>
#include <array>
#include <cmath>
#include <string>
#include <vector>

#include "gpu/support.hpp"
#include "reference/storage.hpp"

namespace vkattn::tests {
namespace {

/// Rows of masks that begin anywhere within a word, blocks that the keys end in, masks that repeat.
constexpr std::array kMasks{"mask=bits:bhqk hidden=0.8 block=32",
                            "mask=bits hidden=0.5 block=40",
                            "mask=bits:q hidden=0.9",
                            "mask=bits:bhk hidden=0.8 block=48",
                            "mask=bytes:bhqk hidden=0.8 block=32",
                            "mask=bytes:bqk hidden=0.5 block=37",
                            "mask=bytes:hq hidden=0.9",
                            "mask=f32 hidden=0.8 block=32",
                            "mask=f16:hqk hidden=0.9 block=40"};

class MaskBlocks : public KernelTest {
 protected:
  /// What the mask leaves of a block. Of a mask that is added nothing is known to be visible whole.
  [[nodiscard]] static BlockVisibility block_of(const AttentionDesc& desc, const BlockMaskLayout& layout,
                                                const HostInput& mask, std::array<std::int64_t, 4> block) {
    const auto [batch, kv_head, first_row, first_key] = block;
    const std::int64_t group = desc.query_heads / desc.kv_heads;
    const bool adds = desc.mask.type == MaskType::kFloat32 || desc.mask.type == MaskType::kFloat16;
    const std::int64_t row_end = std::min(first_row + layout.rows, desc.query_length * group);
    const std::int64_t key_end = std::min(first_key + layout.keys, desc.kv_length);
    std::int64_t seen = 0;
    for (std::int64_t row = first_row; row < row_end; ++row) {
      const std::int64_t head = kv_head * group + row % group;
      for (std::int64_t key = first_key; key < key_end; ++key) {
        const double bias = reference::mask_bias(mask, desc.mask, batch, head, row / group, key);
        if (!std::isinf(bias)) ++seen;
      }
    }
    if (seen == 0) return BlockVisibility::kHidden;
    const bool whole = seen == (row_end - first_row) * (key_end - first_key);
    return whole && !adds ? BlockVisibility::kVisible : BlockVisibility::kMixed;
  }

  /// Compares each word of the block mask that the device computed.
  static void expect_exact(const AttentionDesc& desc, const BlockMaskLayout& layout, const HostInput& mask,
                           const std::vector<BlockVisibility>& words, std::array<std::size_t, 3>& found) {
    const std::int64_t rows = desc.query_length * (desc.query_heads / desc.kv_heads);
    for (std::int64_t b = 0; b < desc.batch; ++b) {
      for (std::int64_t h = 0; h < desc.kv_heads; ++h) {
        for (std::int64_t row = 0; row < rows; row += layout.rows) {
          for (std::int64_t key = 0; key < desc.kv_length; key += layout.keys) {
            const std::int64_t word = b * layout.batch_stride + h * layout.head_stride +
                                      row / layout.rows * layout.row_stride + key / layout.keys;
            const BlockVisibility expected = block_of(desc, layout, mask, {b, h, row, key});
            ASSERT_EQ(words.at(static_cast<std::size_t>(word)), expected)
                << "batch " << b << ", KV head " << h << ", row " << row << ", key " << key;
            ++found[static_cast<std::size_t>(expected)];
          }
        }
      }
    }
  }

  /// Runs the problem with a buffer for its block mask, and looks at that too.
  static void run(const Problem& problem, const RunOptions& options, std::array<std::size_t, 3>& found) {
    const auto plan = make_plan(runtime(), problem.desc, options);
    ASSERT_TRUE(plan.ok()) << plan.error().message;
    const auto layout = plan->block_mask_layout();
    ASSERT_TRUE(layout.has_value());
    EXPECT_EQ(plan->range_bytes(&AttentionTensors::block_mask), plan->block_mask_bytes());
    const auto buffer = runtime().create_buffer(plan->block_mask_bytes());
    ASSERT_TRUE(buffer.ok());
    harness::ProblemRun run = ready_run(problem);
    run.set_block_mask(buffer->range(), false);
    const auto time = run.execute(*plan);
    ASSERT_TRUE(time.ok()) << time.error().message;
    expect_right(run);
    std::vector<BlockVisibility> words(plan->block_mask_bytes() / 4);
    ASSERT_TRUE(runtime().read(*buffer, 0, std::as_writable_bytes(std::span(words))).ok());
    const auto look = [&](const reference::Inputs& inputs) {
      expect_exact(problem.desc, *layout, inputs.mask, words, found);
    };
    ASSERT_TRUE(run.visit_inputs(look).ok());
  }
};

constexpr const char* kMaskKernels[] = {"lane", "tile", "decode"};
INSTANTIATE_TEST_SUITE_P(Kernels, MaskBlocks, testing::ValuesIn(kMaskKernels), kernel_test_name);

/// Also by a workgroup for each block, as GPUs do it.
TEST_P(MaskBlocks, AreExact) {
  RunOptions options;
  options.kernel = kernel();
  std::array<std::size_t, 3> found{};
  for (const char* const mask : part_of<const char*>(kMasks)) {
    // decode looks for blocks among many keys only.
    const std::string sizes = kernel() == "decode" ? "3x1100 " : "75x195 ";
    const Problem problem = parsed("b2 hq4 hkv2 d16 " + sizes + std::string(mask));
    SCOPED_TRACE(mask);
    options.device.reset();
    run(problem, options, found);
    if (HasFatalFailure()) return;
    options.device = device_with([](Capabilities& c) { c.device_type = DeviceType::kDiscreteGpu; });
    run(problem, options, found);
    if (HasFatalFailure()) return;
  }
  EXPECT_GT(found[0] + found[1], 0U);
}

}  // namespace
}  // namespace vkattn::tests
