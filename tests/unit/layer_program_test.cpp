// The program of a layer, without a device: which steps wait, and where their workspaces lie. A driver that
// executes dispatches one after the other shows neither.
#include "module/layer_program.hpp"

#include <gtest/gtest.h>

#include <memory>

#include "c/handles.hpp"
#include "module/layer_symbols.hpp"
#include "support/host_vulkan.hpp"

namespace vkattn::detail {
namespace {

using tests::HostSettings;
using tests::HostVulkan;

class LayerProgramTest : public testing::Test {
 protected:
  /// Adds a product of the tensors 0 and 1, which is the tensor `output`.
  static void add_product(LayerProgram& program, std::uint64_t output) {
    MatmulTensors tensors;
    tensors.a = symbol(0);
    tensors.b = symbol(1);
    tensors.output = symbol(output);
    const Result<void> added = program.add("a product", {.rows = 32, .columns = 32, .inner = 4096}, tensors);
    EXPECT_TRUE(added.ok()) << added.error().message;
  }

  HostVulkan vulkan_{HostSettings{}};
  std::unique_ptr<vkattn_device, decltype(&vkattn_device_release)> device_{HostVulkan::borrow(),
                                                                           &vkattn_device_release};
};

TEST_F(LayerProgramTest, StepsOfAPhaseShareNoWorkspaceAndThoseOfTheNextWait) {
  MultiHeadAttentionOptions options;
  options.matmul.inner_splits = 2;  // parts of a product lie in its workspace
  LayerProgram program(device_->device, options, 5);
  add_product(program, 2);
  add_product(program, 3);
  program.begin_phase();
  add_product(program, 4);
  const ProgramDesc whole = program.finish();
  const std::vector<PlacedStep> steps = program.take_steps();
  ASSERT_EQ(steps.size(), 3U);
  EXPECT_FALSE(steps[0].waits);
  EXPECT_FALSE(steps[1].waits);
  EXPECT_TRUE(steps[2].waits);
  const VkDeviceSize bytes = plan_of(steps[0].step).requirements().workspace_bytes;
  ASSERT_GT(bytes, 0U);
  EXPECT_GE(whole.workspace_bytes, 2 * bytes);
  EXPECT_LT(whole.workspace_bytes, 3 * bytes) << "the last step may take the place of the first";
}

TEST_F(LayerProgramTest, AStepsOwnLengthOfADispatchComesBeforeThatOfTheLayer) {
  MultiHeadAttentionOptions options;
  options.max_dispatch_ns = 2'000'000;
  for (const std::uint64_t own : {0U, 500'000U}) {
    options.matmul.max_dispatch_ns = own;
    LayerProgram program(device_->device, options, 3);
    add_product(program, 2);
    const std::vector<PlacedStep> steps = program.take_steps();
    ASSERT_EQ(steps.size(), 1U);
    EXPECT_EQ(plan_of(steps.front().step).state().options.max_dispatch_ns,
              own == 0 ? options.max_dispatch_ns : own);
  }
}

}  // namespace
}  // namespace vkattn::detail
