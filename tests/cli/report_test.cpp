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
#include <set>
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
/// Of children that must exceed it. A busy machine may take a good part of a second to start a shell.
constexpr milliseconds kShort{2000};

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
  for (const Case& c : {Case{"echo to out; echo to err >&2; exit 3", End::kExited, 3, "to out\n"},
                        {"i=0; while [ $i -lt 40000 ]; do echo 0123456789; i=$((i+1)); done; echo end",
                         End::kExited, 0, lines + "end\n"},
                        {"echo before; kill -SEGV $$", End::kSignalled, SIGSEGV, "before\n"},
                        {"echo before; exec sleep 60", End::kTimedOut, SIGTERM, "before\n", kShort},
                        {"trap 'exit 4' TERM; sleep 20 & wait", End::kTimedOut, 4, "", kShort},
                        {"trap '' TERM; exec sleep 60", End::kTimedOut, SIGKILL, "", kShort},
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
  request.cores = 2;
  request.load = [] { return 0.5; };
  return request;
}

class ReportOfABrokenDriver : public testing::Test {
 protected:
  void SetUp() override {
    request_ = broken_tool(folder_);
    request_.limit_s = 3;  // one step hangs; the hundred others must not take so long on a busy machine
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
  EXPECT_EQ(count("tile", "crashed"), 18U) << "of attention, gradients and multiplications";
  EXPECT_EQ(count("decode", "failed"), 12U) << "it has no others";
  EXPECT_EQ(count("lane", "wrong"), 1U);
  EXPECT_EQ(count("lane", "refused"), 1U);
  EXPECT_EQ(count("lane", "done"), 16U);
  EXPECT_EQ(count("lane", "done", "kernels"), 2U);
  EXPECT_EQ(count("lane", "refused", "statistics"), 1U) << "which is an answer";
  EXPECT_EQ(count("lane", "done", "statistics"), 6U);
  EXPECT_EQ(count("decode", "failed", "statistics"), 3U) << "it has lost the device";
  EXPECT_EQ(count("matrix", "hung"), 1U);
  EXPECT_EQ(count("matrix", "left out"), 17U) << "what hung once would hang seventeen times";
  EXPECT_EQ(count("matrix", "left out", "statistics"), 7U);
  EXPECT_EQ(count("matrix2", "left out"), 0U) << "the device does not have it";
}

TEST_F(ReportOfABrokenDriver, ThePageShowsIt) {
  const std::string page = cli::report_page(report_, "<?xml?><svg>roof</svg>");
  for (const char* const part : {"ended by signal 11", "ended after 3.00 s", "the device was lost",
                                 "right, largest error 0.25 of its tolerance",
                                 "<b>pass &amp; more</b>; Registers 40<br>", "refused: no &lt;f32&gt;",
                                 "Gradients, 16 heads", "Matrix multiplication, square", "<svg>roof</svg>"}) {
    EXPECT_TRUE(has(page, part));
  }
  EXPECT_FALSE(has(page, "<?xml"));
  EXPECT_TRUE(has(page, "\">&lt;no&gt;</li>")) << "the reason of a refusal";
  EXPECT_TRUE(has(page, "refused <sup><a href=\"#checks"));
  EXPECT_FALSE(has(page, " title=")) << "nothing is for the pointer alone";
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

/// Where steps of a section and kernel are among all.
std::vector<std::size_t> places_of(const std::vector<cli::ReportStep>& steps, const std::string& section,
                                   const std::string& kernel = "") {
  std::vector<std::size_t> places;
  for (std::size_t i = 0; i < steps.size(); ++i) {
    if (steps[i].section == section && (kernel.empty() || steps[i].kernel == kernel)) places.push_back(i);
  }
  return places;
}

TEST(Report, AsksSomethingOfEverythingFirst) {
  const Json device = Json::parse(R"({"features": {"pipeline_statistics": true}, "kernels": [
    {"name": "lane", "available": true}, {"name": "tile", "available": true},
    {"name": "decode", "available": true}, {"name": "matrix", "available": true}]})");
  const std::vector<cli::ReportStep> steps = cli::report_steps({}, device);
  // Ten kernels: four of attention, three of gradients, three of multiplications; then how fast four are.
  for (std::size_t i = 0; i < 10; ++i) {
    EXPECT_EQ(steps.at(i).section, "checks") << i;
    EXPECT_TRUE(has(steps[i].name, " f16")) << i;
    for (std::size_t j = 0; j < i; ++j) EXPECT_NE(steps[i].group, steps[j].group);
  }
  EXPECT_EQ(places_of(steps, "kernels"), (std::vector<std::size_t>{10, 11, 12, 13, 14, 15, 16, 17}));
  std::set<std::string> groups;
  const std::size_t peaks = places_of(steps, "peaks").at(0);
  for (std::size_t i = 0; i < peaks; ++i) groups.insert(steps[i].group);
  EXPECT_EQ(groups.size(), 1 + 10U * 3) << "each kernel in each type; the speeds have no group";
  for (const std::size_t i : places_of(steps, "checks")) EXPECT_TRUE(groups.contains(steps[i].group));
  // No section's second step comes before another's first, and no kernel is checked far ahead of others.
  std::size_t last_first = 0;
  for (const char* const section :
       {"statistics", "prefill", "decode", "fixed", "splits", "backward", "matmul"})
    last_first = std::max(last_first, places_of(steps, section).at(0));
  for (const char* const section : {"prefill", "decode", "splits", "backward", "matmul"})
    EXPECT_GT(places_of(steps, section).at(1), last_first) << section;
  EXPECT_LT(last_first, places_of(steps, "checks", "lane").at(9));
  EXPECT_LT(places_of(steps, "checks", "matrix").at(9), places_of(steps, "checks", "lane").at(10));
}

TEST(Report, FollowsARefusalWithTheNextProblemOfTheKernelAndType) {
  const TempFolder folder;
  ReportRequest request = broken_tool(folder);
  request.seconds = 20;
  write_file(folder / "vkattn", R"(#!/bin/sh
case "$*" in
  devices*) echo '{"choice": "device 0 Fake: chosen", "devices": [{"index": 0, "name": "Fake",
    "kernels": [{"name": "decode", "available": true}]}]}' ;;
  *"1x"*|*"4x777"*) echo '{"results": [{"outcome": "measured", "check": {"largest_share_of_tolerance": 0.5}}]}' ;;
  *) echo '{"results": [{"outcome": "refused", "message": "too many rows"}]}'; exit 3 ;;
