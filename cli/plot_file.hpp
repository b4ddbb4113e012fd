// The file of --plot.
#pragma once

#include <optional>
#include <string>

#include "atomic_file.hpp"
#include "picture/canvas.hpp"

namespace vkattn::cli {

/// The file and what it will hold.
struct PlotFile {
  AtomicFile file;
  picture::Format format;
};

/// Nothing where the path is empty. Refuses what cannot be drawn or written, before there is anything to
/// draw.
[[nodiscard]] std::optional<PlotFile> open_plot(const std::string& path);

/// Writes what was drawn, and gives the file its name.
void write_plot(PlotFile& plot, const Result<std::string>& picture);

}  // namespace vkattn::cli
