// First-use self-tests (vkattn/self_test.hpp) as the runtime runs them, and what came of them on this device
// before.
#pragma once

#include <vkattn/runtime.hpp>

#include <filesystem>
#include <map>
#include <optional>
#include <string>

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

/// Runs a small problem of the plan's kind on the same kernel with the same block sizes. Empty where the
/// results are right, else what is wrong with them; an Error where it could not run.
[[nodiscard]] Result<std::string> run_self_test(const Runtime& runtime, const AttentionPlan& plan);

}  // namespace vkattn::detail
