/// @file
/// The kernels there are, and why a problem cannot run on one.
#pragma once

#include <vkattn/attention.hpp>
#include <vkattn/capabilities.hpp>

#include <string>
#include <string_view>
#include <vector>

namespace vkattn {

/// A kernel that must not be used, and why: for programs that know more of a driver than the library does.
/// Plans of every operation with kernels take a refusal of any of these names, also of a kernel that the
/// operation does not have, and refuse other names.
struct KernelRefusal {
  std::string kernel;  ///< its name: decode, lane, lane_decode, tile, matrix or matrix2
  std::string reason;  ///< a sentence for errors and AttentionPlan::describe()
};

/// A kernel and whether the device and problem suit it.
struct KernelSupport {
  std::string_view kernel;  ///< its name, which lives as long as the library
  std::string reason;       ///< against it; empty: it can run
};

/// Every kernel of this build in the order of preference for the device, with the reason against each.
/// Kernels left out at build time are listed too. For plans with that PlanOptions::arithmetic_type.
[[nodiscard]] std::vector<KernelSupport> kernel_support(const AttentionDesc& desc,
                                                        const Capabilities& capabilities,
                                                        DataType arithmetic_type = DataType::kFloat32);

}  // namespace vkattn
