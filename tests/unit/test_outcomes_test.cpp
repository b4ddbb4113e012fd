// What is remembered of self-tests that pass, fail, break off and take their program with them.
#include "runtime/test_outcomes.hpp"

#include <gtest/gtest.h>

#include <chrono>
#include <cstdlib>
#include <future>
#include <stdexcept>
#include <thread>

#include "support/temp_folder.hpp"
#include "support/text.hpp"

namespace vkattn::detail {
namespace {

using tests::has;

class Outcomes : public testing::Test {
 protected:
  /// As another program finds them.
  [[nodiscard]] SelfTests opened() const {
    SelfTests tests;
    tests.open(file());
    return tests;
  }
  [[nodiscard]] std::filesystem::path file() const { return folder_ / "self-tests.txt"; }
  [[nodiscard]] std::string text() const { return tests::read_file(file()); }

  static Result<std::string> never() {
    ADD_FAILURE() << "is run again";
    return std::string();
  }

  tests::TempFolder folder_;
};

TEST_F(Outcomes, AreThoseOfTheFirstRun) {
  SelfTests first = opened();
  EXPECT_FALSE(first.find("a").has_value());
  EXPECT_EQ(first.run("a", [] { return std::string(); }).value(), "");
  EXPECT_EQ(first.run("b", [] { return std::string("7 for\n8"); }).value(), "7 for\n8");
  SelfTests second = opened();
  EXPECT_EQ(second.find("a"), "");
  EXPECT_EQ(second.find("b"), "7 for 8");
  EXPECT_EQ(second.run("b", never).value(), "7 for 8");
}

TEST_F(Outcomes, OfOtherProgramsAreKept) {
  SelfTests first = opened(), second = opened();
  EXPECT_TRUE(first.run("a", [] { return std::string(); }).ok());
  EXPECT_TRUE(second.run("b", [] { return std::string(); }).ok());
  EXPECT_EQ(second.run("a", never).value(), "");
  EXPECT_EQ(opened().find("a"), "");
}

TEST_F(Outcomes, AnErrorIsNone) {
  SelfTests tests = opened();
  const auto fails = [&]() -> Result<std::string> {
    EXPECT_TRUE(has(text(), "begun a\n"));
    return Error{ErrorCode::kOutOfMemory, {}, "no memory"};
  };
  EXPECT_EQ(tests.run("a", fails).error().code, ErrorCode::kOutOfMemory);
  EXPECT_FALSE(has(text(), "begun"));
  const auto throws = []() -> Result<std::string> { throw std::runtime_error("thrown"); };
  EXPECT_THROW((void)tests.run("a", throws), std::runtime_error);
  EXPECT_FALSE(has(text(), "begun"));
  EXPECT_EQ(opened().run("a", [] { return std::string(); }).value(), "");
}

TEST_F(Outcomes, ALostDeviceIsOne) {
  const auto loses = []() -> Result<std::string> { return Error{ErrorCode::kDeviceLost, {}, "lost"}; };
  EXPECT_EQ(opened().run("a", loses).error().code, ErrorCode::kDeviceLost);
  EXPECT_EQ(opened().find("a"), "the device was lost");
}

TEST_F(Outcomes, AProgramThatEndedHasFailed) {
  const auto ends = [this] { (void)opened().run("a", []() -> Result<std::string> { std::_Exit(7); }); };
  EXPECT_EXIT(ends(), testing::ExitedWithCode(7), "");
  EXPECT_TRUE(has(text(), "begun a\n"));
  for (int program = 0; program < 2; ++program) {
    SelfTests tests = opened();
    EXPECT_TRUE(has(tests.run("a", never).value(), "the program ended during the test"));
  }
  EXPECT_EQ(opened().run("b", [] { return std::string(); }).value(), "") << "others are tested";
}

TEST_F(Outcomes, WaitForAnotherProgramsTest) {
  std::promise<void> began;
  std::future<Result<std::string>> first = std::async(std::launch::async, [&] {
    SelfTests tests = opened();
    return tests.run("a", [&]() -> Result<std::string> {
      began.set_value();
      std::this_thread::sleep_for(std::chrono::milliseconds(100));
      return std::string("wrong");
    });
  });
  began.get_future().wait();
  EXPECT_EQ(opened().run("a", never).value(), "wrong");
  EXPECT_EQ(first.get().value(), "wrong");
}

TEST_F(Outcomes, WithoutAFileAreThoseOfTheProgram) {
  SelfTests tests;
  tests.open({});
  EXPECT_EQ(tests.run("a", [] { return std::string("wrong"); }).value(), "wrong");
  EXPECT_EQ(tests.find("a"), "wrong");
  // A folder that cannot be made.
  tests::write_file(folder_ / "file", "");
  SelfTests lost;
  lost.open(folder_ / "file" / "self-tests.txt");
  EXPECT_EQ(lost.run("a", [] { return std::string(); }).value(), "");
  EXPECT_EQ(lost.find("a"), "");
}

}  // namespace
}  // namespace vkattn::detail
