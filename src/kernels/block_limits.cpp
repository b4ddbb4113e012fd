// Limits of workgroups: see block_limits.hpp.
#include "kernels/block_limits.hpp"

#include "common/message.hpp"

namespace vkattn::detail {

Result<void> check_limits(const BlockNeeds& needs, const Capabilities& capabilities) {
  const auto check = [](std::uint32_t needed, const char* what, const char* limit,
                        std::uint32_t most) -> Result<void> {
    if (needed <= most) return {};
    return limit_exceeded("needs ", needed, " ", what, "; ", limit, " is ", most);
  };
  if (Result<void> s = check(needs.shared_bytes, "bytes of shared memory", "maxComputeSharedMemorySize",
                             capabilities.max_shared_memory_bytes);
      !s)
    return s;
  if (Result<void> s = check(needs.threads, "invocations", "maxComputeWorkGroupInvocations",
                             capabilities.max_workgroup_invocations);
      !s)
    return s;
  if (Result<void> s = check(needs.threads, "invocations", "maxComputeWorkGroupSize[0]",
                             capabilities.max_workgroup_size[0]);
      !s)
    return s;
  return check(needs.subgroups, "subgroups", "maxComputeWorkgroupSubgroups",
               capabilities.max_workgroup_subgroups);
}

Error no_block_fits(const Result<void>& smallest) {
  return {smallest.error().code, VK_SUCCESS, message("the smallest block ", smallest.error().message)};
}

}  // namespace vkattn::detail
