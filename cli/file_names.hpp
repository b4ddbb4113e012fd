// The files that one command line names. None may overwrite another.
#pragma once

#include <cstddef>
#include <filesystem>
#include <string>
#include <type_traits>
#include <vector>

#include "command.hpp"

namespace vkattn::cli {

/// An option that names a file: a row of a command's table.
template <class Arguments>
struct FileOption {
  const char* name;
  std::string Arguments::*path;
  const char* metavar;
  const char* help;
};

template <class Arguments, std::size_t count>
void add_file_options(CLI::App& app, const FileOption<Arguments> (&table)[count],
                      std::type_identity_t<Arguments>& arguments) {
  for (const FileOption<Arguments>& row : table)
    add_value(app, row.name, arguments.*row.path, row.metavar, row.help);
}

/// Compares files by their canonical paths, so ./x, x and a symbolic link to x are one file. An empty path is
/// no file.
class FileNames {
 public:
  void add_input(const std::string& option, const std::string& path) { add(option, path, false); }
  void add_output(const std::string& option, const std::string& path) { add(option, path, true); }
  template <class Arguments, std::size_t count>
  void add_inputs(const FileOption<Arguments> (&table)[count],
                  const std::type_identity_t<Arguments>& arguments) {
    for (const FileOption<Arguments>& row : table) add_input(row.name, arguments.*row.path);
  }

 private:
  struct Named {
    std::string option;
    std::string path;  ///< as typed
    std::filesystem::path canonical;
    bool written = false;
  };

  /// Throws CommandError if two options name one file and one of them writes it.
  void add(const std::string& option, const std::string& path, bool written);

  std::vector<Named> files_;
};

}  // namespace vkattn::cli
