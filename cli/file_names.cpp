// Decides whether two paths are one file: see file_names.hpp.
#include "file_names.hpp"

#include <system_error>
#include <utility>

#include "atomic_file.hpp"
#include "console.hpp"
#include "error.hpp"

namespace vkattn::cli {
namespace {

namespace fs = std::filesystem;

/// The path without links and dots, as far as the path exists.
fs::path canonical_path(const std::string& path) {
  std::error_code error;
  // The path becomes absolute first, because weakly_canonical() leaves a relative path that does not exist as
  // it is.
  const fs::path absolute = fs::absolute(behind_links(path), error);
  if (error) return path;
  fs::path canonical = fs::weakly_canonical(absolute, error);
  return error ? absolute.lexically_normal() : canonical;
}

}  // namespace

void FileNames::add(const std::string& option, const std::string& path, bool written) {
  if (path.empty()) return;
  Named file{option, path, canonical_path(path), written};
  for (const Named& other : files_) {
    if (other.canonical != file.canonical || !(other.written || written)) continue;
    const auto text = [](const Named& named) { return "'" + console::printable(named.path) + "'"; };
    if (other.written && written) {
      fail_usage(other.option + " and " + option + " name the same file " + text(other) +
                 (other.path == path ? "" : " (" + text(file) + ")"));
    }
    const Named& output = written ? file : other;
    const Named& input = written ? other : file;
    fail_usage(output.option + " " + text(output) + " would overwrite the file of " + input.option +
               (input.path == output.path ? "" : ", " + text(input)));
  }
  files_.push_back(std::move(file));
}

}  // namespace vkattn::cli
