// Files of capabilities: whatever a file says of a device, problems are planned for it or refused, and the
// devices that were read can be written and read again.
#include <vkattn/backward.hpp>
#include <vkattn/cache.hpp>
#include <vkattn/matmul.hpp>
#include <vkattn/runtime.hpp>
#include <vkattn/supports.hpp>

#include <vector>

#include "fuzz/fuzz.hpp"
#include "fuzz/own_problem.hpp"
#include "problem/gradients.hpp"

namespace {

using namespace vkattn;
using fuzz::problem;
using fuzz::require;

template <class Desc>
void plan_for(const Desc& desc, const Capabilities& device) {
  const auto support = supports(desc, device);
  if (!support.ok()) {
    require(!support.error().message.empty(), "a refusal has a sentence");
    return;
  }
  require(support->storage_buffers <= device.max_stage_storage_buffers, "a plan needs what the device has",
          device.device_name);
  require(support->lacks.empty() == support->better.empty(), "a better form needs features");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const std::vector<AttentionDesc> problems = {problem("hq8 hkv2 40x3000 d64 f16 causal"),
                                                      problem("hq32 hkv8 1x4096 d128 f16"),
                                                      problem("h3 70x90 d40 mask=f32 sinks lse")};
  static const BackwardDesc gradients = bench::with_all_gradients(problem("h2 70x90 d64 f16 lse"));
  const auto devices = parse_capabilities(fuzz::text_of(data, size));
  if (!devices.ok()) {
    require(!devices.error().message.empty(), "a refusal has a sentence");
    return 0;
  }
  const std::string again = capabilities_text(*devices);
  const auto read = parse_capabilities(again);
  require(read.ok() && capabilities_text(*read) == again, "what was written can be read", again);
  for (const Capabilities& device : *devices) {
    for (const AttentionDesc& desc : problems) plan_for(desc, device);
    plan_for(gradients, device);
    plan_for(MatmulDesc{.rows = 100, .columns = 300, .inner = 1000}, device);
  }
  return 0;
}
