// First-use self-tests (vkattn/self_test.hpp) as the runtime runs them, and what came of them on this device
// before.
#pragma once

#include <vkattn/runtime.hpp>

#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <string>

namespace vkattn::detail {

/// Outcomes by AttentionPlan::configuration(), kept in a file between runs: one for each device and driver.
class SelfTests {
 public:
  /// Reads the file where it is there and of this library; an empty path keeps nothing.
  void open(const std::filesystem::path& path);

  /// Empty: passed; else what went wrong; nothing where the configuration was never tested to the end.
  [[nodiscard]] std::optional<std::string> find(const std::string& configuration) const;

  /// Runs a test, which gives what find() does, and remembers its outcome. The file says that it has begun
  /// before it does: one during which the program ended, as drivers make programs end that crash or hang, has
  /// failed and is not run again. While another program tests, this one waits for its outcome. An Error is
  /// none and is forgotten, but for a device that was lost. A file that cannot be kept is no failure.
  [[nodiscard]] Result<std::string> run(const std::string& configuration,
                                        const std::function<Result<std::string>()>& test);

 private:
  enum class State { kPassed, kFailed, kBegun };
  struct Outcome {
    State state = State::kBegun;
    std::string failure;
  };

  /// What the file says now takes the place of what it said.
  void read();
  void write() const;
  void set(const std::string& configuration, std::string failure);
  Result<std::string> run_marked(const std::string& configuration,
                                 const std::function<Result<std::string>()>& test);

  std::filesystem::path path_;
  std::map<std::string, Outcome> outcomes_;
};

/// Runs a small problem of the plan's kind on the same kernel with the same block sizes. Empty where the
/// results are right, else what is wrong with them; an Error where it could not run.
[[nodiscard]] Result<std::string> run_self_test(const Runtime& runtime, const AttentionPlan& plan);

}  // namespace vkattn::detail
