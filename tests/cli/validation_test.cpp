// Every command that uses a device, under the validation layer as a user would load it.
#include <vkattn/runtime.hpp>

#include <string>

#include "support/text.hpp"
#include "tool_run.hpp"

namespace vkattn::tests {
namespace {

bool has_validation_layer() {
  RuntimeOptions options;
  options.validation = true;
  options.pipeline_cache = false;
  return Runtime::create(options).ok();
}

TEST_F(ToolRun, NoCommandHasAValidationMessage) {
  if (!has_validation_layer()) GTEST_SKIP() << "no device, or no validation layer";
  write_noise("grad", {2, 4, 9, 8});
  for (const std::string& command :
       {std::string("devices"), std::string("kernels 'h2 9x20 d16 f16'"),
        std::string("kernels 'matmul 8x8x8'"), attend("--check --softcap 30"),
        attend("--grad-output grad.npy --grad-key dk.npy --grad-value dv.npy --check"),
        std::string("bench 'h2 9x20 d16 backward' 'matmul 9x20x70' --no-peaks --repeat 3"),
        std::string(
            "bench 'h2 33x64 d32 f16' --kernel lane,unfused --repeat 3"),  // measures the device's peaks too
        std::string("inspect --text 'a rose is a rose' --heads 2 --causal --check"),
        std::string("report --minutes 0.05 --output page"),
        std::string("tune 'h2 33x64 d32' --max-seconds 1 --output tuning.json")}) {
    const ToolResult result = run(command, "VK_INSTANCE_LAYERS=VK_LAYER_KHRONOS_validation");
    EXPECT_EQ(result.exit_code, 0) << command << ": " << result.err;
    // The layer prints to the streams where a report expects its children's answers.
    if (command.starts_with("report")) {
      EXPECT_TRUE(has(result.out, " 0 went wrong")) << result.out;
    }
    for (const std::string* text : {&result.out, &result.err}) {
      const std::size_t at = text->find("Validation ");
      EXPECT_EQ(at, std::string::npos) << command << ": " << text->substr(at, 400);
    }
  }
}

}  // namespace
}  // namespace vkattn::tests
