// The files that one command line names: none may overwrite another.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace vkattn::cli {

/// Files are told apart by their canonical paths, so that ./x, x and a symbolic link to x are one file. An
/// empty path is no file.
class FileNames {
 public:
  void add_input(const std::string& option, const std::string& path) { add(option, path, false); }
  void add_output(const std::string& option, const std::string& path) { add(option, path, true); }

 private:
  struct Named {
    std::string option;
    std::string path;  ///< as typed
    std::filesystem::path canonical;
    bool written = false;
  };

  /// Throws CommandError where two options name one file and one of them writes it.
  void add(const std::string& option, const std::string& path, bool written);

  std::vector<Named> files_;
};

}  // namespace vkattn::cli
