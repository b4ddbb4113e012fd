// The common parts of the reports: see reports.hpp.
#include "inspect/reports.hpp"

#include <cmath>

#include "console.hpp"
#include "error.hpp"
#include "json.hpp"

namespace vkattn::cli {

Json json_head(const Runtime& runtime, const Invocation& invocation) {
  return Json{{"version", invocation.version},
              {"command", invocation.command_line},
              {"device", device_json(runtime.device().capabilities())}};
}

std::string device_line(const Runtime& runtime) {
  const Capabilities& device = runtime.device().capabilities();
  return "device    " + console::printable(device.device_name) + " - " +
         device_type_text(device.device_type) + "\n";
}

std::string device_caption(const Runtime& runtime, const Invocation& invocation) {
  return drawable(runtime.device().capabilities().device_name) + "  \xc2\xb7  " + console::date_text() +
         "  \xc2\xb7  vkattn " + invocation.version;
}

Json statistics_json(const WeightStatistics& statistics) {
  return Json{{"score_deviation", statistics.score_deviation},
              {"entropy_bits", statistics.entropy_bits},
              {"entropy_share", statistics.entropy_share},
              {"mean_largest_weight", statistics.mean_largest}};
}

Json check_json(const WeightCheck& check) {
  return Json{{"passed", check.passed()},
              {"weights", check.compared},
              {"largest_error", check.largest_error},
              {"largest_share_of_tolerance", check.largest_share}};
}

void require_passed(const WeightCheck& check) {
  if (!check.passed()) fail("the weights are not within tolerance of the reference: " + check_text(check));
}

std::string scale_text(const AttentionDesc& desc) {
  const std::string number = console::significant(static_cast<double>(desc.effective_scale()));
  if (desc.scale) return number;
  return "1/sqrt(" + std::to_string(desc.head_dim) + ") = " + number;
}

}  // namespace vkattn::cli
