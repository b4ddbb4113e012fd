// The tool as a whole: subcommands, --version and --help, and every error as one sentence.
#include <CLI/CLI.hpp>
#include <array>
#include <cstdio>
#include <exception>
#include <sstream>
#include <string>
#include <vector>

#include "command.hpp"
#include "console.hpp"
#include "error.hpp"
#include "problem/words.hpp"

namespace vkattn::cli {
namespace {

constexpr const char* kAbout =
    "Scaled dot-product attention on any Vulkan device: check it, time it, run it on NumPy files.";

constexpr const char* kExamples =
    "Examples:\n"
    "  vkattn devices                what can run here, and what not and why\n"
    "  vkattn bench --suite smoke    checked and timed, against measured peaks\n"
    "  vkattn run --query Q.npy --key K.npy --value V.npy --output O.npy --check\n\n"
    "VKATTN_DEVICE=N-or-name chooses the device for every command. VKATTN_DISABLE_EXTENSIONS=NAME,NAME does "
    "without device extensions, where a driver is wrong about one.\n\n"
    "Exit codes: 0 done; 1 a result is wrong; 2 the command line or a file cannot be used; 3 the device "
    "cannot do it, or there is none.\n";

/// Prints the error. The faults of a score function come one in a line.
int report_error(std::string_view message, int exit_code) {
  std::string_view line;
  while (bench::next_piece(message, '\n', line)) {
    std::fprintf(stderr, "vkattn: %s\n", console::printable(line).c_str());
  }
  return exit_code;
}

/// The command that was named, with its options read from the rest of the line. Null if none was named.
const Command* chosen_command(const std::vector<Command>& commands) {
  for (const Command& command : commands) {
    if (command.app->parsed()) return &command;
  }
  return nullptr;
}

/// CLI11 gives an option any word that follows, even an empty word or the next option.
void refuse_odd_values(const CLI::App& app) {
  for (const CLI::Option* const option : app.get_options()) {
    for (const std::string& value : option->results()) {
      if (value.empty()) fail_usage(option->get_name() + " is given an empty value");
      if (value.rfind("--", 0) == 0 && app.get_option_no_throw(value) != nullptr) {
        fail_usage(option->get_name() + " needs a value, but the option " + value + " follows");
      }
    }
  }
}

/// Words that no option took are typing errors. Names the first one, and the option that was probably meant.
void refuse_leftovers(const CLI::App& app) {
  const std::vector<std::string> leftovers = app.remaining();
  if (leftovers.empty()) return;
  const std::string word = leftovers.front().substr(0, leftovers.front().find('='));
  std::vector<std::string> names;
  for (const CLI::Option* const option : app.get_options()) {
    for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
  }
  const std::vector<std::string_view> candidates(names.begin(), names.end());
  const auto meant = bench::closest_word(word, candidates);
  fail_usage("'" + app.get_name() + "' has no option or argument '" + console::printable(word) + "'" +
             (meant ? "; did you mean " + std::string(*meant) + "?" : "") + " (vkattn " + app.get_name() +
             " --help lists them)");
}

/// For example "a, b and c", with `last_word` before the last one.
std::string joined(const std::vector<std::string>& words, std::string_view last_word) {
  std::string text;
  for (std::size_t i = 0; i < words.size(); ++i) {
    if (i != 0) text += i + 1 == words.size() ? " " + std::string(last_word) + " " : ", ";
    text += words[i];
  }
  return text;
}

[[noreturn]] void refuse_unknown_command(const CLI::App& app) {
  std::vector<std::string> commands;
  for (const CLI::App* const command : app.get_subcommands([](const CLI::App*) { return true; })) {
    commands.push_back(command->get_name());
  }
  const std::vector<std::string> leftovers = app.remaining();
  if (leftovers.empty())
    fail_usage("a command is needed: " + joined(commands, "or") + " (vkattn --help explains them)");
  std::vector<std::string_view> names(commands.begin(), commands.end());
  names.insert(names.end(), {"--help", "--version"});
  const auto meant = bench::closest_word(leftovers.front(), names);
  fail_usage("there is no command '" + console::printable(leftovers.front()) + "'; " +
             (meant ? "did you mean '" + std::string(*meant) + "'?"
                    : "the commands are " + joined(commands, "and")));
}

/// A word such as --check=no, for an option that takes no value. Empty if there is none. A word after an
/// option with a value is that value, whatever it looks like.
std::string switch_with_value(const CLI::App& app, int argc, const char* const* argv) {
  bool is_value = false;
  for (int i = 1; i < argc; ++i) {
    const std::string_view word = argv[i];
    const std::size_t equals = word.find('=');
    const CLI::Option* const option = is_value || !word.starts_with("-")
                                          ? nullptr
                                          : app.get_option_no_throw(std::string(word.substr(0, equals)));
    const bool takes_value = option != nullptr && option->get_items_expected_max() > 0;
    is_value = takes_value && equals == std::string_view::npos;
    if (option != nullptr && !takes_value && equals != std::string_view::npos) return std::string(word);
  }
  return {};
}

/// The sentence for CLI11's own errors, of which few are left: options with too few or too many values.
std::string parse_error_text(const CLI::App& app, const CLI::ParseError& error, int argc,
                             const char* const* argv) {
  std::string text = error.what();
  if (dynamic_cast<const CLI::ArgumentMismatch*>(&error) == nullptr) return text;
  if (const std::string word = switch_with_value(app, argc, argv); !word.empty()) {
    const std::size_t equals = word.find('=');
    return word.substr(0, equals) + " takes no value; leave out '" + console::printable(word.substr(equals)) +
           "'";
  }
  const std::size_t colon = text.find(": ");
  const std::string option = text.substr(0, colon == std::string::npos ? 0 : colon);
  if (!option.starts_with("--")) return text;
  const bool missing = text.find("missing") != std::string::npos;
  return option + (missing ? " needs a value" : " may be given only once, and with one value");
}

int parse_and_execute(CLI::App& app, const std::vector<Command>& commands, int argc,
                      const char* const* argv) {
  try {
    app.parse(argc, argv);
  } catch (const CLI::Success& success) {  // --help or --version
    std::ostringstream text;
    const int exit_code = app.exit(success, text, text);
    print(text.str());
    return exit_code;
  } catch (const CLI::ParseError& error) {
    const Command* const command = chosen_command(commands);
    return report_error(parse_error_text(command == nullptr ? app : *command->app, error, argc, argv),
                        kExitUsage);
  }
  const Command* const command = chosen_command(commands);
  if (command == nullptr) refuse_unknown_command(app);
  refuse_odd_values(*command->app);
  refuse_leftovers(*command->app);
  return command->execute();
}

}  // namespace

int run_tool(int argc, const char* const* argv) {
  try {
    Invocation invocation{VKATTN_VERSION, "vkattn", argc > 0 ? argv[0] : "vkattn"};
    for (int i = 1; i < argc; ++i) invocation.command_line += " " + console::shell_word(argv[i]);
    CLI::App app{kAbout, "vkattn"};
    app.option_defaults()
        ->disable_flag_override();  // forbids --check=no and the like, here and in all commands
    app.set_version_flag("--version", "vkattn " + invocation.version, "Print the version and exit");
    app.set_help_flag("-h,--help", "Print this help and exit");
    set_help(app, "vkattn COMMAND [OPTIONS]", kExamples);
    app.allow_extras();
    const std::vector<Command> commands = {
        add_devices_command(app, invocation), add_run_command(app, invocation),
        add_bench_command(app, invocation),   add_tune_command(app, invocation),
        add_kernels_command(app, invocation), add_inspect_command(app, invocation),
        add_report_command(app, invocation),  add_completion_command(app, invocation),
        add_man_command(app, invocation)};
    for (const Command& command : commands) command.app->allow_extras();
    return parse_and_execute(app, commands, argc, argv);
  } catch (const CommandError& error) {
    return report_error(error.what(), error.exit_code());
  } catch (const std::bad_alloc&) {
    return report_error("out of memory", kExitDevice);
  } catch (const std::exception& error) {
    return report_error(error.what(), kExitFailure);
  }
}

}  // namespace vkattn::cli
