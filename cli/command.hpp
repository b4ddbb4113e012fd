// A subcommand of the tool: its arguments and what it does once they are read.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

// CLI11, which command.cpp and tool.cpp alone include: its headers take a compiler many seconds.
namespace CLI {
class App;
}

namespace vkattn::cli {

struct Command {
  CLI::App* app = nullptr;
  std::function<int()> execute;  ///< gives the exit code, or throws CommandError
};

/// What every command may have to tell.
struct Invocation {
  std::string version;
  std::string command_line;  ///< as typed, quoted for a shell where needed
  std::string program;       ///< the tool's own name, as it was called
};

[[nodiscard]] Command add_completion_command(CLI::App& parent, const Invocation& invocation);
[[nodiscard]] Command add_devices_command(CLI::App& parent, const Invocation& invocation);
[[nodiscard]] Command add_inspect_command(CLI::App& parent, const Invocation& invocation);
[[nodiscard]] Command add_kernels_command(CLI::App& parent, const Invocation& invocation);
[[nodiscard]] Command add_man_command(CLI::App& parent, const Invocation& invocation);
[[nodiscard]] Command add_run_command(CLI::App& parent, const Invocation& invocation);
[[nodiscard]] Command add_bench_command(CLI::App& parent, const Invocation& invocation);
[[nodiscard]] Command add_tune_command(CLI::App& parent, const Invocation& invocation);
[[nodiscard]] Command add_report_command(CLI::App& parent, const Invocation& invocation);

/// Reads the words of a command line and does what they say; the exit code.
int run_tool(int argc, const char* const* argv);

/// A subcommand of that name.
[[nodiscard]] CLI::App& add_subcommand(CLI::App& parent, const std::string& name,
                                       const std::string& description);

/// Gives the command this line of usage, text and examples at the end, and the tool's form of help.
/// Paragraphs of the text are broken anew; lines that begin with a space stay.
void set_help(CLI::App& app, const std::string& usage, const std::string& footer);

/// That line of usage, in one piece.
[[nodiscard]] std::string usage_of(const CLI::App& app);

/// Columns of the option names in every --help.
inline constexpr std::size_t kHelpNameWidth = 28;

/// An option with one value, named `metavar` in the help.
void add_value(CLI::App& app, const std::string& name, std::string& value, const std::string& metavar,
               std::string_view description);
/// An option that may be given several times, each time with one value.
void add_values(CLI::App& app, const std::string& name, std::vector<std::string>& values,
                const std::string& metavar, std::string_view description);
void add_switch(CLI::App& app, const std::string& name, bool& value, std::string_view description);
/// Words without an option before them.
void add_words(CLI::App& app, const std::string& name, std::vector<std::string>& words,
               std::string_view description);

/// A number of the given type, or a usage error that names the option.
[[nodiscard]] double parse_number(const std::string& option, const std::string& text);
[[nodiscard]] std::int64_t parse_integer(const std::string& option, const std::string& text);

/// Commands that take names of kernels.
enum class KernelNames { kLibrary, kBenchmark };

/// Fails where the library has no kernel of that name and, for the benchmark, it is not the baseline's
/// either; empty is no name.
void require_known_kernel(const std::string& kernel, KernelNames names = KernelNames::kLibrary);

/// One line on standard error.
void print_warning(std::string_view text);

/// Prints to standard output, and fails where that does not take it all.
void print(std::string_view text);

}  // namespace vkattn::cli
