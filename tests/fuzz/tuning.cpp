// Tuning files: whatever a file says, a plan is made or refused. Writing a file adds the measured results.
#include <memory>
#include <vector>

#include "c/handles.hpp"
#include "fuzz/fuzz.hpp"
#include "fuzz/own_problem.hpp"
#include "runtime/tuning_file.hpp"
#include "support/host_vulkan.hpp"

namespace {

using namespace vkattn;
using fuzz::problem;
using fuzz::require;

/// Makes plans with block sizes and parts of the file. If they cannot be used, the tile table has others.
void plan_with(const Device& device, const Shared<const Tuning>& tuning) {
  static const std::vector<AttentionDesc> problems = {problem("h8 512x512 d64 f16"),
                                                      problem("hq8 hkv2 q1 kv4096 d128 f16 softcap=5")};
  for (const AttentionDesc& desc : problems) {
    PlanOptions options;
    options.tuning = tuning;
    options.deferred_compilation = true;
    const auto plan = AttentionPlan::create(device, desc, options);
    require(plan.ok(), "no tuning file stands in the way of a plan");
    require(!plan->describe().empty(), "a plan can be described");
  }
  BackwardDesc gradients;
  gradients.attention = problem("h8 512x512 d64 f16 lse");
  PlanOptions backward;
  backward.tuning = tuning;
  backward.deferred_compilation = true;
  require(BackwardPlan::create(device, gradients, backward).ok(), "nor of a plan of gradients");
  PlanOptions matmul;
  matmul.tuning = tuning;
  matmul.deferred_compilation = true;
  const MatmulDesc product{.rows = 512, .columns = 512, .inner = 512};
  require(MatmulPlan::create(device, product, matmul).ok(), "nor of a plan of a product");
}

std::size_t lines(const Tuning& tuning) {
  return tuning.problems.size() + tuning.gradients.size() + tuning.products.size();
}

void write_again(std::string_view text, const Tuning& tuning, const Capabilities& device) {
  std::vector<detail::TuningResult> results;
  const auto add = [&](const auto& all) {
    for (const auto& tuned : all) results.push_back({tuned, 1000, "lane", 2000});
  };
  add(tuning.problems), add(tuning.gradients), add(tuning.products);
  const TunedProblem own{"the target's own", problem("4x4 d8"), {"lane", {0, 0, 0, 1, 8, 0}}, 0, {}};
  results.push_back({own, 1, "lane", 1});
  const auto merged = detail::merge_tuning(text, device, results);
  if (!merged.ok()) {
    require(lines(tuning) == 0, "a file that is read can be added to");
    return;
  }
  const Tuning again = detail::parse_tuning(*merged, "again", device);
  require(again.warning.empty() && lines(again) >= results.size(), "what was written can be read");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text = fuzz::text_of(data, size);
  const tests::HostVulkan vulkan(tests::HostSettings{});
  vkattn_device* const handle = tests::HostVulkan::borrow();
  {
    const Device device = handle->device;
    auto tuning = std::make_shared<Tuning>(detail::parse_tuning(text, "fuzz.json", device.capabilities()));
    require((lines(*tuning) == 0) != tuning->warning.empty(), "a file is used, or a warning says why not");
    write_again(text, *tuning, device.capabilities());
    plan_with(device, tuning);
  }
  require(vkattn_device_release(handle) == VKATTN_SUCCESS, "a device can be released");
  return 0;
}
