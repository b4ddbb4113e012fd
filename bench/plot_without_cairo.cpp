// In place of plot.cpp and plot_canvas.cpp where there is no cairo.
#include "plot.hpp"

namespace vkattn::bench {

Result<void> check_plot_support() {
  return Error{ErrorCode::kUnsupported,
               {},
               "--plot is not in this build: install cairo's development files (Debian: libcairo2-dev and "
               "pkg-config), configure again and rebuild"};
}

Result<std::string> draw_plot(const PlotData& /*data*/, PlotFormat /*format*/) {
  return check_plot_support().error();
}

}  // namespace vkattn::bench
