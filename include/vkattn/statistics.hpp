/// @file
/// The pipelines of plans, and what a driver's compiler says of them.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace vkattn {

/// One pipeline of a plan, for reports and tests.
struct PipelineInfo {
  std::string_view pass;             ///< as in DispatchInfo
  std::string_view shader;           ///< name of the binary
  std::uint32_t workgroup_size = 0;  ///< invocations
};

/// Bytes that a plan holds, or needs of its caller, as far as they are known: Plan::memory().
struct PlanMemory {
  /// Of the caller's workspace, for each execution that may overlap another.
  std::uint64_t workspace_bytes = 0;
  /// Of host-visible memory, for each bindings (PlanRequirements::parameter_bytes).
  std::uint64_t parameter_bytes = 0;
  std::uint32_t pipelines = 0;  ///< that differ
  /// Of SPIR-V that the pipelines are compiled from. Drivers keep code of their own in its place.
  std::uint64_t spirv_bytes = 0;
  /// Of the pipelines' machine code, as the driver tells it for plans with PlanOptions::capture_statistics.
  /// 0: it does not. Pipelines that several plans share count in each.
  std::uint64_t code_bytes = 0;

  /// Of one execution, with one bindings.
  [[nodiscard]] std::uint64_t total_bytes() const { return workspace_bytes + parameter_bytes + code_bytes; }
};

/// Of one executable of a pipeline (VK_KHR_pipeline_executable_properties).
struct PipelineStatistics {
  std::string pipeline;             ///< the kernel, or what follows it
  std::string shader;               ///< name of the binary
  std::string executable;           ///< the driver's name
  std::uint32_t subgroup_size = 0;  ///< invocations
  /// One number, such as registers or spills.
  struct Entry {
    std::string name;  ///< the driver's words
    double value = 0;  ///< in what unit the name says; 1 and 0 for yes and no
  };
  std::vector<Entry> entries;  ///< in the driver's order
  /// One text.
  struct Listing {
    std::string name;  ///< the driver's words
    std::string text;  ///< lines
  };
  std::vector<Listing> listings;  ///< intermediate forms and machine code, where asked for
};

}  // namespace vkattn
