// What came of first-use self-tests on this device before.
#pragma once

#include <vkattn/result.hpp>

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <string>

namespace vkattn::detail {

/// What a test that ran to its end showed.
struct TestOutcome {
  std::string failure;            ///< empty: passed; else what went wrong
  std::uint64_t nanoseconds = 0;  ///< that the kernel took, where the test was for that and passed

  [[nodiscard]] bool operator==(const TestOutcome&) const = default;
};

/// Outcomes by the name of the test, kept in a file between runs: one for each device and driver.
class SelfTests {
 public:
  /// Reads the file where it is there and of this library; an empty path keeps nothing.
  void open(const std::filesystem::path& path);

  /// Nothing where the test never ran to its end.
  [[nodiscard]] std::optional<TestOutcome> find(const std::string& test) const;

  /// Runs a test and remembers its outcome. The file says that it has begun before it does: one during which
  /// the program ended, as drivers make programs end that crash or hang, has failed and is not run again.
  /// While another program tests, this one waits for its outcome. An Error is none and is forgotten, but for
  /// a device that was lost. A file that cannot be kept is no failure.
  [[nodiscard]] Result<TestOutcome> run(const std::string& test,
                                        const std::function<Result<TestOutcome>()>& body);

 private:
  enum class State { kEnded, kBegun };
  struct Entry {
    State state = State::kBegun;
    TestOutcome outcome;
  };

  /// What the file says now takes the place of what it said.
  void read();
  void read_line(const std::string& line);
  void write() const;
  void set(const std::string& test, TestOutcome outcome);
  Result<TestOutcome> run_marked(const std::string& test, const std::function<Result<TestOutcome>()>& body);

  std::filesystem::path path_;
  std::map<std::string, Entry> entries_;
};

}  // namespace vkattn::detail
