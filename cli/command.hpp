// A subcommand of the tool: its arguments, and what it does after they are read.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

// CLI11 is included by command.cpp and tool.cpp alone, because its headers take a compiler many seconds.
namespace CLI {
class App;
}

namespace vkattn::cli {

struct Command {
  CLI::App* app = nullptr;
  std::function<int()> execute;  ///< returns the exit code, or throws CommandError
};

/// The facts about the call that a command may report.
struct Invocation {
  std::string version;
  std::string command_line;  ///< as typed, with quotes where a shell needs them
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

/// Reads the words of a command line and does what they say. Returns the exit code.
int run_tool(int argc, const char* const* argv);

/// Makes a subcommand with this name.
[[nodiscard]] CLI::App& add_subcommand(CLI::App& parent, const std::string& name,
                                       const std::string& description);

/// Sets the command's usage line, and the text and examples at the end of its help. Paragraphs of the text
/// are broken anew. Lines that begin with a space stay.
void set_help(CLI::App& app, const std::string& usage, const std::string& footer);

/// The usage line that set_help() set, in one piece.
[[nodiscard]] std::string usage_of(const CLI::App& app);

/// Columns for the option names in every --help.
inline constexpr std::size_t kHelpNameWidth = 28;

/// Adds an option with one value, named `metavar` in the help.
void add_value(CLI::App& app, const std::string& name, std::string& value, const std::string& metavar,
               std::string_view description);
/// Adds an option that may be given several times, each time with one value.
void add_values(CLI::App& app, const std::string& name, std::vector<std::string>& values,
                const std::string& metavar, std::string_view description);
void add_switch(CLI::App& app, const std::string& name, bool& value, std::string_view description);
/// Adds an argument of words without an option before them.
void add_words(CLI::App& app, const std::string& name, std::vector<std::string>& words,
               std::string_view description);

/// Reads a number of the type. Anything else is a usage error that names the option.
[[nodiscard]] double parse_number(const std::string& option, const std::string& text);
[[nodiscard]] std::int64_t parse_integer(const std::string& option, const std::string& text);

/// The kernels that a command accepts: those of the library, or also the benchmark's baseline.
enum class KernelNames { kLibrary, kBenchmark };

/// Fails if the library has no kernel of that name and it is not the baseline of the benchmark either. An
/// empty name is always allowed.
void require_known_kernel(const std::string& kernel, KernelNames names = KernelNames::kLibrary);

/// Prints one line on standard error.
void print_warning(std::string_view text);

/// Prints to standard output. Fails if not all of the text can be written.
void print(std::string_view text);

}  // namespace vkattn::cli
