// Files that the runtime keeps: whole at any time, whoever writes them.
#include "runtime/files.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "support/must.hpp"
#include "support/temp_folder.hpp"

namespace vkattn::detail {
namespace {

/// Two runtimes of one program keep the same files.
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

TEST(Files, AFileThatCannotBeWrittenIsAnErrorWithItsName) {
  const tests::TempFolder folder;
  const std::string_view piece = "text";
  ASSERT_TRUE(replace_file(folder / "file", std::span(&piece, 1)));
  EXPECT_TRUE(tests::is_refused(replace_file(folder / "file" / "within", std::span(&piece, 1)),
                                ErrorCode::kIo, {"within"}));
}

}  // namespace
}  // namespace vkattn::detail
