// Ctrl+C and kill while the tool works: no file is left, and the tool ends as shells expect.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>  // NOLINT(modernize-deprecated-headers): <csignal> lacks kill
#include <spawn.h>
#include <sys/wait.h>

#include <chrono>
#include <filesystem>
#include <string>
#include <thread>
#include <vector>

#include "support/temp_folder.hpp"
#include "tool_run.hpp"

extern char** environ;  // NOLINT(readability-redundant-declaration): POSIX has it in no header

namespace vkattn::tests {
namespace {

constexpr std::chrono::seconds kPatience{60};

/// Starts the tool in place of the shell, so that signals reach the tool. Returns 0 if that failed.
pid_t start_tool(const std::string& command) {
  const std::string line = "ulimit -c 0; exec '" VKATTN_TOOL "' " + command + " > /dev/null 2>&1";
  const char* const words[] = {"sh", "-c", line.c_str(), nullptr};
  // The process that started the tests may ignore signals, as shells do for commands in the background.
  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGINT);
  sigaddset(&signals, SIGTERM);
  sigaddset(&signals, SIGQUIT);
  posix_spawnattr_setsigdefault(&attributes, &signals);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGDEF);
  pid_t pid = 0;
  const int error =
      posix_spawn(&pid, "/bin/sh", nullptr, &attributes, const_cast<char* const*>(words), environ);
  posix_spawnattr_destroy(&attributes);
  return error == 0 ? pid : 0;
}

bool has_temporary(const TempFolder& folder) {
  for (const auto& entry : std::filesystem::directory_iterator(folder.path())) {
    if (entry.path().extension() == ".tmp") return true;
  }
  return false;
}

/// Sends the signal after a file was begun in the folder.
void expect_clean_end(const std::string& command, int signal, const TempFolder& folder) {
  SCOPED_TRACE(command);
  const pid_t pid = start_tool(command);
  ASSERT_GT(pid, 0);
  const auto begin = std::chrono::steady_clock::now();
  int status = 0;
  while (!has_temporary(folder)) {
    const bool ended = waitpid(pid, &status, WNOHANG) != 0;
    const bool late = std::chrono::steady_clock::now() - begin > kPatience;
    if (late) kill(pid, SIGKILL);
    ASSERT_FALSE(ended || late) << "began no file, status " << status;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  kill(pid, signal);
  ASSERT_EQ(waitpid(pid, &status, 0), pid);
  EXPECT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == signal) << "ended with status " << status;
  EXPECT_EQ(folder.file_count(), 0U);
}

TEST_F(ToolRun, LeavesNoFileWhereInterrupted) {
  // The run would take ten seconds with its check: a busy machine may delay the signal by a second or two.
  write_inputs({2, 4, 2000, 64}, {2, 2, 2000, 64}, {2, 2, 2000, 64});
  for (const int signal : {SIGINT, SIGTERM, SIGQUIT}) {
    const TempFolder outputs;
    const std::string command = "run --check --query " + file("query").string() + " --key " +
                                file("key").string() + " --value " + file("value").string() + " --output " +
                                (outputs / "out.npy").string() + " --lse " + (outputs / "lse.npy").string();
    expect_clean_end(command, signal, outputs);
  }
}

TEST_F(ToolOnDevice, BenchLeavesNoFileWhereInterrupted) {
  expect_clean_end("bench '8x8 d8' --json --output " + (folder_ / "report.json").string(), SIGINT, folder_);
}

}  // namespace
}  // namespace vkattn::tests
