/// @file
/// What a plan would be on a device that is not there: from its Capabilities alone.
#pragma once

#include <vkattn/capabilities.hpp>
#include <vkattn/device_features.hpp>
#include <vkattn/kernels.hpp>
#include <vkattn/result.hpp>

#include <cstdint>
#include <string>
#include <vector>

namespace vkattn {

/// What supports() tells of a problem on a device.
struct Support {
  std::string kernel;   ///< that the plan would have; empty as Plan::kernel_name()
  std::string summary;  ///< the kernel's block sizes and form in words, as Plan::describe() has them
  std::vector<KernelSupport> kernels;     ///< every kernel that was considered, with the reason against it
  std::uint32_t storage_buffers = 0;      ///< of a descriptor set: Capabilities::max_stage_storage_buffers
  std::uint32_t push_constant_bytes = 0;  ///< of a pipeline layout: Capabilities::max_push_constants_bytes
  std::uint32_t dispatches = 0;           ///< of an execution
  std::uint64_t workspace_bytes = 0;      ///< as PlanRequirements has them
  /// Features that the device has, and without which the problem would get another kernel or form: to be
  /// enabled when the VkDevice is made. enable_wanted() enables them, and others.
  std::vector<WantedFeature> uses;
  /// Features that the device lacks, and with which the problem would get `better`. Both are empty if there
  /// are none, or if PlanOptions::kernel names the kernel.
  std::vector<WantedFeature> lacks;
  std::string better;  ///< kernel and shader
};

/// Plans the problem for a device of these capabilities, without compiling anything: the choice of a plan
/// that is made with the same options where exactly this is enabled, if the driver compiles it. `Desc` is the
/// descriptor of attention, of its gradients, of a product, an append or a merge. Errors: those of the plan,
/// such as a limit with both numbers, or the reasons of each kernel; and layers, whose steps are to be asked
/// for one by one. Example:
///
///     const auto devices = parse_capabilities(text);  // capabilities_file.hpp
///     for (const Capabilities& device : *devices) {
///       if (const auto support = supports(desc, device); !support) report(support.error().message);
///     }
template <class Desc>
[[nodiscard]] Result<Support> supports(const Desc& desc, const Capabilities& capabilities,
                                       const typename Desc::Plan::Options& options = {}) {
  return Desc::Plan::supported(capabilities, desc, options);
}

}  // namespace vkattn
