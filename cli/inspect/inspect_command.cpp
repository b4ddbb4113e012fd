// `vkattn inspect`: shows attention weights.
#include <memory>

#include "command.hpp"
#include "inspect/arguments.hpp"
#include "inspect/reports.hpp"

namespace vkattn::cli {
namespace {

int run_inspect(const InspectArguments& arguments, const Invocation& invocation) {
  const InspectMode mode = inspect_mode(arguments);
  switch (mode) {
    case InspectMode::kSweep:
      return inspect_scaling(arguments, invocation);
    case InspectMode::kMemory:
      return inspect_memory(arguments, invocation);
    case InspectMode::kText:
    case InspectMode::kArrays:
    case InspectMode::kLayer:
      break;
  }
  return inspect_heads(arguments, mode, invocation);
}

}  // namespace

Command add_inspect_command(CLI::App& parent, const Invocation& invocation) {
  CLI::App& app = add_subcommand(parent, "inspect", "Look at attention weights, and at what scaling does");
  auto arguments = std::make_shared<InspectArguments>();
  add_inspect_arguments(app, *arguments);
  return {&app, [arguments, invocation] { return run_inspect(*arguments, invocation); }};
}

}  // namespace vkattn::cli
