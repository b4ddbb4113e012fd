// `vkattn kernels`: the pipelines of a plan, and the driver's statistics about them.
#include <vkattn/runtime.hpp>

#include <algorithm>
#include <cctype>
#include <cmath>
#include <cstddef>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "atomic_file.hpp"
#include "choice_options.hpp"
#include "command.hpp"
#include "console.hpp"
#include "error.hpp"
#include "harness/runnable.hpp"
#include "json.hpp"
#include "open_runtime.hpp"
#include "problem/gradients.hpp"
#include "problem/problem.hpp"
#include "recorded_devices.hpp"
#include "score_file.hpp"

namespace vkattn::cli {
namespace {

using bench::parse_problem;
using bench::ScoreKind;

constexpr std::size_t kStatisticLabelWidth = 28;
constexpr std::size_t kPipelineIndent = 3;
constexpr const char* kDefaultProblem = "b1 h8 512x512 d64";

/// The options as typed.
struct KernelsArguments {
  std::vector<std::string> problem;
  std::string isa;
  std::vector<std::string> capabilities;
  DeviceArguments where;
  ChoiceArguments choice;
  bool stats = false, json = false;
  ScoreArguments score;
};

/// Everything that is printed. It is collected first.
struct Pipelines {
  std::string problem;
  std::string kernel;
  std::string plan;  ///< the plan's describe()
  std::vector<KernelSupport> kernels;
  std::vector<PipelineInfo> pipelines;
  std::vector<PipelineStatistics>
      statistics;       ///< of each executable of each pipeline, if they were asked for
  std::string refusal;  ///< stands in place of a plan if no kernel takes the problem
};

std::string joined(const std::vector<std::string>& words) {
  std::string text;
  for (const std::string& word : words) text += (text.empty() ? "" : " ") + word;
  return text;
}

std::string number_text(double value) {
  const bool whole = std::floor(value) == value && std::abs(value) < 1e15;
  return whole ? std::to_string(static_cast<long long>(value)) : console::significant(value);
}

Json pipeline_json(const PipelineInfo& pipeline) {
  return Json{
      {"pipeline", pipeline.pass}, {"shader", pipeline.shader}, {"workgroup_size", pipeline.workgroup_size}};
}

/// An entry for each pipeline, or with statistics for each executable of each pipeline.
Json pipelines_json(const Pipelines& found) {
  Json list = Json::array();
  for (const PipelineInfo& pipeline : found.pipelines) {
    const std::size_t before = list.size();
    for (const PipelineStatistics& executable : found.statistics) {
      if (executable.pipeline != pipeline.pass) continue;
      Json statistics = Json::object();
      for (const PipelineStatistics::Entry& entry : executable.entries) statistics[entry.name] = entry.value;
      Json item = pipeline_json(pipeline);
      item["executable"] = executable.executable;
      item["subgroup_size"] = executable.subgroup_size;
      item["statistics"] = std::move(statistics);
      list.push_back(std::move(item));
    }
    if (list.size() == before) list.push_back(pipeline_json(pipeline));
  }
  return list;
}

std::string to_json_text(const Pipelines& found, const Capabilities& device, const Invocation& invocation) {
  Json json{{"version", invocation.version},
            {"device", device_json(device)},
            {"problem", found.problem},
            {"kernel", found.kernel},
            {"kernels", kernels_json(found.kernels)}};
  if (found.refusal.empty()) {
    json["pipelines"] = pipelines_json(found);
  } else {
    json["refused"] = found.refusal;
  }
  return dump_json(json);
}

std::string pipeline_table(const std::vector<PipelineInfo>& pipelines) {
  const std::string indent(kPipelineIndent, ' ');
  if (pipelines.empty()) return indent + "pipelines: none, as there is nothing to compute\n";
  const std::string titles[] = {"pipeline", "shader", "workgroup size"};
  std::size_t names = titles[0].size(), shaders = titles[1].size();
  for (const PipelineInfo& pipeline : pipelines) {
    names = std::max(names, pipeline.pass.size());
    shaders = std::max(shaders, pipeline.shader.size());
  }
  std::string text = "\n";
  const auto add = [&](std::string_view name, std::string_view shader, std::string_view size) {
    text.append(indent).append(console::pad_right(name, names)).append("  ");
    text.append(console::pad_right(shader, shaders)).append("  ");
    text.append(console::pad_left(size, titles[2].size())).append("\n");
  };
  add(titles[0], titles[1], titles[2]);
  for (const PipelineInfo& pipeline : pipelines) {
    add(pipeline.pass, pipeline.shader, std::to_string(pipeline.workgroup_size));
  }
  return text;
}

/// A line of describe(), broken if it is too long.
std::string plan_line(std::string_view line) {
  std::string text;
  for (const std::string& part : console::wrap(line, console::line_width() - 2 * kPipelineIndent)) {
    text.append(text.empty() ? kPipelineIndent : 2 * kPipelineIndent, ' ').append(part).append("\n");
  }
  return text;
}

std::string to_text(const Pipelines& found, bool stats) {
  std::string text = console::printable(found.problem) + "\n";
  for (std::size_t begin = 0; begin < found.plan.size();) {
    const std::size_t end = std::min(found.plan.find('\n', begin), found.plan.size());
    text += plan_line(std::string_view(found.plan).substr(begin, end - begin));
    begin = end + 1;
  }
  text += pipeline_table(found.pipelines);
  if (!stats) return text;
  for (const PipelineStatistics& pipeline : found.statistics) {
    text += "\npipeline " + pipeline.pipeline + " (" + pipeline.shader + ", subgroups of " +
            std::to_string(pipeline.subgroup_size) + ")\n";
    for (const PipelineStatistics::Entry& entry : pipeline.entries) {
      text += console::labelled(console::printable(entry.name), number_text(entry.value),
                                kStatisticLabelWidth, kPipelineIndent);
    }
  }
  return text;
}

/// A name for a file, with letters, digits and dashes only.
std::string file_name(const PipelineStatistics& pipeline, const PipelineStatistics::Listing& listing) {
  std::string name = pipeline.pipeline + "-" + listing.name + ".txt";
  for (char& c : name) {
    if (std::isalnum(static_cast<unsigned char>(c)) == 0 && c != '.' && c != '-') c = '-';
  }
  return name;
}

/// Writes the driver's listings into a folder. Returns their paths.
std::vector<std::string> write_listings(const std::vector<PipelineStatistics>& statistics,
                                        const std::string& folder) {
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (error) fail_usage("the folder '" + console::printable(folder) + "' cannot be made: " + error.message());
  std::vector<std::string> paths;
  for (const PipelineStatistics& pipeline : statistics) {
    for (const PipelineStatistics::Listing& listing : pipeline.listings) {
      std::filesystem::path path = std::filesystem::path(folder) / file_name(pipeline, listing);
      // Two names may differ only in characters that a file name leaves out. Then one file would overwrite
      // the other.
      const std::string stem = path.stem().string();
      for (int number = 2; std::ranges::count(paths, path.string()) != 0; ++number) {
        path.replace_filename(stem + "-" + std::to_string(number) + ".txt");
      }
      AtomicFile file = take(AtomicFile::create(path));
      require(file.write(listing.text));
      require(file.commit());
      paths.push_back(path.string());
    }
  }
  return paths;
}

std::vector<KernelSupport> support(const Problem& problem, const Capabilities& device,
                                   DataType arithmetic_type) {
  if (problem.operation == bench::Operation::kBackward) {
    return kernel_support(bench::with_all_gradients(problem.desc), device);
  }
  if (problem.operation == bench::Operation::kMatmul) return kernel_support(problem.matmul, device);
  return kernel_support(problem.desc, device, arithmetic_type);
}

int show_kernels(const KernelsArguments& arguments, const Invocation& invocation) {
  Problem problem =
      take(parse_problem(arguments.problem.empty() ? kDefaultProblem : joined(arguments.problem)));
  require_known_kernel(arguments.choice.kernel);
  if (!arguments.score.file.empty() && problem.score != ScoreKind::kNone) {
    fail_usage("give a problem one score function: either --score or the word score=…");
  }
  PlanOptions options = take(plan_options(arguments.choice, problem.operation));
  const ScoreFile score(arguments.score);
  problem.desc.score_function = score.function() ? score.function() : compile_score(problem);
  if (!arguments.capabilities.empty()) {
    if (arguments.stats || !arguments.isa.empty() || !arguments.where.tuning.empty()) {
      fail_usage("--stats, --isa and --tuning are for a device that is there, not for --capabilities");
    }
    return show_support({arguments.capabilities, arguments.where.device}, problem, options, arguments.json,
                        invocation);
  }
  // Drivers that only compile are allowed here.
  const Runtime runtime = open_runtime(arguments.where, /*self_tests=*/false);
  const Capabilities& device = runtime.device().capabilities();
  const bool wanted = arguments.stats || !arguments.isa.empty();
  if (wanted && !device.pipeline_statistics) {
    fail_device(device.device_name +
                " tells nothing of its pipelines (it lacks VK_KHR_pipeline_executable_properties)");
  }
  options.capture_statistics = wanted;
  auto made = harness::Runnable::create(runtime, problem, options);
  Pipelines found;
  found.problem = to_string(problem);
  found.kernels = support(problem, device, options.arithmetic_type);
  if (arguments.json && !made.ok() && is_refusal(made.error())) {
    found.kernel = options.kernel;
    found.refusal = made.error().message;
    print(to_json_text(found, device, invocation));
  }
  const harness::Runnable plan = take(std::move(made));
  found.kernel = plan.kernel_name();
  found.plan = plan.describe();
  found.pipelines = plan.pipelines();
  if (wanted) found.statistics = take(plan.statistics(!arguments.isa.empty()));
  print(arguments.json ? to_json_text(found, device, invocation) : to_text(found, arguments.stats));
  if (arguments.isa.empty()) return 0;
  const std::vector<std::string> paths = write_listings(found.statistics, arguments.isa);
  if (paths.empty()) fail_device("the driver of " + device.device_name + " gives no listings");
  if (!arguments.json) {
    for (const std::string& path : paths) print("wrote " + path + "\n");
  }
  return 0;
}

}  // namespace

Command add_kernels_command(CLI::App& parent, const Invocation& invocation) {
  CLI::App& app = add_subcommand(parent, "kernels", "Show the pipelines that a plan uses");
  auto a = std::make_shared<KernelsArguments>();
  add_words(app, "PROBLEM", a->problem, std::string("A problem string, default ") + kDefaultProblem);
  add_switch(app, "--stats", a->stats,
             "The driver's statistics: registers, spills, shared memory, occupancy, code size (where it has "
             "VK_KHR_pipeline_executable_properties)");
  add_value(app, "--isa", a->isa, "DIR",
            "Write the driver's listings, machine code among them, into a folder");
  add_values(app, "--capabilities", a->capabilities, "FILE",
             "Tell what the problem gets on the devices of a file that `vkattn devices --json` has written, "
             "without a device; may be given several times. --device then chooses among them");
  add_kernel_option(app, a->choice);
  add_choice_options(app, a->choice);
  add_score_options(app, a->score);
  add_device_option(app, a->where);
  add_tuning_option(app, a->where);
  add_switch(app, "--json", a->json, "Print JSON");
  set_help(
      app, "vkattn kernels [PROBLEM...] [OPTIONS]",
      "Examples:\n"
      "  vkattn kernels \"b1 hq32 hkv8 q1 kv4096 d128 f16\"\n"
      "  vkattn kernels \"b1 h8 1024x1024 d128 f16\" --kernel tile --stats\n"
      "  vkattn kernels \"b1 h8 1024x1024 d64 backward\"\n"
      "  vkattn kernels \"matmul 512x512x512 f16\" --kernel tile --stats\n"
      "  vkattn devices --json > gpu.json; vkattn kernels \"h8 1024x1024 d64 f16\" --capabilities gpu.json\n"
      "  RADV_FORCE_FAMILY=navi31 vkattn kernels --stats --isa listings   for an AMD GPU that is not "
      "there\n");
  return {&app, [a, invocation] { return show_kernels(*a, invocation); }};
}

}  // namespace vkattn::cli
