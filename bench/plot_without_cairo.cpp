// In place of what draws, where there is no cairo.
#include "heat_map.hpp"
#include "line_charts.hpp"
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

Result<std::string> draw_heat_map(const HeatMap& /*map*/, PlotFormat /*format*/) {
  return check_plot_support().error();
}

Result<std::string> draw_charts(const ChartPage& /*page*/, PlotFormat /*format*/) {
  return check_plot_support().error();
}

}  // namespace vkattn::bench
