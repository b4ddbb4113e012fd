// `vkattn report`: children that crash or hang, the steps with a tool that does so, and charts.
#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>  // NOLINT(modernize-deprecated-headers): <csignal> lacks kill
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <vector>

#include "json.hpp"
#include "picture/charts.hpp"
#include "report/child_process.hpp"
#include "report/page.hpp"
#include "report/steps.hpp"
#include "support/temp_folder.hpp"
#include "support/text.hpp"

namespace vkattn::tests {
namespace {

using cli::ChildResult;
using cli::ReportRequest;
using cli::run_child;
using std::chrono::milliseconds;

constexpr milliseconds kLong{20000};

/// How children end, and what they printed. One prints more than a pipe holds. Another leaves a process that
/// keeps both streams open, and run_child() does not wait for that process.
TEST(ChildProcess, EndsAreTold) {
  using End = ChildResult::End;
  std::string lines;
  for (int i = 0; i < 40000; ++i) lines += "0123456789\n";
  struct Case {
    std::string script;
    End end;
    int code;
    std::string out;
    milliseconds limit = kLong;
  };
  for (const Case& c :
       {Case{"echo to out; echo to err >&2; exit 3", End::kExited, 3, "to out\n"},
        {"i=0; while [ $i -lt 40000 ]; do echo 0123456789; i=$((i+1)); done; echo end", End::kExited, 0,
         lines + "end\n"},
        {"echo before; kill -SEGV $$", End::kSignalled, SIGSEGV, "before\n"},
        {"echo before; exec sleep 60", End::kTimedOut, SIGTERM, "before\n", milliseconds(300)},
        {"trap 'exit 4' TERM; sleep 3 & wait", End::kTimedOut, 4, "", milliseconds(300)},
        {"trap '' TERM; exec sleep 60", End::kTimedOut, SIGKILL, "", milliseconds(300)},
        {"sleep 15 & echo done", End::kExited, 0, "done\n"}}) {
    SCOPED_TRACE(c.script);
    const auto begin = std::chrono::steady_clock::now();
    const ChildResult child = run_child({"/bin/sh", "-c", c.script}, c.limit);
    EXPECT_EQ(child.end, c.end);
    EXPECT_EQ(child.code, c.code);
    EXPECT_TRUE(child.out == c.out) << child.out.size() << " bytes";
    EXPECT_EQ(child.err, has(c.script, "to err") ? "to err\n" : "");
    if (has(c.script, "sleep")) {
      EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(10));
    }
  }
}

TEST(ChildProcess, ThatIsMissingSaysSo) {
  const ChildResult child = run_child({"/nonexistent/vkattn", "devices"}, kLong);
  EXPECT_EQ(child.end, ChildResult::End::kNotStarted);
  EXPECT_TRUE(has(child.err, "/nonexistent/vkattn"));
}

/// Stands for a report that a signal ends: a process that runs a child. The child holds the writing end of a
/// pipe, and has a file that it removes when it is asked to end.
pid_t start_parent(const TempFolder& folder, int writing) {
  const pid_t parent = ::fork();
  if (parent != 0) return parent;
  const rlimit none{0, 0};
  (void)::setrlimit(RLIMIT_CORE, &none);  // SIGQUIT would leave a core file
  for (const int signal : {SIGINT, SIGTERM, SIGHUP, SIGQUIT}) std::signal(signal, SIG_DFL);
  const std::string script = "trap 'rm child.tmp; exit 4' TERM; echo $$ > child.tmp; echo > /dev/fd/" +
                             std::to_string(writing) + "; while :; do sleep 0.05; done";
  (void)run_child({"/bin/sh", "-c", "cd '" + folder.path().string() + "' && " + script}, kLong);
  std::_Exit(0);
}

/// True if there is something to read, or if no writer is left.
bool is_readable(int reading) {
  pollfd stream{reading, POLLIN, 0};
  return ::poll(&stream, 1, 10000) == 1;
}

TEST(ChildProcess, EndsWithItsParent) {
  std::vector<int> signals{SIGINT, SIGTERM, SIGHUP, SIGQUIT};
#ifdef __linux__
  signals.push_back(SIGKILL);
#endif
  for (const int signal : signals) {
    SCOPED_TRACE(signal);
    const TempFolder folder;
    std::array<int, 2> ends{};
    ASSERT_EQ(::pipe(ends.data()), 0);
    const pid_t parent = start_parent(folder, ends[1]);
    ASSERT_GT(parent, 0);
    (void)::close(ends[1]);
    char line = 0;
    ASSERT_TRUE(is_readable(ends[0]) && ::read(ends[0], &line, 1) == 1) << "the child has begun";
    ASSERT_EQ(::kill(parent, signal), 0);
    int status = 0;
    ASSERT_EQ(::waitpid(parent, &status, 0), parent);
    EXPECT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == signal) << status;
    // If the parent is killed, the child ends by itself soon.
    EXPECT_TRUE(is_readable(ends[0]) && ::read(ends[0], &line, 1) == 0) << "the child lives on";
    EXPECT_EQ(folder.file_count(), 0U);
    (void)::close(ends[0]);
  }
}

