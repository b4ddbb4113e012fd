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

TEST(LayerProgramTest, StepsOfAPhaseShareNoWorkspaceAndThoseOfTheNextWait) {
  const HostVulkan vulkan{HostSettings{}};
  const std::unique_ptr<vkattn_device, decltype(&vkattn_device_release)> device{HostVulkan::borrow(),
                                                                                &vkattn_device_release};
  MultiHeadAttentionOptions options;
  options.matmul.inner_splits = 2;  // parts of a product lie in its workspace
  LayerProgram program(device->device, options, 5);
  const auto add = [&](std::uint64_t output) {
    MatmulTensors tensors;
    tensors.a = symbol(0);
    tensors.b = symbol(1);
    tensors.output = symbol(output);
    const Result<void> added = program.add("a product", {.rows = 32, .columns = 32, .inner = 4096}, tensors);
    EXPECT_TRUE(added.ok()) << added.error().message;
  };
  add(2);
  add(3);
  program.begin_phase();
  add(4);
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

TEST(LayerProgramTest, AStepsOwnLengthOfADispatchComesBeforeThatOfTheLayer) {
  const HostVulkan vulkan{HostSettings{}};
  const std::unique_ptr<vkattn_device, decltype(&vkattn_device_release)> device{HostVulkan::borrow(),
                                                                                &vkattn_device_release};
  MultiHeadAttentionOptions options;
  options.max_dispatch_ns = 2'000'000;
  for (const std::uint64_t own : {0U, 500'000U}) {
    options.matmul.max_dispatch_ns = own;
    LayerProgram program(device->device, options, 3);
    MatmulTensors tensors;
    tensors.a = symbol(0);
    tensors.b = symbol(1);
    tensors.output = symbol(2);
    ASSERT_TRUE(program.add("a product", {.rows = 4, .columns = 4, .inner = 4}, tensors).ok());
    const std::vector<PlacedStep> steps = program.take_steps();
    EXPECT_EQ(plan_of(steps.front().step).state().options.max_dispatch_ns,
              own == 0 ? options.max_dispatch_ns : own);
  }
}

}  // namespace
}  // namespace vkattn::detail
