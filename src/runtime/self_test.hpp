// First-use self-tests. Drivers have claimed matrix shapes that gave wrong results: before a path on matrix
// units is used for the first time on a device, it computes a small problem and is compared with the float64
// reference.
#pragma once

#include <vkattn/host_tensors.hpp>
#include <vkattn/runtime.hpp>

#include <cstddef>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace vkattn::detail {

/// Outcomes by AttentionPlan::configuration(), kept in a file between runs: one for each device and driver.
class SelfTests {
 public:
  /// Reads the file where it is there and of this library; an empty path keeps nothing.
  void open(const std::filesystem::path& path);

  /// Empty: passed; else what went wrong; nothing where the configuration was never tested.
  [[nodiscard]] std::optional<std::string> find(const std::string& configuration) const;
  /// Remembers an outcome and writes the file. A file that cannot be kept is no failure.
  void add(const std::string& configuration, const std::string& failure);

 private:
  std::filesystem::path path_;
  std::map<std::string, std::string> outcomes_;
};

/// The first output that differs from the float64 reference by more than its tolerance, in words; empty where
/// none does. For a batch of 1, BHSD.
[[nodiscard]] std::string first_difference(const AttentionDesc& desc, const HostTensors& host,
                                           DataType probability_type);

/// Runs a small problem of the plan's kind on the same kernel with the same block sizes. Empty where the
/// results are right, else what is wrong with them; an Error where it could not run.
[[nodiscard]] Result<std::string> self_test(const Runtime& runtime, const AttentionPlan& plan);

}  // namespace vkattn::detail