/// Replaces the tool: the driver crashes with tile, hangs with matrix and loses the device with decode. lane
/// is right except for one problem.
constexpr const char* kBrokenTool = R"(#!/bin/sh
case "$*" in
  devices*) echo '{"choice": "device 0 Fake: chosen, the only one", "devices": [{"index": 0, "name": "Fake",
    "features": {"pipeline_statistics": true}, "kernels": [{"name": "lane", "available": true},
    {"name": "tile", "available": true}, {"name": "decode", "available": true},
    {"name": "matrix", "available": true}, {"name": "matrix2", "available": false}]}]}' ;;
  kernels*"matmul"*"f32 --stats"*"--kernel lane"*) echo '{"kernel": "lane", "refused": "no <f32>"}'
    echo 'vkattn: no <f32>' >&2; exit 3 ;;
  kernels*"--kernel lane"*) echo '{"pipelines": [{"pipeline": "pass & more", "statistics": {"Registers": 40.0}}]}' ;;
  *"--kernel tile"*) kill -SEGV $$ ;;
  *"--kernel matrix"*) exec sleep 60 ;;
  *"--kernel decode"*) echo 'vkattn: the device was lost' >&2
    echo '{"results": [{"problem": "p", "outcome": "failed", "message": "the device was lost"}]}'; exit 3 ;;
  *"d80 f32"*"--kernel lane"*) echo '{"results": [{"problem": "p", "outcome": "measured"}]}'; exit 1 ;;
  *d256*"--kernel lane"*) echo '{"results": [{"problem": "p", "outcome": "refused", "message": "<no>"}]}'; exit 3 ;;
  bench*) echo '{"results": [{"problem": "h1 8x64 d64", "kernel": "lane", "outcome": "measured", "median_ms": 1,
    "p5_ms": 1, "p95_ms": 2, "gflops_per_second": 12.5, "gbytes_per_second": 3,
    "check": {"largest_share_of_tolerance": 0.25}}]}' ;;
  *) echo '{}' ;;
esac
)";

/// A report by that tool, written into the folder.
ReportRequest broken_tool(const TempFolder& folder) {
  write_file(folder / "vkattn", kBrokenTool);
  std::filesystem::permissions(folder / "vkattn", std::filesystem::perms::owner_all);
  ReportRequest request;
  request.program = (folder / "vkattn").string();
  request.folder = folder.path().string();
  return request;
}

class ReportOfABrokenDriver : public testing::Test {
 protected:
  void SetUp() override {
    request_ = broken_tool(folder_);
    request_.limit_s = 0.5;
    report_ = cli::make_report(request_, Json{{"version", "1"}}, [this](const Json& report, double share) {
      EXPECT_EQ(report["steps"].size(), ++kept_) << "each step is kept as soon as it is over";
      EXPECT_GE(share, share_);
      share_ = share;
    });
  }

  /// The number of steps of a kernel's checks that have the status.
  [[nodiscard]] std::size_t count(const std::string& kernel, const std::string& status,
                                  const std::string& section = "checks") const {
    return static_cast<std::size_t>(std::ranges::count_if(report_["steps"], [&](const Json& step) {
      return step["section"] == section && step["kernel"] == kernel && step["status"] == status;
    }));
  }

  TempFolder folder_;
  ReportRequest request_;
  Json report_;
  std::size_t kept_ = 0;
  double share_ = 0;
};

