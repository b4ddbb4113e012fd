// Files that appear whole or not at all, whatever ends the program.
#include "atomic_file.hpp"

#include <gtest/gtest.h>

#include <csignal>
#include <filesystem>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "support/temp_folder.hpp"

namespace vkattn::tests {
namespace {

TEST(AtomicFile, AppearsWholeOrNotAtAll) {
  const TempFolder folder;
  write_file(folder / "out", "old");
  {
    Result<AtomicFile> file = AtomicFile::create(folder / "out");
    ASSERT_TRUE(file.ok());
    ASSERT_TRUE(file->write("half").ok());
  }
  EXPECT_EQ(read_file(folder / "out"), "old");
  EXPECT_EQ(folder.file_count(), 1U);
  Result<AtomicFile> file = AtomicFile::create(folder / "out");
  ASSERT_TRUE(file.ok());
  ASSERT_TRUE(file->write("new").ok());
  ASSERT_TRUE(file->commit().ok());
  EXPECT_EQ(read_file(folder / "out"), "new");
  EXPECT_EQ(folder.file_count(), 1U);
}

TEST(AtomicFile, FollowsLinksAndRefusesFolders) {
  const TempFolder folder;
  write_file(folder / "target", "old");
  std::error_code error;
  std::filesystem::create_symlink(folder / "target", folder / "link", error);
  if (error) GTEST_SKIP() << "no symbolic links here: " << error.message();
  Result<AtomicFile> file = AtomicFile::create(folder / "link");
  ASSERT_TRUE(file.ok());
  ASSERT_TRUE(file->write("new").ok());
  ASSERT_TRUE(file->commit().ok());
  EXPECT_TRUE(std::filesystem::is_symlink(folder / "link"));
  EXPECT_EQ(read_file(folder / "target"), "new");
  EXPECT_FALSE(AtomicFile::create(folder.path()).ok());
  EXPECT_FALSE(AtomicFile::create(folder / "missing/out").ok());
  EXPECT_FALSE(AtomicFile::create("").ok());
}

#ifndef _WIN32
/// Begins two files and finishes the first, then ends by the signal.
void write_and_end_by(int signal, const TempFolder& folder) {
  std::signal(signal, SIG_DFL);  // what started the tests may ignore it
  Result<AtomicFile> whole = AtomicFile::create(folder / "whole");
  Result<AtomicFile> half = AtomicFile::create(folder / "half");
  const bool written = whole.ok() && half.ok() && whole->write("whole").ok() && half->write("half").ok();
  if (!written || folder.file_count() != 2 || !whole->commit().ok()) return;
  AtomicFile moved = std::move(half).value();
  std::raise(signal);
}

TEST(AtomicFileDeathTest, LeavesNothingBehindWhereASignalEndsTheProgram) {
  for (const int signal : {SIGINT, SIGTERM, SIGHUP}) {
    const TempFolder folder;
    EXPECT_EXIT(write_and_end_by(signal, folder), testing::KilledBySignal(signal), "") << signal;
    EXPECT_EQ(folder.file_count(), 1U) << signal;
    EXPECT_EQ(read_file(folder / "whole"), "whole") << signal;
  }
}

volatile std::sig_atomic_t signals_seen = 0;

TEST(AtomicFile, SignalsThatDoNotEndTheProgramKeepTheirMeaning) {
  const TempFolder folder;
  const auto ignored_before = std::signal(SIGHUP, SIG_IGN);
  const auto caught_before = std::signal(SIGTERM, [](int) { signals_seen = signals_seen + 1; });
  {
    Result<AtomicFile> file = AtomicFile::create(folder / "out");
    ASSERT_TRUE(file.ok());
    std::raise(SIGHUP);
    EXPECT_EQ(folder.file_count(), 1U) << "an ignored signal ends nothing";
    std::raise(SIGTERM);
    EXPECT_EQ(signals_seen, 1);
    EXPECT_EQ(folder.file_count(), 0U);
  }
  std::raise(SIGTERM);
  EXPECT_EQ(signals_seen, 2) << "the handler from before is there again";
  std::signal(SIGHUP, ignored_before);
  std::signal(SIGTERM, caught_before);
}

TEST(AtomicFile, MoreFilesThanTheHandlerKnows) {
  const TempFolder folder;
  const auto before = std::signal(SIGINT, SIG_DFL);
  {
    std::vector<AtomicFile> files;
    for (int i = 0; i < 40; ++i) {
      Result<AtomicFile> file = AtomicFile::create(folder / std::to_string(i));
      ASSERT_TRUE(file.ok());
      files.push_back(std::move(file).value());
    }
    EXPECT_EQ(folder.file_count(), 40U);
    for (std::size_t i = 0; i < files.size(); i += 2) EXPECT_TRUE(files[i].commit().ok());
  }
  EXPECT_EQ(folder.file_count(), 20U);
  EXPECT_EQ(std::signal(SIGINT, before), SIG_DFL) << "the handler went with the last file";
}
#endif

}  // namespace
}  // namespace vkattn::tests
