// Files that the runtime keeps are whole at any time, whoever writes them.
#include "runtime/files.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#ifndef _WIN32
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
#endif

#include "support/must.hpp"
#include "support/temp_folder.hpp"

namespace vkattn::detail {
namespace {

/// Two runtimes of one program may keep the same files.
TEST(Files, ThreadsThatReplaceOneFileLeaveItWhole) {
  const tests::TempFolder folder;
  const std::filesystem::path path = folder / "pipelines.bin";
  constexpr std::size_t kBytes = 200'000;
  std::atomic<int> failures{0};
  std::atomic<int> torn{0};
  std::vector<std::thread> threads;
  for (const char letter : {'a', 'b', 'c', 'd'}) {
    threads.emplace_back([&, text = std::string(kBytes, letter)] {
      for (int i = 0; i < 25; ++i) {
        const std::string_view piece = text;
        if (!replace_file(path, std::span(&piece, 1))) ++failures;
        const std::string there = tests::read_file(path);
        const bool is_one = std::all_of(there.begin(), there.end(), [&](char c) { return c == there[0]; });
        if (there.size() != kBytes || !is_one) ++torn;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(failures, 0);
  EXPECT_EQ(torn, 0);
  const auto left = std::filesystem::directory_iterator(path.parent_path());
  EXPECT_EQ(std::distance(begin(left), end(left)), 1) << "nothing is left beside it";
}

/// Adds 1 to the number in a file, `times` times.
void count_in(const std::filesystem::path& path, int times) {
  for (int i = 0; i < times; ++i) {
    FileLock lock;
    ASSERT_EQ(lock.take(path), FileLock::Status::kTaken);
    const std::string text = std::to_string(std::stoi(tests::read_file(path)) + 1);
    const std::string_view piece = text;
    ASSERT_TRUE(replace_file(path, std::span(&piece, 1)));
  }
}

/// Several threads do this, and as many processes if fork() exists.
TEST(FileLock, WhoReadsChangesAndWritesLosesNothing) {
  const tests::TempFolder folder;
  const std::filesystem::path path = folder / "number";
  constexpr int kOfEach = 3, kTimes = 40;
  tests::write_file(path, "0");
  int expected = kOfEach * kTimes;
#ifndef _WIN32
  expected *= 2;
  std::vector<pid_t> processes;
  for (int i = 0; i < kOfEach; ++i) {
    processes.push_back(::fork());
    if (processes.back() == 0) {
      count_in(path, kTimes);
      std::_Exit(testing::Test::HasFailure() ? 1 : 0);
    }
  }
#endif
  std::vector<std::thread> threads;
  for (int i = 0; i < kOfEach; ++i) threads.emplace_back([&] { count_in(path, kTimes); });
  for (std::thread& thread : threads) thread.join();
#ifndef _WIN32
  for (const pid_t process : processes) {
    int status = -1;
    EXPECT_EQ(::waitpid(process, &status, 0), process);
    EXPECT_EQ(status, 0);
  }
  EXPECT_EQ(folder.file_count(), 1U) << "no lock is left";
#endif
  EXPECT_EQ(tests::read_file(path), std::to_string(expected));
}

TEST(FileLock, IsBusyForSoLong) {
  const tests::TempFolder folder;
  {
    FileLock first, second;
    EXPECT_EQ(first.take(folder / "made/file"), FileLock::Status::kTaken);
    EXPECT_EQ(second.take(folder / "made/file", std::chrono::milliseconds(30)), FileLock::Status::kBusy);
    EXPECT_EQ(second.take(folder / "made/other"), FileLock::Status::kTaken);
  }
  FileLock third;
  EXPECT_EQ(third.take(folder / "made/file"), FileLock::Status::kTaken);
  FileLock of_long_name;
  EXPECT_EQ(of_long_name.take(folder / std::string(255, 'n')), FileLock::Status::kTaken);
  tests::write_file(folder / "file", "");
  FileLock fourth;
  EXPECT_EQ(fourth.take(folder / "file/below"), FileLock::Status::kImpossible);
}

#ifndef _WIN32
/// A lock file that a crash has left does not lock.
TEST(FileLock, GoesWithItsProgram) {
  const tests::TempFolder folder;
  const auto ends = [&] {
    FileLock lock;
    if (lock.take(folder / "file") == FileLock::Status::kTaken) std::_Exit(7);
  };
  EXPECT_EXIT(ends(), testing::ExitedWithCode(7), "");
  EXPECT_TRUE(std::filesystem::exists(folder / "lock-file"));
  FileLock next;
  EXPECT_EQ(next.take(folder / "file", std::chrono::milliseconds(0)), FileLock::Status::kTaken);
  ASSERT_EQ(mkfifo((folder / "lock-pipe").c_str(), 0600), 0);
  FileLock pipe;
  EXPECT_EQ(pipe.take(folder / "pipe"), FileLock::Status::kImpossible);
}
#endif

TEST(Files, AFileThatCannotBeWrittenIsAnErrorWithItsName) {
  const tests::TempFolder folder;
  const std::string_view piece = "text";
  ASSERT_TRUE(replace_file(folder / "file", std::span(&piece, 1)));
  EXPECT_TRUE(tests::is_refused(replace_file(folder / "file" / "within", std::span(&piece, 1)),
                                ErrorCode::kIo, {"within"}));
}

}  // namespace
}  // namespace vkattn::detail