TEST_F(ReportOfABrokenDriver, HasALineForWhateverHappened) {
  EXPECT_EQ(report_["device"]["name"], "Fake");
  EXPECT_EQ(share_, 1);
  EXPECT_EQ(count("tile", "crashed"), 16U) << "of attention, gradients and multiplications";
  EXPECT_EQ(count("decode", "failed"), 10U) << "it has no others";
  EXPECT_EQ(count("lane", "wrong"), 1U);
  EXPECT_EQ(count("lane", "refused"), 1U);
  EXPECT_EQ(count("lane", "done"), 14U);
  EXPECT_EQ(count("matrix", "hung", "statistics"), 1U);
  EXPECT_EQ(count("lane", "refused", "statistics"), 1U) << "which is an answer";
  EXPECT_EQ(count("lane", "done", "statistics"), 6U);
  EXPECT_EQ(count("decode", "failed", "statistics"), 3U) << "it has lost the device";
  EXPECT_GE(count("matrix", "left out"), 10U) << "what hung once would hang ten times";
  EXPECT_EQ(count("matrix2", "left out"), 0U) << "the device does not have it";
}

TEST_F(ReportOfABrokenDriver, ThePageShowsIt) {
  const std::string page = cli::report_page(report_, "<?xml?><svg>roof</svg>");
  for (const char* const part :
       {"ended by signal 11", "ended after 500 ms", "the device was lost", "right, 0.25",
        "<b>pass &amp; more</b>; Registers 40<br>", "refused: no &lt;f32&gt;", "Gradients, 16 heads",
        "Matrix multiplication, square", "<svg>roof</svg>"}) {
    EXPECT_TRUE(has(page, part));
  }
  EXPECT_FALSE(has(page, "<?xml"));
  EXPECT_FALSE(has(page, "<no>")) << "what others say is text, not markup";
  EXPECT_TRUE(has(page, "vkattn bench &quot;") || has(page, "vkattn bench &#39;") ||
              has(page, "vkattn bench '"))
      << "with the command to repeat it";
}

TEST(Report, LeavesOutWhatTheTimeDoesNotSufficeFor) {
  const TempFolder folder;
  ReportRequest request = broken_tool(folder);
  request.seconds = 0.5;
  const Json report = cli::make_report(request, Json::object(), [](const Json&, double) {});
  ASSERT_GT(report["steps"].size(), 1U);
  EXPECT_EQ(report["steps"].back()["status"], "left out");
  EXPECT_TRUE(has(report["steps"].back()["message"].get<std::string>(), "the time was over"));
}

TEST(Report, IsAboutTheDeviceThatTheRuntimeChose) {
  Json step = Json::parse(
      R"({"data": {"devices": [{"index": 0, "name": "First"}, {"index": 1, "name": "Second"}]}})");
  const auto chosen = [&](const std::string& choice) {
    step["data"]["choice"] = choice;
    return cli::chosen_device(step);
  };
  EXPECT_EQ(chosen("device 0 First: not the best type\ndevice 1 Second: chosen\n")["name"], "Second");
  EXPECT_EQ(chosen("device 0 First: chosen by 'fir'\ndevice 1 Second: not the one asked for\n")["name"],
            "First");
  EXPECT_TRUE(chosen("").is_null());
  EXPECT_TRUE(cli::chosen_device(Json::object()).is_null());
}

TEST(Chart, HasAMarkForEachPointAndNamesLines) {
  const picture::Chart chart{"Rates <of two>",
                             "",
                             "GB/s",
                             {{"one", {{64, 1.5}, {1024, 3}}, 0}, {"two", {{64, 0}}, 1}, {"nothing", {}}}};
  const std::string svg = picture::draw_chart_for_page(chart, "keys");
  EXPECT_TRUE(has(svg, "Rates &lt;of two&gt;"));
  EXPECT_TRUE(has(svg, ">1k<"));
  EXPECT_TRUE(has(svg, "one, 1024: 3"));
  EXPECT_TRUE(has(svg, "two, 64: 0"));
  EXPECT_FALSE(has(svg, "nothing"));
  EXPECT_FALSE(has(svg, "nan"));
  EXPECT_TRUE(has(svg, "currentColor"));
  EXPECT_FALSE(has(svg, "width=\"640\" height")) << "a page has a background of its own";
  EXPECT_EQ(picture::draw_chart_for_page({"t", "", "y", {{"none", {}}}}, "x"), "");
}

}  // namespace
}  // namespace vkattn::tests
