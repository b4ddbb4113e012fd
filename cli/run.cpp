// `vkattn run`: attention on NumPy files. Inputs go to the device and outputs to their files in pieces, so
// that the host never holds a second copy.
#include <vkattn/runtime.hpp>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "command.hpp"
#include "console.hpp"
#include "error.hpp"
#include "harness/problem_run.hpp"
#include "json.hpp"
#include "npy.hpp"
#include "plan/words.hpp"
#include "run_inputs.hpp"

namespace vkattn::cli {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::size_t kPieceElements = std::size_t{1} << 19U;  // at most 4 MiB of float64

/// The options as typed.
struct Arguments {
  std::string query, key, value, output, lse, kv_lengths;
  std::string align, scale, type, kernel, device;
  std::string layout = "bhsd";
  bool causal = false, check = false, json = false;
};

/// What a run found out.
struct Outcome {
  double upload_ns = 0;
  double plan_ns = 0;
  double execute_ns = 0;
  std::vector<std::string> warnings;
  std::optional<harness::CheckReport> check;
};

struct OutputFile {
  AtomicFile file;
  npy::ElementType type = npy::ElementType::kFloat32;
  std::vector<std::int64_t> shape;
};

double nanoseconds_since(Clock::time_point start) {
  return std::chrono::duration<double, std::nano>(Clock::now() - start).count();
}

void parse_align(const std::string& text, ProblemOptions& options) {
  if (text == "top-left") {
    options.align = Align::kTopLeft;
  } else if (text == "bottom-right") {
    options.align = Align::kBottomRight;
  } else if (detail::read_number(text, options.offset) == detail::NumberError::kNone) {
    options.align = Align::kOffset;
  } else {
    fail_usage("--align needs top-left, bottom-right or a whole number, not '" + console::printable(text) +
               "'");
  }
}

ProblemOptions parse_arguments(const Arguments& arguments) {
  ProblemOptions options;
  for (const auto& [name, value] :
       {std::pair("--query", &arguments.query), std::pair("--key", &arguments.key),
        std::pair("--value", &arguments.value)}) {
    if (value->empty())
      fail_usage(std::string("run needs --query, --key and --value; ") + name + " is missing");
  }
  if (arguments.layout != "bhsd" && arguments.layout != "bshd") {
    fail_usage("--layout needs bhsd or bshd, not '" + console::printable(arguments.layout) + "'");
  }
  options.layout = arguments.layout == "bshd" ? Layout::kBshd : Layout::kBhsd;
  for (const DataType type : {DataType::kFloat32, DataType::kFloat16, DataType::kBfloat16}) {
    if (arguments.type == name(type)) options.type = type;
  }
  if (!arguments.type.empty() && !options.type) {
    fail_usage("--type needs f32, f16 or bf16, not '" + console::printable(arguments.type) + "'");
  }
  if (!arguments.scale.empty()) {
    const double scale = parse_number("--scale", arguments.scale);
    if (!std::isfinite(static_cast<float>(scale)))
      fail_usage("--scale " + arguments.scale + " does not fit float32");
    options.scale = static_cast<float>(scale);
  }
  options.causal = arguments.causal;
  if (!arguments.align.empty()) {
    if (!arguments.causal) fail_usage("--align says where the causal diagonal lies, so it needs --causal");
    parse_align(arguments.align, options);
  }
  if (!arguments.lse.empty() && arguments.lse == arguments.output) {
    fail_usage("--output and --lse name the same file");
  }
  options.lse = !arguments.lse.empty();
  options.kv_lengths_path = arguments.kv_lengths;
  require_known_kernel(arguments.kernel);
  return options;
}

/// Copies an array from its file into a tensor's memory, in the order of the file, rounding on the way.
void upload(const Runtime& runtime, InputFile& input, DataType type,
            const harness::ProblemRun::Tensor& tensor, console::ProgressBar& bar, Outcome& outcome) {
  const npy::Header& header = input.reader.header();
  const std::size_t stored_size = element_bytes(type);
  const auto total = static_cast<std::size_t>(header.elements);
  const std::size_t most = std::min(kPieceElements, total);
  std::vector<std::byte> raw(most * npy::element_bytes(header.type));
  std::vector<std::byte> stored(most * stored_size);
  std::uint64_t overflowed = 0;
  for (std::size_t done = 0; done < total;) {
    bar.update(static_cast<double>(done) / static_cast<double>(total), "reading " + input.role);
    const std::size_t count = std::min(most, total - done);
    const std::span<std::byte> piece = std::span(raw).first(count * npy::element_bytes(header.type));
    require(input.reader.read(piece));
    const std::span<std::byte> rounded = std::span(stored).first(count * stored_size);
    overflowed += npy::convert(header, piece, type, rounded);
    require(runtime.write(tensor.buffer, tensor.offset + done * stored_size, rounded));
    done += count;
  }
  if (overflowed != 0) {
    outcome.warnings.push_back(console::count(overflowed, "value") + " of " + input.reader.path().string() +
                               (overflowed == 1 ? " does" : " do") + " not fit " + std::string(name(type)) +
                               " and became infinite");
  }
}

/// Copies a tensor to its file; bfloat16, which NumPy does not have, as float32.
void download(const Runtime& runtime, const harness::ProblemRun::Tensor& tensor, DataType type,
              OutputFile& output) {
  require(output.file.write(npy::make_header(output.type, output.shape)));
  const std::size_t size = element_bytes(type);
  std::vector<std::byte> stored;
  std::vector<float> widened;
  for (VkDeviceSize done = 0; done < tensor.bytes;) {
    stored.resize(
        static_cast<std::size_t>(std::min<VkDeviceSize>(kPieceElements * size, tensor.bytes - done)));
    require(runtime.read(tensor.buffer, tensor.offset + done, stored));
    done += stored.size();
    if (type != DataType::kBfloat16) {
      require(output.file.write(stored));
      continue;
    }
    widened.resize(stored.size() / size);
    for (std::size_t i = 0; i < widened.size(); ++i) {
      std::uint16_t bits = 0;
      std::memcpy(&bits, stored.data() + i * size, size);
      widened[i] = bfloat16_to_float(bits);
    }
    require(output.file.write(std::as_bytes(std::span(widened))));
  }
}

std::optional<OutputFile> open_output(const std::string& path, npy::ElementType type,
                                      std::vector<std::int64_t> shape) {
  if (path.empty()) return std::nullopt;
  return OutputFile{take(AtomicFile::create(path)), type, std::move(shape)};
}

/// The files of one run, and where it takes place.
struct PreparedRun {
  const Runtime& runtime;
  const AttentionPlan& plan;
  harness::ProblemRun& run;
};

Outcome execute(const PreparedRun& prepared, std::vector<InputFile>& inputs,
                std::optional<OutputFile>& output, std::optional<OutputFile>& lse, bool check) {
  Outcome outcome;
  console::ProgressBar bar;
  harness::ProblemRun& run = prepared.run;
  const Problem& problem = run.problem();
  const auto upload_start = Clock::now();
  upload(prepared.runtime, inputs[0], problem.desc.query.type, run.query(), bar, outcome);
  upload(prepared.runtime, inputs[1], problem.desc.key.type, run.key(), bar, outcome);
  upload(prepared.runtime, inputs[2], problem.desc.value.type, run.value(), bar, outcome);
  if (!problem.kv_lengths.empty()) {
    require(prepared.runtime.write(run.kv_lengths().buffer, run.kv_lengths().offset,
                                   std::as_bytes(std::span(problem.kv_lengths))));
  }
  outcome.upload_ns = nanoseconds_since(upload_start);
  require(run.poison_outputs());
  bar.update(0, "computing");
  outcome.execute_ns = take(run.execute(prepared.plan));
  if (output) download(prepared.runtime, run.output(), problem.desc.output.type, *output);
  if (lse) download(prepared.runtime, run.lse(), DataType::kFloat32, *lse);
  if (output) require(output->file.commit());
  if (lse) require(lse->file.commit());
  if (check)
    outcome.check = take(run.check({}, [&](double share) { bar.update(share, "checking every row"); }));
  return outcome;
}

std::string check_text(const harness::CheckReport& check) {
  if (check.elements_checked == 0) return "nothing to compare";
  if (!check.guard_intact || check.elements_unwritten != 0) return check.to_string();
  const auto number = [](double value) {
    char text[32];
    std::snprintf(text, sizeof(text), "%.3g", value);
    return std::string(text);
  };
  return "largest error " + number(check.largest_error) + ", " + console::percent(check.largest_share) +
         " of its tolerance, at batch " + std::to_string(check.where.batch) + ", head " +
         std::to_string(check.where.head) + ", query " + std::to_string(check.where.query) +
         (check.where_dim < 0 ? ", lse" : ", dim " + std::to_string(check.where_dim)) + ": expected " +
         number(check.expected) + ", got " + number(check.got) + " (" +
         console::count(static_cast<std::uint64_t>(check.rows_checked), "row") + " compared)";
}

std::string output_text(const OutputFile& output) {
  return console::printable(output.file.target().string()) + "  " + std::string(npy::name(output.type)) +
         " " + npy::shape_text(output.shape);
}

std::string text_report(const PreparedRun& prepared, const Outcome& outcome,
                        const std::optional<OutputFile>& output, const std::optional<OutputFile>& lse) {
  constexpr std::size_t kLabelWidth = 10;
  const Capabilities& device = prepared.runtime.device().capabilities();
  const auto line = [](std::string_view label, const std::string& text) {
    return console::labelled(label, text, kLabelWidth);
  };
  std::string text =
      line("device", console::printable(device.device_name) + " - " + device_type_text(device.device_type));
  text += line("problem", to_string(prepared.run.problem()));
  text += line("kernel", std::string(prepared.plan.kernel_name()));
  text += line("time", console::duration(outcome.execute_ns) + " (first execution; reading the inputs took " +
                           console::duration(outcome.upload_ns) + ", planning " +
                           console::duration(outcome.plan_ns) + ")");
  if (output) text += line("output", output_text(*output));
  if (lse) text += line("lse", output_text(*lse));
  if (outcome.check) {
    text += line("check", (outcome.check->passed() ? "passed: " : "FAILED: ") + check_text(*outcome.check));
  }
  return text;
}

std::string json_report(const PreparedRun& prepared, const Outcome& outcome,
                        const std::optional<OutputFile>& output, const std::optional<OutputFile>& lse,
                        const Invocation& invocation) {
  const auto file = [](const OutputFile& written) {
    return Json{{"path", written.file.target().string()},
                {"type", npy::name(written.type)},
                {"shape", written.shape}};
  };
  Json json{{"version", invocation.version},
            {"command", invocation.command_line},
            {"device", device_json(prepared.runtime.device().capabilities())},
            {"problem", to_string(prepared.run.problem())},
            {"kernel", prepared.plan.kernel_name()},
            {"execute_ms", outcome.execute_ns * 1e-6},
            {"upload_ms", outcome.upload_ns * 1e-6},
            {"plan_ms", outcome.plan_ns * 1e-6},
            {"warnings", outcome.warnings}};
  if (output) json["output"] = file(*output);
  if (lse) json["lse"] = file(*lse);
  if (outcome.check) json["check"] = check_json(*outcome.check);
  return dump_json(json);
}

int run_files(const Arguments& arguments, const Invocation& invocation) {
  const ProblemOptions options = parse_arguments(arguments);
  std::vector<InputFile> inputs;
  inputs.push_back(open_input("query", arguments.query, options.layout));
  inputs.push_back(open_input("key", arguments.key, options.layout));
  inputs.push_back(open_input("value", arguments.value, options.layout));
  const Problem problem = make_problem(inputs[0], inputs[1], inputs[2], options);
  const std::size_t rank = inputs[0].rank();
  const bool half = problem.desc.output.type == DataType::kFloat16;
  std::optional<OutputFile> output =
      open_output(arguments.output, half ? npy::ElementType::kFloat16 : npy::ElementType::kFloat32,
                  output_shape(problem, rank));
  std::optional<OutputFile> lse =
      open_output(arguments.lse, npy::ElementType::kFloat32, lse_shape(problem, rank));

  RuntimeOptions runtime_options;
  runtime_options.device = arguments.device;
  const Runtime runtime = take(Runtime::create(runtime_options));
  const auto plan_start = Clock::now();
  PlanOptions plan_options;
  plan_options.kernel = arguments.kernel;
  const AttentionPlan plan = take(runtime.make_plan(problem.desc, plan_options));
  const double plan_ns = nanoseconds_since(plan_start);
  harness::ProblemRun run = take(harness::ProblemRun::create(runtime, problem));
  const PreparedRun prepared{runtime, plan, run};
  Outcome outcome = execute(prepared, inputs, output, lse, arguments.check);
  outcome.plan_ns = plan_ns;

  for (const std::string& warning : outcome.warnings) {
    std::fprintf(stderr, "vkattn: warning: %s\n", console::printable(warning).c_str());
  }
  print(arguments.json ? json_report(prepared, outcome, output, lse, invocation)
                       : text_report(prepared, outcome, output, lse));
  if (outcome.check && !outcome.check->passed()) {
    fail("the output is not within tolerance of the reference: " + check_text(*outcome.check));
  }
  return 0;
}

void add_input_options(CLI::App& app, Arguments& a) {
  add_value(app, "--query", a.query, "Q.npy",
            "Queries (batch, heads, length, dim); rank 3: one batch entry, 2: one head");
  add_value(app, "--key", a.key, "K.npy",
            "Keys; heads may be fewer than the query's (grouped-query attention)");
  add_value(app, "--value", a.value, "V.npy", "Values; their last dimension may differ from the others'");
  add_value(app, "--output", a.output, "O.npy", "Write the result: float16 for f16, else float32");
  add_value(app, "--lse", a.lse, "L.npy",
            "Write the log-sum-exp of each row's scores, float32 (batch, heads, length)");
  add_value(app, "--layout", a.layout, "ORDER",
            "Order of the axes: bhsd (default) or bshd, batch, length, heads, dim");
}

void add_problem_options(CLI::App& app, Arguments& a) {
  add_value(app, "--type", a.type, "TYPE",
            "Storage on the device: f32, f16 or bf16; default f16 where all inputs are float16, else f32");
  add_value(app, "--scale", a.scale, "X", "Factor of the scores, default 1/sqrt(dim)");
  add_switch(app, "--causal", a.causal, "A query sees no key after its own position");
  add_value(app, "--align", a.align, "WHERE",
            "Key position of query 0 for --causal: top-left (0, the default), bottom-right (the last query "
            "meets the "
            "last key) or a number");
  add_value(app, "--kv-lengths", a.kv_lengths, "N.npy",
            "Keys in use of each batch entry, int32 or int64 (batch,)");
  add_value(app, "--kernel", a.kernel, "NAME", "Use this kernel or fail (vkattn devices lists them)");
  add_value(app, "--device", a.device, "N-or-name", "Device number or a part of its name (vkattn devices)");
  add_switch(app, "--check", a.check,
             "Compare every row with the float64 reference; exit 1 above the tolerance");
  add_switch(app, "--json", a.json, "Print JSON");
}

}  // namespace

Command add_run_command(CLI::App& parent, const Invocation& invocation) {
  CLI::App* const app = parent.add_subcommand("run", "Compute attention on NumPy .npy files");
  auto arguments = std::make_shared<Arguments>();
  add_input_options(*app, *arguments);
  add_problem_options(*app, *arguments);
  set_help(*app, "vkattn run --query Q.npy --key K.npy --value V.npy [OPTIONS]",
           "Inputs are float16, float32 or float64. Each value is rounded once, to the storage type.\n\n"
           "Examples:\n"
           "  vkattn run --query Q.npy --key K.npy --value V.npy --output O.npy --check\n"
           "  vkattn run --query Q.npy --key K.npy --value V.npy --output O.npy --lse L.npy \\\n"
           "             --causal --align bottom-right --type f16 --layout bshd\n");
  return {app, [arguments, invocation] { return run_files(*arguments, invocation); }};
}

}  // namespace vkattn::cli
