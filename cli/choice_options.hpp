// Options that choose in the library's place: what the command line sets of PlanOptions.
#pragma once

#include <vkattn/plan.hpp>

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "command.hpp"
#include "problem/problem.hpp"

namespace vkattn::cli {

/// As typed; empty: the library chooses.
struct ChoiceArguments {
  std::string kernel;  ///< of the benchmark several, with commas between
  std::string tile, parts, arithmetic;
  bool strict_nonfinite = false;
};

void add_kernel_option(CLI::App& app, ChoiceArguments& arguments, KernelNames names = KernelNames::kLibrary);
void add_arithmetic_option(CLI::App& app, ChoiceArguments& arguments);
void add_strict_option(CLI::App& app, ChoiceArguments& arguments);
/// Block sizes, parts and arithmetic.
void add_choice_options(CLI::App& app, ChoiceArguments& arguments);

/// Name and text of those of add_choice_options() that are given.
[[nodiscard]] std::vector<std::pair<std::string_view, std::string>> given_choices(
    const ChoiceArguments& arguments);

/// The options of a plan of this operation. Throws CommandError where a text makes no sense; an error says
/// which option the operation has no use for.
[[nodiscard]] Result<PlanOptions> plan_options(const ChoiceArguments& arguments, bench::Operation operation);
[[nodiscard]] DataType read_arithmetic(const ChoiceArguments& arguments);

}  // namespace vkattn::cli
