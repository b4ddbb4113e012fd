// What the tool prints at a terminal and elsewhere: numbers, lines, progress.
#include "console.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdlib>
#include <string>
#include <thread>
#include <vector>

#include "support/text.hpp"

namespace vkattn::tests {
namespace {

TEST(Console, WritesNumbersWithUnits) {
  EXPECT_EQ(console::significant(9.996), "10.0");
  EXPECT_EQ(console::significant(1234.5), "1234");
  EXPECT_EQ(console::duration(999.6e3), "1.00 ms");
  EXPECT_EQ(console::duration(600e9), "10.0 min");
  EXPECT_EQ(console::duration(10800e9), "3.00 h");
  EXPECT_EQ(console::bytes(96), "96 B");
  EXPECT_EQ(console::bytes(4294967295.0), "4 GiB");
  EXPECT_EQ(console::bytes(1.5 * 1048576), "1.50 MiB");
  EXPECT_EQ(console::percent(0.0123), "1.2 %");
  EXPECT_EQ(console::count(1, "row") + console::count(2, "row"), "1 row2 rows");
}

TEST(Console, QuotesWordsForAShell) {
  EXPECT_EQ(console::shell_word("ids=a/b.npy"), "ids=a/b.npy");
  EXPECT_EQ(console::shell_word("llvmpipe (LLVM)"), "'llvmpipe (LLVM)'");
  EXPECT_EQ(console::shell_word("it's"), "'it'\\''s'");
  EXPECT_EQ(console::shell_word(""), "''");
}

TEST(Console, BreaksLinesAndPadsCodePoints) {
  EXPECT_EQ(console::wrap("one two three", 7), (std::vector<std::string>{"one two", "three"}));
  EXPECT_EQ(console::wrap("", 7), (std::vector<std::string>{""}));
  EXPECT_EQ(console::wrap("incompressible", 4), (std::vector<std::string>{"incompressible"}));
  EXPECT_EQ(console::pad_left("\xc3\xa9", 3), "  \xc3\xa9");
  EXPECT_EQ(console::labelled("a", "one two three", 3, 1, 11), " a  one two\n    three\n");
  EXPECT_EQ(console::labelled_list("a", {"b c", "d e", "f"}, 2, 0, 8), "a b c,\n  d e, f\n");
  EXPECT_EQ(console::printable("a\x1b[2Jb\n"), "a?[2Jb?");
}

TEST(Console, AProgressBarPrintsLinesIfItIsAskedToWhereThereIsNoTerminal) {
  testing::internal::CaptureStderr();
  {
    console::ProgressBar silent, lines(1);
    silent.update(0, "nothing");
    lines.update(0, "too early");
    std::this_thread::sleep_for(std::chrono::milliseconds(1100));
    silent.update(0.5, "nothing");
    lines.update(0.5, "half");
    lines.update(0.6, "too early again");
  }
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "half\n");
}

/// What `body` writes to standard error, which is a terminal meanwhile.
template <class Body>
std::string said_at_a_terminal(const Body& body) {
  const int screen = posix_openpt(O_RDWR | O_NOCTTY);
  EXPECT_TRUE(screen >= 0 && grantpt(screen) == 0 && unlockpt(screen) == 0);
  const int terminal = open(ptsname(screen), O_WRONLY | O_NOCTTY);
  const int before = dup(STDERR_FILENO);
  EXPECT_EQ(dup2(terminal, STDERR_FILENO), STDERR_FILENO);
  body();
  EXPECT_EQ(dup2(before, STDERR_FILENO), STDERR_FILENO);
  close(terminal);
  close(before);
  std::string said;
  std::array<char, 4096> piece{};
  for (ssize_t size = 0; (size = read(screen, piece.data(), piece.size())) > 0;)
    said.append(piece.data(), static_cast<std::size_t>(size));
  close(screen);
  return said;
}

TEST(Console, AProgressBarDrawsStepsTenTimesASecondAtATerminal) {
  const auto begin = std::chrono::steady_clock::now();
  const std::string said = said_at_a_terminal([] {
    console::ProgressBar bar;
    bar.update(0, "compiling");
    bar.update(0, "compiled");
    for (int step = 1; step < 50; ++step) bar.update_step(0.5, "step " + std::to_string(step));
    std::this_thread::sleep_for(std::chrono::milliseconds(110));
    bar.update_step(1, "the last step");
  });
  const auto tenths = (std::chrono::steady_clock::now() - begin) / std::chrono::milliseconds(100);
  for (const char* const text : {"compiling", "compiled", "the last step"})
    EXPECT_TRUE(has(said, text)) << said;
  EXPECT_LE(std::ranges::count(said, '\r'), 3 + tenths) << "two texts, each tenth, and the end\n" << said;
}

}  // namespace
}  // namespace vkattn::tests
