// Files of self-tests' outcomes: whatever a file holds, a test runs at most once, and its outcome is found
// again.
#include "fuzz/fuzz.hpp"
#include "runtime/test_outcomes.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace vkattn;
  using fuzz::require;
  static const fuzz::Folder folder;
  static const std::filesystem::path path = folder.path() / "self-tests.txt";
  fuzz::write_file(path, fuzz::text_of(data, size));
  for (const char* const test : {"a", "matrix f16 dims 64"}) {
    detail::SelfTests tests;
    tests.open(path);
    const auto before = tests.find(test);
    bool has_run = false;
    const auto outcome = tests.run(test, [&]() -> Result<detail::TestOutcome> {
      has_run = true;
      return detail::TestOutcome{"", size % 2 == 0 ? 0U : 7U};
    });
    require(outcome.ok(), "a test has an outcome");
    require(!before || (!has_run && *before == *outcome), "an outcome that is kept stands for the test");
    require(tests.find(test) == *outcome, "an outcome is found in the program that has it");
    detail::SelfTests later;
    later.open(path);
    require(later.find(test) == *outcome, "an outcome is found by the next program");
  }
  return 0;
}
