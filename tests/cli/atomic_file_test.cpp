// Files appear whole or not at all, whatever ends the program.
#include "atomic_file.hpp"

#include <gtest/gtest.h>

#include <csignal>
#include <filesystem>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "support/must.hpp"
#include "support/temp_folder.hpp"

#ifndef _WIN32
#include <sys/resource.h>
#endif

namespace vkattn::tests {
namespace {

/// Writes a whole file, or fails the test.
void write_whole(const std::filesystem::path& path, const std::string& text) {
  AtomicFile file = must(AtomicFile::create(path));
  ASSERT_TRUE(file.write(text).ok());
  ASSERT_TRUE(file.commit().ok());
}

TEST(AtomicFile, AppearsWholeOrNotAtAll) {
  const TempFolder folder;
  write_file(folder / "out", "old");
  {
    AtomicFile file = must(AtomicFile::create(folder / "out"));
    ASSERT_TRUE(file.write("half").ok());
  }
  EXPECT_EQ(read_file(folder / "out"), "old");
  EXPECT_EQ(folder.file_count(), 1U);
  write_whole(folder / "out", "new");
  EXPECT_EQ(read_file(folder / "out"), "new");
  EXPECT_EQ(folder.file_count(), 1U);
}

TEST(AtomicFile, RefusesWhatCannotBeAFile) {
  const TempFolder folder;
  EXPECT_FALSE(AtomicFile::create(folder.path()).ok());
  EXPECT_FALSE(AtomicFile::create(folder / "missing/out").ok());
  EXPECT_FALSE(AtomicFile::create("").ok());
}

TEST(AtomicFile, FollowsLinksToWhatIsThereAndWhatIsNotYet) {
  const TempFolder folder;
  namespace fs = std::filesystem;
  std::error_code error;
  fs::create_directory(folder / "sub");
  fs::create_symlink("sub/second", folder / "first", error);
  if (error) GTEST_SKIP() << "no symbolic links here: " << error.message();
  fs::create_symlink(folder / "sub/target", folder / "sub/second");
  fs::create_symlink("round", folder / "round");
  fs::create_symlink("missing/out", folder / "nowhere");
  EXPECT_EQ(behind_links(folder / "first"), folder / "sub/target");
  for (const char* const text : {"new", "newer"}) {
    write_whole(folder / "first", text);
    EXPECT_TRUE(fs::is_symlink(folder / "first"));
    EXPECT_TRUE(fs::is_regular_file(fs::symlink_status(folder / "sub/target")));
    EXPECT_EQ(read_file(folder / "sub/target"), text);
  }
  EXPECT_FALSE(AtomicFile::create(folder / "round").ok());
  EXPECT_FALSE(AtomicFile::create(folder / "nowhere").ok());
}

TEST(AtomicFile, TakesNamesOfFullLength) {
  const TempFolder folder;
  const std::string name(255, 'n');
  for (const char* const text : {"new", "newer"}) {
    write_whole(folder / name, text);
    EXPECT_EQ(read_file(folder / name), text);
  }
  EXPECT_FALSE(AtomicFile::create(folder / (name + "n")).ok());
}

#ifndef _WIN32
TEST(AtomicFile, KeepsThePermissionsOfTheFileThatWasThere) {
  const TempFolder folder;
  for (const unsigned mode : {0600U, 0664U, 0755U}) {
    const auto permissions = static_cast<std::filesystem::perms>(mode);
    write_file(folder / "out", "old");
    std::filesystem::permissions(folder / "out", permissions);
    AtomicFile file = must(AtomicFile::create(folder / "out"));
    for (const auto& entry : std::filesystem::directory_iterator(folder.path())) {
      EXPECT_EQ(entry.status().permissions(), permissions) << entry.path() << " from its beginning";
    }
    ASSERT_TRUE(file.write("new").ok());
    ASSERT_TRUE(file.commit().ok());
    EXPECT_EQ(std::filesystem::status(folder / "out").permissions(), permissions) << mode;
  }
}

/// Begins two files and finishes the first. Then the signal ends the process.
void write_and_end_by(int signal, const TempFolder& folder) {
  std::signal(signal, SIG_DFL);  // the process that started the tests may ignore it
  const rlimit none{0, 0};
  (void)setrlimit(RLIMIT_CORE, &none);  // SIGQUIT would leave a core file
  Result<AtomicFile> whole = AtomicFile::create(folder / "whole");
  Result<AtomicFile> half = AtomicFile::create(folder / "half");
  const bool written = whole.ok() && half.ok() && whole->write("whole").ok() && half->write("half").ok();
  if (!written || folder.file_count() != 2 || !whole->commit().ok()) return;
  AtomicFile moved = std::move(half).value();
  std::raise(signal);
}

TEST(AtomicFileDeathTest, LeavesNothingBehindWhereASignalEndsTheProgram) {
  for (const int signal : {SIGINT, SIGTERM, SIGHUP, SIGQUIT}) {
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
    AtomicFile file = must(AtomicFile::create(folder / "out"));
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
      files.push_back(must(AtomicFile::create(folder / std::to_string(i))));
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
