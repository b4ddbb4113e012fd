// Texts for shells and for `man`, made from the options that the tool reads.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "command.hpp"

namespace vkattn::cli {

/// An option as its help describes it.
struct OptionText {
  std::vector<std::string> names;  ///< with their dashes; empty for an argument without an option before it
  std::string metavar;             ///< name of its value; empty if it takes none
  std::string help;                ///< in one line
};

/// A command, or the tool itself, whose name is empty.
struct CommandText {
  std::string name, about, usage;
  std::vector<OptionText> options;
  std::string notes;  ///< the end of its help
};

/// Describes the tool first, and then its commands.
[[nodiscard]] std::vector<CommandText> describe(const CLI::App& app);

/// A script that completes command lines in bash, zsh or fish. Empty for any other shell.
[[nodiscard]] std::string completion_script(std::string_view shell, std::span<const CommandText> tool);

/// The page vkattn(1), in the language of man(7).
[[nodiscard]] std::string man_page(std::span<const CommandText> tool, std::string_view version);

}  // namespace vkattn::cli
