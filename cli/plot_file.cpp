// See plot_file.hpp.
#include "plot_file.hpp"

#include "console.hpp"
#include "error.hpp"

namespace vkattn::cli {

std::optional<PlotFile> open_plot(const std::string& path) {
  if (path.empty()) return std::nullopt;
  const std::optional<picture::Format> format = picture::format_of(path);
  if (!format) {
    fail_usage("--plot writes .png and .svg files, and '" + console::printable(path) + "' ends in neither");
  }
  if (const Result<void> status = picture::check_support(); !status.ok()) fail_usage(status.error().message);
  return PlotFile{take(AtomicFile::create(path)), *format};
}

void write_plot(PlotFile& plot, const Result<std::string>& picture) {
  require(plot.file.write(take(picture)));
  require(plot.file.commit());
}

}  // namespace vkattn::cli