esac
)");
  const Json report = cli::make_report(request, Json::object(), [](const Json&, double) {});
  std::vector<std::string> names;
  for (const Json& step : report["steps"]) names.push_back(step["name"].get<std::string>());
  ASSERT_GT(names.size(), 12U);
  const std::vector<std::string> begun(names.begin() + 1, names.begin() + 6);
  EXPECT_EQ(begun, (std::vector<std::string>{"h2 197x203 d64 f16 causal lse", "hq8 hkv2 1x1000 d128 f16",
                                             "1024 queries", "one query", "h2 100x300 d80 f32"}))
      << "with one f16 problem taken, the others wait";
  EXPECT_EQ(names[6], "hq8 hkv2 2x500 d64 f32");
  EXPECT_EQ(names[7], "h2 70x130 d256 bf16");
  EXPECT_EQ(names[8], "hq4 hkv1 1x700 d128 bf16");
}

/// A step that takes longer than its limit the first time, and how it ends on a machine with that load.
Json slow_step(const TempFolder& folder, double load, double remaining_s, const char* then,
               double limit_s = 0.7) {
  ReportRequest request = broken_tool(folder);
  write_file(folder / "vkattn", std::string("#!/bin/sh\ncd \"$(dirname \"$0\")\"\n") +
                                    "if [ -e begun ]; then " + then + "; fi\n: > begun\nexec sleep 60\n");
  std::filesystem::remove(folder / "begun");
  request.load = [load] { return load; };
  return cli::run_step(request, {"prefill", "d64", {"bench"}, "", limit_s}, remaining_s);
}

TEST(Report, RepeatsAStepThatExceedsItsTimeOnABusyMachine) {
  const TempFolder folder;
  const char* const kDone = "echo '{}'; exit 0";
  Json step = slow_step(folder, 7, 60, kDone, 2);  // within this time the first try must begin
  EXPECT_EQ(step["status"], "done");
  EXPECT_EQ(step["message"], "took longer than 2.00 s at first, with a load of 7.0 on 2 cores");
  EXPECT_EQ(step["load"], 7);
  step = slow_step(folder, 2, 60, kDone);
  EXPECT_EQ(step["status"], "hung") << "two cores with two things to do are not busy";
  EXPECT_EQ(step["message"], "ended after 700 ms");
  step = slow_step(folder, -1, 60, kDone);
  EXPECT_EQ(step["status"], "hung") << "where the system tells no load";
  step = slow_step(folder, 7, 60, "exec sleep 60");
  EXPECT_EQ(step["status"], "hung");
  EXPECT_TRUE(
      has(step["message"].get<std::string>(), "at first, with a load of 7.0 on 2 cores; ended after 1.40 s"));
  for (const double remaining_s : {1.0, 1.9}) {  // of which the second try gets nothing, or too little
    step = slow_step(folder, 7, remaining_s, "exec sleep 60");
    EXPECT_EQ(step["status"], "left out") << "nobody knows whether it hangs: " << step;
    EXPECT_EQ(step["out_of_time"], true);
  }
}

TEST(Report, RecordsCoresAndLoad) {
  const TempFolder folder;
  ReportRequest request = broken_tool(folder);
  request.seconds = 1.5;
  double load = 2.5;
  request.load = [&load] { return load += 0.5; };
  const Json report = cli::make_report(request, Json::object(), [](const Json&, double) {});
  EXPECT_EQ(report["machine"]["cores"], 2);
  EXPECT_EQ(report["machine"]["load_at_begin"], 3);
  EXPECT_EQ(report["machine"].value("load_at_end", 0.0), load);
  EXPECT_EQ(report["steps"][0]["load"], 3.5);
  EXPECT_GE(cli::machine_cores(), 1U);
  EXPECT_GE(cli::machine_load(), 0) << "of this machine";
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
  EXPECT_FALSE(has(svg, "width=\"640\" height")) << "a page has a background of its own";
  EXPECT_EQ(picture::draw_chart_for_page({"t", "", "y", {{"none", {}}}}, "x"), "");
}

}  // namespace
}  // namespace vkattn::tests
