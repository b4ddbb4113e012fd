// What is remembered of self-tests that pass, fail, take long, are interrupted, or crash the program.
#include "runtime/test_outcomes.hpp"

#include <gtest/gtest.h>

#include <chrono>
#include <cstdlib>
#include <future>
#include <stdexcept>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#ifndef _WIN32
#include <sys/stat.h>
#endif

#include "support/temp_folder.hpp"
#include "support/text.hpp"

namespace vkattn::detail {
namespace {

using tests::has;

class Outcomes : public testing::Test {
 protected:
  /// The outcomes as another program reads them.
  [[nodiscard]] SelfTests opened() const {
    SelfTests tests;
    tests.open(file());
    return tests;
  }
  [[nodiscard]] std::filesystem::path file() const { return folder_ / "self-tests.txt"; }
  [[nodiscard]] std::string text() const { return tests::read_file(file()); }

  static Result<TestOutcome> never() {
    ADD_FAILURE() << "is run again";
    return TestOutcome();
  }
  static Result<TestOutcome> passes() { return TestOutcome(); }
  /// A test that finds this fault.
  static auto fails(const char* failure) {
    return [failure]() -> Result<TestOutcome> { return TestOutcome{failure, 0}; };
  }
  static auto takes(std::uint64_t nanoseconds) {
    return [nanoseconds]() -> Result<TestOutcome> { return TestOutcome{"", nanoseconds}; };
  }

