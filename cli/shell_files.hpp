// What a shell and `man` want to know of the tool, made of the options that it reads.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "command.hpp"

namespace vkattn::cli {

/// An option as its help tells it.
struct OptionText {
  std::vector<std::string> names;  ///< with their dashes; none of an argument without an option before it
  std::string metavar;             ///< of its value, empty where it takes none
  std::string help;                ///< in one line
};

/// A command; or the tool, whose name is empty.
struct CommandText {
  std::string name, about, usage;
  std::vector<OptionText> options;
  std::string notes;  ///< what its help ends with
};

/// The tool first, then its commands.
[[nodiscard]] std::vector<CommandText> describe(const CLI::App& app);

/// A script that completes command lines in bash, zsh or fish; empty for another shell.
[[nodiscard]] std::string completion_script(std::string_view shell, std::span<const CommandText> tool);

/// The page vkattn(1), in the language of man(7).
[[nodiscard]] std::string man_page(std::span<const CommandText> tool, std::string_view version);

}  // namespace vkattn::cli
