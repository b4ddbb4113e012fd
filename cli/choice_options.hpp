// Options that replace choices of the library: the members of PlanOptions that a command line sets.
#pragma once

#include <vkattn/plan.hpp>

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "command.hpp"
#include "problem/problem.hpp"

namespace vkattn::cli {

/// The options as typed. If one is empty, the library chooses.
struct ChoiceArguments {
  std::string kernel;  ///< for the benchmark several names, separated by commas
  std::string tile, parts, arithmetic;
  bool strict_nonfinite = false;
};

void add_kernel_option(CLI::App& app, ChoiceArguments& arguments, KernelNames names = KernelNames::kLibrary);
void add_arithmetic_option(CLI::App& app, ChoiceArguments& arguments);
void add_strict_option(CLI::App& app, ChoiceArguments& arguments);
/// Adds the options for block sizes, parts and arithmetic.
void add_choice_options(CLI::App& app, ChoiceArguments& arguments);

/// Name and text of the options of add_choice_options() that are given.
[[nodiscard]] std::vector<std::pair<std::string_view, std::string>> given_choices(
    const ChoiceArguments& arguments);

/// The options of a plan of this operation. Throws CommandError if a text cannot be read. The returned error
/// names an option that the operation does not use.
[[nodiscard]] Result<PlanOptions> plan_options(const ChoiceArguments& arguments, bench::Operation operation);
[[nodiscard]] DataType read_arithmetic(const ChoiceArguments& arguments);

}  // namespace vkattn::cli