  tests::TempFolder folder_;
};

TEST_F(Outcomes, AreThoseOfTheFirstRun) {
  SelfTests first = opened();
  EXPECT_FALSE(first.find("a").has_value());
  EXPECT_EQ(first.run("a", passes).value(), TestOutcome());
  EXPECT_EQ(first.run("b", fails("7 for\n8")).value().failure, "7 for\n8");
  EXPECT_EQ(first.run("c of d", takes(1234567890123)).value().nanoseconds, 1234567890123U);
  SelfTests second = opened();
  EXPECT_EQ(second.find("a"), TestOutcome());
  EXPECT_EQ(second.find("b"), (TestOutcome{"7 for 8", 0}));
  EXPECT_EQ(second.find("c of d"), (TestOutcome{"", 1234567890123}));
  EXPECT_EQ(second.run("b", never).value().failure, "7 for 8");
  EXPECT_EQ(second.run("c of d", never).value().nanoseconds, 1234567890123U);
}

TEST_F(Outcomes, OfOtherProgramsAreKept) {
  SelfTests first = opened(), second = opened();
  EXPECT_TRUE(first.run("a", takes(5)).ok());
  EXPECT_TRUE(second.run("b", passes).ok());
  EXPECT_EQ(second.run("a", never).value().nanoseconds, 5U);
  EXPECT_EQ(opened().find("a"), (TestOutcome{"", 5}));
}

TEST_F(Outcomes, OfManyAtOnceAreKept) {
  constexpr int kThreads = 4, kTests = 10;
  const auto name = [](int thread, int test) {
    return std::to_string(thread) + " of " + std::to_string(test);
  };
  std::vector<std::thread> threads;
  for (int thread = 0; thread < kThreads; ++thread) {
    threads.emplace_back([&, thread] {
      SelfTests tests = opened();
      for (int test = 0; test < kTests; ++test) EXPECT_TRUE(tests.run(name(thread, test), takes(5)).ok());
    });
  }
  for (std::thread& thread : threads) thread.join();
  const SelfTests all = opened();
  for (int thread = 0; thread < kThreads; ++thread) {
    for (int test = 0; test < kTests; ++test)
      EXPECT_TRUE(all.find(name(thread, test))) << thread << " " << test;
  }
#ifndef _WIN32  // on Windows an open file keeps its name
  EXPECT_EQ(folder_.file_count(), 1U) << "no lock is left";
#endif
}

#ifndef _WIN32
TEST_F(Outcomes, InANamedPipeAreNone) {
  ASSERT_EQ(mkfifo(file().c_str(), 0600), 0);
  ASSERT_EQ(mkfifo((folder_ / "lock-self-tests.txt").c_str(), 0600), 0);
  EXPECT_FALSE(opened().find("a").has_value());
  EXPECT_EQ(opened().run("a", takes(3)).value().nanoseconds, 3U);
}
#endif

TEST_F(Outcomes, LinesThatAreNoneAreIgnored) {
  const std::string first_line = "vkattn self-tests 2\n";
  for (const char* const line :
       {"timed a\t\n", "timed a\n", "timed a\t-5\n", "timed a\t0\n", "timed a\t5 ns\n", "timed a\t1.5\n",
        "timed a\t99999999999999999999\n", "timed a\t12", "failed a\n", "failed a\t\n", "passed a\t5\n",
        "passed", "passed \n", "\n", "\t\n", " \n", "timed\ta 5\n", "took a\t5\n", "passed a"}) {
    tests::write_file(file(), first_line + line + "\npassed b\n");
    if (std::string_view(line).back() != '\n') tests::write_file(file(), first_line + "passed b\n" + line);
    const SelfTests tests = opened();
    EXPECT_FALSE(tests.find("a").has_value()) << line;
    EXPECT_FALSE(tests.find("").has_value()) << line;
    EXPECT_EQ(tests.find("b"), TestOutcome()) << line;
  }
  std::string noise;
  for (int i = 0; i < 4096; ++i) noise += static_cast<char>(i * i % 251);
  tests::write_file(file(), first_line + noise + "\ntimed a\t7\n");
  EXPECT_EQ(opened().find("a"), (TestOutcome{"", 7}));
}

TEST_F(Outcomes, OfOtherVersionsAreNone) {
  for (const char* const first_line : {"vkattn self-tests 1\n", "vkattn self-tests 3\n", "\n", ""}) {
    tests::write_file(file(), std::string(first_line) + "passed a\nfailed b\twrong\nbegun c\n");
    EXPECT_FALSE(opened().find("a").has_value()) << first_line;
    EXPECT_FALSE(opened().find("b").has_value()) << first_line;
    EXPECT_EQ(opened().run("c", takes(3)).value().nanoseconds, 3U) << first_line;
    EXPECT_EQ(text(), "vkattn self-tests 2\ntimed c\t3\n");
  }
}

TEST_F(Outcomes, AnErrorIsNone) {
  SelfTests tests = opened();
  const auto breaks_off = [&]() -> Result<TestOutcome> {
    EXPECT_TRUE(has(text(), "begun a\n"));
    return Error{ErrorCode::kOutOfMemory, {}, "no memory"};
  };
  EXPECT_EQ(tests.run("a", breaks_off).error().code, ErrorCode::kOutOfMemory);
  EXPECT_FALSE(has(text(), "begun"));
  const auto throws = []() -> Result<TestOutcome> { throw std::runtime_error("thrown"); };
  EXPECT_THROW((void)tests.run("a", throws), std::runtime_error);
  EXPECT_FALSE(has(text(), "begun"));
  EXPECT_EQ(opened().run("a", passes).value(), TestOutcome());
}

TEST_F(Outcomes, ALostDeviceIsOne) {
  const auto loses = []() -> Result<TestOutcome> { return Error{ErrorCode::kDeviceLost, {}, "lost"}; };
  EXPECT_EQ(opened().run("a", loses).error().code, ErrorCode::kDeviceLost);
  EXPECT_EQ(opened().find("a"), (TestOutcome{"the device was lost", 0}));
}

TEST_F(Outcomes, AProgramThatEndedHasFailed) {
  const auto ends = [this] { (void)opened().run("a", []() -> Result<TestOutcome> { std::_Exit(7); }); };
  EXPECT_EXIT(ends(), testing::ExitedWithCode(7), "");
  EXPECT_TRUE(has(text(), "begun a\n"));
  for (int program = 0; program < 2; ++program) {
    SelfTests tests = opened();
    EXPECT_TRUE(has(tests.run("a", never).value().failure, "the program ended during the test"));
  }
  EXPECT_EQ(opened().run("b", takes(9)).value().nanoseconds, 9U) << "others are tested";
}

TEST_F(Outcomes, WaitForAnotherProgramsTest) {
  std::promise<void> began;
  std::future<Result<TestOutcome>> first = std::async(std::launch::async, [&] {
    SelfTests tests = opened();
    return tests.run("a", [&]() -> Result<TestOutcome> {
      began.set_value();
      std::this_thread::sleep_for(std::chrono::milliseconds(100));
      return TestOutcome{"wrong", 0};
    });
  });
  began.get_future().wait();
  EXPECT_EQ(opened().run("a", never).value().failure, "wrong");
  EXPECT_EQ(first.get().value().failure, "wrong");
}

TEST_F(Outcomes, WithoutAFileAreThoseOfTheProgram) {
  SelfTests tests;
  tests.open({});
  EXPECT_EQ(tests.run("a", fails("wrong")).value().failure, "wrong");
  EXPECT_EQ(tests.find("a"), (TestOutcome{"wrong", 0}));
  // A folder that cannot be created.
  tests::write_file(folder_ / "file", "");
  SelfTests lost;
  lost.open(folder_ / "file" / "self-tests.txt");
  EXPECT_EQ(lost.run("a", takes(4)).value().nanoseconds, 4U);
  EXPECT_EQ(lost.find("a"), (TestOutcome{"", 4}));
}

}  // namespace
}  // namespace vkattn::detail
