// The file of --plot.
#pragma once

#include <optional>
#include <string>

#include "atomic_file.hpp"
#include "picture/canvas.hpp"

namespace vkattn::cli {

/// The file and the format of its picture.
struct PlotFile {
  AtomicFile file;
  picture::Format format;
};

/// Opens the file of the picture. Nothing if the path is empty. A picture that cannot be drawn or written is
/// refused before any work.
[[nodiscard]] std::optional<PlotFile> open_plot(const std::string& path);

/// Writes the picture and gives the file its name.
void write_plot(PlotFile& plot, const Result<std::string>& picture);

}  // namespace vkattn::cli
