// `vkattn report`: all that a developer would ask of a device, in one call and one page.
#include <algorithm>
#include <array>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <system_error>

#include "atomic_file.hpp"
#include "command.hpp"
#include "console.hpp"
#include "error.hpp"
#include "open_runtime.hpp"
#include "picture/canvas.hpp"
#include "report/answers.hpp"
#include "report/page.hpp"
#include "report/steps.hpp"
#include "runtime/input_file.hpp"

namespace vkattn::cli {
namespace {

constexpr const char* kDefaultFolder = "vkattn-report";
constexpr double kDefaultMinutes = 10;

/// The options as typed.
struct ReportArguments {
  std::string minutes, output = kDefaultFolder;
  DeviceArguments device;
};

/// This program, for the children.
std::string own_path(const Invocation& invocation) {
  std::error_code error;
  const std::filesystem::path self = std::filesystem::read_symlink("/proc/self/exe", error);
  return error ? invocation.program : self.string();
}

ReportRequest read_request(const ReportArguments& arguments, const Invocation& invocation) {
  ReportRequest request;
  request.program = own_path(invocation);
  request.device = arguments.device.device;
  double minutes = kDefaultMinutes;
  if (!arguments.minutes.empty()) {
    minutes = parse_number("--minutes", arguments.minutes);
    constexpr double kMost = 24 * 60;
    if (!(minutes > 0) || minutes > kMost)
      fail_usage("--minutes " + arguments.minutes + " is not above 0 and at most 1440");
  }
  request.seconds = minutes * 60;
  std::error_code error;
  std::filesystem::create_directories(arguments.output, error);
  if (error)
    fail_usage("the folder '" + console::printable(arguments.output) +
               "' cannot be made: " + error.message());
  request.folder = std::filesystem::absolute(arguments.output).string();
  request.can_plot = picture::check_support().ok();
  return request;
}

void write_file(const std::filesystem::path& path, const std::string& text) {
  AtomicFile file = take(AtomicFile::create(path));
  require(file.write(text));
  require(file.commit());
}

/// Empty where a step has made none.
std::string read_picture(const std::filesystem::path& path) {
  constexpr std::uintmax_t kMostBytes = std::uintmax_t{64} << 20U;
  const Result<std::string> text = detail::read_input(path, kMostBytes);
  return text.ok() ? *text : std::string();
}

/// What went wrong, with the command to repeat it.
std::string bad_steps(const Json& report) {
  std::string text;
  for (const Json& step : report["steps"]) {
    if (!is_bad(text_of(step, "status"))) continue;
    text += text_of(step, "status") + ": " + console::printable(text_of(step, "command")) + "\n  " +
            console::printable(text_of(step, "message")) + "\n";
  }
  return text;
}

/// The verdict first.
std::string summary_text(const Json& report, const std::filesystem::path& folder) {
  const std::string left_out = left_out_text(report);
  std::string text;
  const auto add = [&](const std::string& sentence) {
    for (const std::string& line : console::wrap(sentence, console::line_width())) text += line + "\n";
  };
  const bool is_good = report["device"].is_object() && count_of_bad(report) == 0;
  for (const std::string& line :
       console::wrap(console::printable(verdict(report)) + ".", console::line_width()))
    text += console::colored(line, is_good ? console::Color::kGreen : console::Color::kRed) + "\n";
  text += bad_steps(report);
  add(console::count(count_of(report, {"done"}), "step") + " done, " +
      std::to_string(count_of(report, {"refused"})) + " refused by a kernel, " +
      std::to_string(count_of(report, {"left out"})) + " left out, " + std::to_string(count_of_bad(report)) +
      " went wrong");
  if (!left_out.empty()) add(left_out);
  add(machine_text(report));
  return text + "wrote " + console::printable((folder / "report.html").string()) + " and report.json\n";
}

int run_report(const ReportArguments& arguments, const Invocation& invocation) {
  const ReportRequest request = read_request(arguments, invocation);
  const std::filesystem::path folder = request.folder;
  const std::filesystem::path picture = folder / "roofline.svg";
  std::error_code ignored;
  std::filesystem::remove(picture, ignored);  // of an earlier report
  Json head{
      {"version", invocation.version}, {"date", console::date_text()}, {"command", invocation.command_line}};
  console::ProgressBar bar;
  const auto keep = [&](const Json& report, double share) {
    write_file(folder / "report.json", dump_json(report));
    write_file(folder / "report.html", report_page(report, read_picture(picture)));
    const Json& last = report["steps"].back();
    const std::size_t bad = count_of_bad(report);
    const std::string warning = bad == 0 ? "" : std::to_string(bad) + " went wrong; ";
    bar.update(share, warning + last.value("section", "") + ", " + last.value("name", ""));
  };
  const Json report = make_report(request, std::move(head), keep);
  bar.clear();
  const std::size_t bad = count_of_bad(report);
  print(summary_text(report, folder));
  if (report["device"].is_null())
    fail_device("no device was found: " + report["steps"][0].value("message", ""));
  if (bad != 0) fail(console::count(bad, "step") + " went wrong, as the page's first table says");
  return 0;
}

}  // namespace

Command add_report_command(CLI::App& parent, const Invocation& invocation) {
  CLI::App& app = add_subcommand(parent, "report", "Check, time and tune a device, and write a page");
  auto a = std::make_shared<ReportArguments>();
  add_value(
      app, "--minutes", a->minutes, "M",
      "Time for all of it, default 10; what does not fit is left out, something of everything comes first");
  add_value(app, "--output", a->output, "FOLDER",
            std::string("Where report.html and report.json go, default ").append(kDefaultFolder));
  add_device_option(app, a->device);
  set_help(
      app, "vkattn report [OPTIONS]",
      "Each kernel is checked first, in each type, and timed; then come the device's peaks with a small\n"
      "suite, and something of all else: what the driver's compiler says of each kernel's pipelines,\n"
      "prefill, decode, the fixed cost of small problems, splits over the keys, gradients and matrix\n"
      "multiplications. With more time each kernel is checked on up to eighteen problems, the rest is\n"
      "measured, and block sizes are tuned. On an idle machine two minutes suffice for\n"
      "a check of every kernel.\n\n"
      "Each step runs in a process of its own: a driver that crashes or hangs is a line of the report. A\n"
      "step that exceeds its time on a busy machine is repeated before it counts as hung. Files are written\n"
      "after each step. Close the programs that use the device; attach report.json to an issue.\n\n"
      "Examples:\n"
      "  vkattn report\n"
      "  vkattn report --minutes 3 --device NVIDIA --output my-gpu\n");
  return {&app, [a, invocation] { return run_report(*a, invocation); }};
}

}  // namespace vkattn::cli
