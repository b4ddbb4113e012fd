// What a problem gets on devices that are not there, by their files of capabilities.
#pragma once

#include <vkattn/plan.hpp>

#include <string>
#include <vector>

#include "command.hpp"
#include "json.hpp"
#include "problem/problem.hpp"

namespace vkattn::cli {

/// Kernels with the reason against each.
[[nodiscard]] Json kernels_json(const std::vector<KernelSupport>& kernels);

/// Whether a device or a kernel cannot do it. This is an answer that programs read, not a failure.
[[nodiscard]] inline bool is_refusal(const Error& error) {
  return error.code == ErrorCode::kUnsupported || error.code == ErrorCode::kLimitExceeded;
}

/// The devices to ask about, as typed.
struct RecordedDevices {
  std::vector<std::string> files;
  std::string device;  ///< a number among those of the files, from 0 on, or a part of a name; empty: all
};

/// Prints what the problem gets on each device. The exit code tells whether one of them refuses it.
[[nodiscard]] int show_support(const RecordedDevices& where, const bench::Problem& problem,
                               const PlanOptions& options, bool as_json, const Invocation& invocation);

}  // namespace vkattn::cli
