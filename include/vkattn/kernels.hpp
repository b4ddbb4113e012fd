// The kernels there are, and why a problem cannot run on one.
#pragma once

#include <vkattn/attention.hpp>
#include <vkattn/capabilities.hpp>

#include <string>
#include <string_view>
#include <vector>

namespace vkattn {

/// A kernel that must not be used, and why: for what a program knows of a driver that the library does not.
struct KernelRefusal {
  std::string kernel;
  std::string reason;
};

/// A kernel and whether the device and problem suit it: empty reason where they do.
struct KernelSupport {
  std::string_view kernel;
  std::string reason;
};

/// Every kernel of this build in the order of preference for the device, with the reason against each.
/// Kernels left out at build time are listed too.
[[nodiscard]] std::vector<KernelSupport> kernel_support(const AttentionDesc& desc,
                                                        const Capabilities& capabilities);

}  // namespace vkattn
