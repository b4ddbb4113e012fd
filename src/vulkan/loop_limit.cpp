// The words of loop_limit.hpp.
#include "vulkan/loop_limit.hpp"

#include "common/message.hpp"

namespace vkattn::detail {

Error loops_may_end(const Capabilities& capabilities, std::string_view reason) {
  return limit_exceeded("this driver (", capabilities.driver_name, " ", capabilities.driver_info,
                        "), Mesa before 25, silently ends the loops of an invocation after ",
                        capabilities.max_loop_iterations, " iterations, and ", reason, "; needs Mesa 25");
}

Result<void> check_iterations(const Capabilities& capabilities, std::int64_t most) {
  const std::int64_t limit = capabilities.max_loop_iterations;
  if (limit == 0 || most < limit) return {};
  return loops_may_end(capabilities, message("this problem may take ", most));
}

}  // namespace vkattn::detail
