// The options of a plan on the command line: see choice_options.hpp.
#include "choice_options.hpp"

#include "console.hpp"
#include "error.hpp"
#include "operation_options.hpp"
#include "word_options.hpp"

namespace vkattn::cli {
namespace {

using bench::Operation;

/// An option with a value.
struct ChoiceRow {
  const char* name;
  std::string ChoiceArguments::*text;
  const char* metavar;
  const char* help;
};

constexpr ChoiceRow kTile{
    "--tile", &ChoiceArguments::tile, "SIZES",
    "Use these block sizes or fail: threads=256,columns=16,rows=4 and so on, as vkattn tune prints "
    "them, of a matmul threads=64,rows=4,columns=4,inner=16, of gradients "
    "subgroups=4,rows=32,keys=32; needs --kernel"};
constexpr ChoiceRow kParts{
    "--kv-splits", &ChoiceArguments::parts, "N",
    "Cut the keys, of a matmul its inner dimension, into so many parts, default: by the library's rule"};
constexpr ChoiceRow kArithmetic{
    "--arithmetic", &ChoiceArguments::arithmetic, "TYPE",
    "Multiply and add in f32, the default, or f16 with its own tolerance: of float16 tensors, by the "
    "kernel tile"};
constexpr ChoiceRow kRows[] = {kTile, kParts, kArithmetic};

void add_row(CLI::App& app, const ChoiceRow& row, ChoiceArguments& arguments) {
  add_value(app, row.name, arguments.*row.text, row.metavar, row.help);
}

void read_tile(const ChoiceArguments& arguments, Operation operation, PlanOptions& options) {
  if (arguments.kernel.empty() || arguments.kernel.find(',') != std::string::npos) {
    fail_usage("--tile gives block sizes of one kernel: name it with --kernel");
  }
  const Result<void> read = bench::read_tile(arguments.tile, operation, options);
  if (!read) fail_usage("--tile: " + console::printable(read.error().message));
}

std::uint32_t read_parts(const ChoiceArguments& arguments) {
  constexpr std::int64_t kMost = 65535;
  const std::string name = kParts.name;
  const std::int64_t parts = parse_integer(name, arguments.parts);
  if (parts < 1 || parts > kMost) {
    fail_usage(name + " " + arguments.parts + " is not from 1 to " + std::to_string(kMost));
  }
  return static_cast<std::uint32_t>(parts);
}

Error not_used(const ChoiceRow& row, Operation operation) {
  const char* const by = operation == Operation::kMatmul ? "a matrix multiplication" : "gradients";
  return {ErrorCode::kInvalidArgument,
          {},
          std::string(row.name) + " is set, but is not used by " + by + ": leave it out"};
}

}  // namespace

void add_kernel_option(CLI::App& app, ChoiceArguments& arguments, KernelNames names) {
  if (names == KernelNames::kBenchmark) {
    add_value(
        app, "--kernel", arguments.kernel, "NAME[,NAME...]",
        "Use this kernel or fail (vkattn devices lists them; unfused is the baseline); several are timed one "
        "after another and compared with the first");
  } else {
    add_value(app, "--kernel", arguments.kernel, "NAME",
              "Use this kernel or fail (vkattn devices lists them)");
  }
}

void add_arithmetic_option(CLI::App& app, ChoiceArguments& arguments) {
  add_row(app, kArithmetic, arguments);
}

void add_strict_option(CLI::App& app, ChoiceArguments& arguments) {
  add_switch(app, "--strict-nonfinite", arguments.strict_nonfinite,
             "Only kernels in which no NaN or infinity of a hidden value reaches the output");
}

void add_choice_options(CLI::App& app, ChoiceArguments& arguments) {
  for (const ChoiceRow& row : kRows) add_row(app, row, arguments);
}

std::vector<std::pair<std::string_view, std::string>> given_choices(const ChoiceArguments& arguments) {
  std::vector<std::pair<std::string_view, std::string>> given;
  for (const ChoiceRow& row : kRows) {
    if (!(arguments.*row.text).empty()) given.emplace_back(row.name, arguments.*row.text);
  }
  return given;
}

Result<PlanOptions> plan_options(const ChoiceArguments& arguments, Operation operation) {
  PlanOptions options;
  options.kernel = arguments.kernel;
  options.strict_nonfinite = arguments.strict_nonfinite;
  if (!arguments.tile.empty()) read_tile(arguments, operation, options);
  if (!arguments.parts.empty()) {
    const std::uint32_t parts = read_parts(arguments);
    const bench::NumberOption option = bench::parts_option(operation);
    if (option == nullptr) return not_used(kParts, operation);
    options.*option = parts;
  }
  options.arithmetic_type = read_arithmetic(arguments);
  if (options.arithmetic_type != DataType::kFloat32 && operation != Operation::kForward) {
    return not_used(kArithmetic, operation);
  }
  return options;
}

DataType read_arithmetic(const ChoiceArguments& arguments) {
  DataType type = DataType::kFloat32;
  if (arguments.arithmetic.empty()) return type;
  read_option(kArithmetic.name, arguments.arithmetic, [&](const bench::Given& given) {
    return bench::read_name(given, bench::kArithmeticNames, type);
  });
  return type;
}

}  // namespace vkattn::cli
