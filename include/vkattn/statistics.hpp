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
