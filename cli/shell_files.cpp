// Completion for shells, the manual page, and the commands that print them: see shell_files.hpp.
#include "shell_files.hpp"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <memory>

#include "console.hpp"
#include "error.hpp"
#include "problem/words.hpp"
#include "suites.hpp"

namespace vkattn::cli {
namespace {

/// The text with `before` in front of each of the characters.
std::string escaped(std::string_view text, std::string_view characters, std::string_view before) {
  std::string result;
  for (const char c : text) {
    if (characters.find(c) != std::string_view::npos) result += before;
    result += c;
  }
  return result;
}

/// Help is broken into lines for --help. Here it becomes one line.
std::string one_line(std::string text) {
  std::replace(text.begin(), text.end(), '\n', ' ');
  return text;
}

CommandText describe_command(const CLI::App& app, const std::string& name) {
  CommandText command{name, app.get_description(), usage_of(app), {}, app.get_footer()};
  for (const CLI::Option* const option : app.get_options()) {
    OptionText text;
    for (const std::string& letter : option->get_snames()) text.names.push_back("-" + letter);
    for (const std::string& word : option->get_lnames()) text.names.push_back("--" + word);
    const bool takes_value = option->get_items_expected_max() > 0;
    text.metavar = text.names.empty() ? option->get_name(true) : takes_value ? option->get_type_name() : "";
    text.help = one_line(option->get_description());
    command.options.push_back(std::move(text));
  }
  return command;
}

std::vector<std::string> names_of(const CommandText& command) {
  std::vector<std::string> names;
  for (const OptionText& option : command.options)
    names.insert(names.end(), option.names.begin(), option.names.end());
  return names;
}

std::string word_list(const std::vector<std::string>& words) {
  std::string text;
  for (const std::string& word : words) text += (text.empty() ? "" : " ") + word;
  return text;
}

std::string command_names(std::span<const CommandText> commands) {
  std::vector<std::string> names;
  for (const CommandText& command : commands) names.push_back(command.name);
  return word_list(names);
}

std::string suite_words() {
  std::vector<std::string> names;
  for (const bench::Suite& suite : bench::suites()) names.emplace_back(suite.name);
  return word_list(names);
}

std::string bash_script(std::span<const CommandText> tool) {
  std::string text =
      "# Completion of vkattn for bash.\n_vkattn() {\n"
      "  local word=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD-1]} words= found\n"
      "  COMPREPLY=()  # bash 3.2, which macOS has, knows no mapfile\n"
      "  if ((COMP_CWORD == 1)); then\n    words='" +
      command_names(tool.subspan(1)) + " " + word_list(names_of(tool.front())) +
      "'\n  elif [[ $before == --suite ]]; then\n    words='" + suite_words() +
      "'\n  elif [[ $word == -* ]]; then\n    case ${COMP_WORDS[1]} in\n";
  for (const CommandText& command : tool.subspan(1))
    text += "    " + command.name + ") words='" + word_list(names_of(command)) + "' ;;\n";
  return text +
         "    esac\n  else\n    compopt -o filenames 2>/dev/null\n    while IFS= read -r found; do "
         "COMPREPLY+=(\"$found\"); "
         "done < <(compgen -f -- \"$word\")\n    return\n  fi\n"
         "  while IFS= read -r found; do COMPREPLY+=(\"$found\"); done < <(compgen -W \"$words\" -- "
         "\"$word\")\n}\n"
         "complete -F _vkattn vkattn\n";
}

std::string zsh_script(std::span<const CommandText> tool) {
  // The text stands within single quotes. In _describe and _arguments a colon and a bracket end a part.
  const auto quoted = [](std::string_view part) {
    std::string text;
    for (const char c : escaped(part, ":[]\\", "\\"))
      text += c == '\'' ? std::string("'\\''") : std::string(1, c);
    return text;
  };
  std::string text = "#compdef vkattn\n# Completion of vkattn for zsh.\n_vkattn() {\n  local -a commands=(\n";
  for (const CommandText& command : tool.subspan(1))
    text += "    '" + command.name + ":" + quoted(command.about) + "'\n";
  text +=
      "  )\n  if ((CURRENT == 2)); then\n    _describe command commands\n    return\n  fi\n"
      "  local command=$words[2]\n  shift words\n  ((CURRENT--))\n  case $command in\n";
  for (const CommandText& command : tool.subspan(1)) {
    text += "  " + command.name + ")\n    _arguments";
    for (const OptionText& option : command.options) {
      for (const std::string& name : option.names) {
        const std::string value = name == "--suite"        ? ":NAME:(" + suite_words() + ")"
                                  : option.metavar.empty() ? ""
                                                           : ":" + quoted(option.metavar) + ":_files";
        text += " \\\n      '" + name + "[" + quoted(option.help) + "]" + value + "'";
      }
    }
    text += " \\\n      '*:file:_files'\n    ;;\n";
  }
  return text +
         "  esac\n}\nif [[ $funcstack[1] == _vkattn ]]; then _vkattn \"$@\"; else compdef _vkattn vkattn; "
         "fi\n";
}

std::string fish_script(std::span<const CommandText> tool) {
  const auto quoted = [](std::string_view part) { return "'" + escaped(part, "\\'", "\\") + "'"; };
  std::string text = "# Completion of vkattn for fish.\n";
  for (const CommandText& command : tool.subspan(1)) {
    text += "complete -c vkattn -n __fish_use_subcommand -a " + command.name + " -d " +
            quoted(command.about) + "\n";
    for (const OptionText& option : command.options) {
      for (const std::string& name : option.names) {
        const bool is_long = name.starts_with("--");
        text += "complete -c vkattn -n '__fish_seen_subcommand_from " + command.name + "' " +
                (is_long ? "-l " + name.substr(2) : "-s " + name.substr(1)) +
                (option.metavar.empty() ? "" : " -r") +
                (name == "--suite" ? " -a " + quoted(suite_words()) : "") + " -d " + quoted(option.help) +
                "\n";
      }
    }
  }
  return text;
}

/// A line of a manual page. Dashes are escaped so that they can be typed from the page, and no line begins
/// with a character that starts a request.
std::string roff(std::string_view text) {
  std::string line = escaped(text, "\\-", "\\");
  std::string::size_type at = 0;
  while ((at = line.find("\\\\", at)) != std::string::npos) line.replace(at, 2, "\\e"), at += 2;
  return (line.starts_with('.') || line.starts_with('\'') ? "\\&" : "") + line;
}

/// Paragraphs are filled. A line that begins with a space stays as it is.
std::string roff_notes(std::string_view notes) {
  std::string text;
  bool is_plain = false;
  if (notes.ends_with('\n')) notes.remove_suffix(1);
  std::string_view line;
  while (bench::next_piece(notes, '\n', line)) {
    const bool stays = line.starts_with(' ');
    if (stays != is_plain) text += stays ? ".nf\n" : ".fi\n";
    is_plain = stays;
    text += line.empty() ? ".PP\n" : roff(line) + "\n";
  }
  return text + (is_plain ? ".fi\n" : "");
}

std::string roff_options(const CommandText& command) {
  std::string text;
  for (const OptionText& option : command.options) {
    std::string names;
    for (const std::string& name : option.names)
      names += (names.empty() ? "" : ", ") + ("\\fB" + roff(name) + "\\fR");
    const std::string value =
        option.metavar.empty() ? "" : (names.empty() ? "" : " ") + ("\\fI" + roff(option.metavar) + "\\fR");
    text += ".TP\n" + names + value + "\n" + roff(option.help) + "\n";
  }
  return text;
}

/// A command that prints a text about the whole tool.
Command text_command(CLI::App& parent, const std::string& name, const std::string& about,
                     const std::string& usage, const std::string& notes, std::function<std::string()> text) {
  CLI::App& app = add_subcommand(parent, name, about);
  set_help(app, usage, notes);
  return {&app, [text = std::move(text)] {
            print(text());
            return 0;
          }};
}

}  // namespace

std::vector<CommandText> describe(const CLI::App& app) {
  std::vector<CommandText> tool{describe_command(app, "")};
  for (const CLI::App* const command : app.get_subcommands([](const CLI::App*) { return true; }))
    tool.push_back(describe_command(*command, command->get_name()));
  return tool;
}

std::string completion_script(std::string_view shell, std::span<const CommandText> tool) {
  if (shell == "bash") return bash_script(tool);
  if (shell == "zsh") return zsh_script(tool);
  if (shell == "fish") return fish_script(tool);
  return {};
}

std::string man_page(std::span<const CommandText> tool, std::string_view version) {
  const CommandText& whole = tool.front();
  std::string text = ".TH VKATTN 1 \"\" \"vkattn " + std::string(version) +
                     "\" \"User Commands\"\n.SH NAME\nvkattn \\- " + roff(whole.about) +
                     "\n.SH SYNOPSIS\n\\fB" + roff(whole.usage) + "\\fR\n.SH OPTIONS\n" +
                     roff_options(whole) + ".SH COMMANDS\n";
  for (const CommandText& command : tool.subspan(1)) {
    text += ".SS " + roff(command.name) + "\n" + roff(command.about) + "\n.PP\n\\fB" + roff(command.usage) +
            "\\fR\n" + roff_options(command) + ".PP\n" + roff_notes(command.notes);
  }
  return text + ".SH NOTES\n" + roff_notes(whole.notes);
}

Command add_completion_command(CLI::App& parent, const Invocation& /*invocation*/) {
  const auto shell = std::make_shared<std::vector<std::string>>();
  Command command = text_command(
      parent, "completion", "Print a script that completes command lines", "vkattn completion bash|zsh|fish",
      "Examples:\n"
      "  vkattn completion bash > ~/.local/share/bash-completion/completions/vkattn\n"
      "  vkattn completion fish > ~/.config/fish/completions/vkattn.fish\n"
      "  source <(vkattn completion zsh)\n",
      [&parent, shell] {
        const std::string name = shell->size() == 1 ? shell->front() : "";
        const std::string text = completion_script(name, describe(parent));
        if (text.empty()) fail_usage("vkattn completion needs one shell: bash, zsh or fish");
        return text;
      });
  add_words(*command.app, "SHELL", *shell, "bash (4 or later), zsh or fish");
  return command;
}

Command add_man_command(CLI::App& parent, const Invocation& invocation) {
  return text_command(
      parent, "man", "Print the manual page", "vkattn man",
      "Examples:\n"
      "  vkattn man > vkattn.1 && man ./vkattn.1\n",
      [&parent, version = invocation.version] { return man_page(describe(parent), version); });
}

}  // namespace vkattn::cli
