// Outcomes of earlier first-use self-tests on this device.
#pragma once

#include <vkattn/result.hpp>

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <string>

namespace vkattn::detail {

/// The outcome of a test that ran to its end.
struct TestOutcome {
  std::string failure;            ///< empty: passed; else what went wrong
  std::uint64_t nanoseconds = 0;  ///< that the kernel took, where the test was for that and passed

  [[nodiscard]] bool operator==(const TestOutcome&) const = default;
};

/// Outcomes by the name of the test, kept in a file between runs: one for each device and driver.
class SelfTests {
 public:
  /// Reads the file if it exists and is of this library. With an empty path nothing is kept.
  void open(const std::filesystem::path& path);

  /// Nothing if the test never ran to its end.
  [[nodiscard]] std::optional<TestOutcome> find(const std::string& test) const;

  /// Runs a test and remembers its outcome. The file says that a test has begun before it runs: if the
  /// program ends meanwhile, by a crash or a hang, the test counts as failed and is not run again. While
  /// another program tests, this one waits for the outcome. An Error is no outcome and is forgotten, except a
  /// lost device. A file that cannot be kept is no failure.
  [[nodiscard]] Result<TestOutcome> run(const std::string& test,
                                        const std::function<Result<TestOutcome>()>& body);

 private:
  enum class State { kEnded, kBegun };
  struct Entry {
    State state = State::kBegun;
    TestOutcome outcome;
  };

  /// Reads the file again in place of what it said before.
  void read();
  void read_line(const std::string& line);
  void write() const;
  void set(const std::string& test, TestOutcome outcome);
  Result<TestOutcome> run_marked(const std::string& test, const std::function<Result<TestOutcome>()>& body);

  std::filesystem::path path_;
  std::map<std::string, Entry> entries_;
};

}  // namespace vkattn::detail
