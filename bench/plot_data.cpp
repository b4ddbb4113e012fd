// Makes the points and roofs of a picture from a report.
#include "plot_data.hpp"

#include <algorithm>
#include <limits>

#include "json.hpp"
#include "report.hpp"

namespace vkattn::bench {
namespace {

constexpr double kBeyondCaches = std::numeric_limits<double>::max();

/// The roofs of all rows: Peaks::compute_rate() and Peaks::memory_rate().
void add_roofs(const Peaks& peaks, PlotData& data) {
  if (peaks.multiply_add.rate > 0) data.compute.push_back({"multiply-add f32", peaks.multiply_add.rate});
  for (const MatrixPeak& entry : peaks.matrix) {
    // Attention multiplies floating-point numbers. A peak of integers is no roof over it.
    if (entry.peak.rate <= 0 || entry.operand.find('f') == std::string::npos) continue;
    const std::string name = "matrix " + entry.operand;
    const auto known = std::find_if(data.compute.begin(), data.compute.end(),
                                    [&](const PlotRoof& roof) { return roof.name == name; });
    if (known == data.compute.end()) {
      data.compute.push_back({name, entry.peak.rate});
    } else {
      known->rate = std::max(known->rate, entry.peak.rate);
    }
  }
  std::stable_sort(data.compute.begin(), data.compute.end(),
                   [](const PlotRoof& a, const PlotRoof& b) { return a.rate > b.rate; });
  const double memory = peaks.memory_rate(kBeyondCaches);
  if (memory <= 0) return;
  data.memory.push_back({"memory", memory});
}

bool is_shown(const Row& row) {
  return row.outcome == Outcome::kMeasured && row.flops_per_second() > 0 && row.work.bytes > 0;
}

std::string limit_of(const Row& row, const Peaks& peaks) {
  if (row.compute_share <= 0 && row.memory_share <= 0) return "";
  if (!row.has_compute_peak()) return "";  // without a compute peak it is unknown which roof is lower
  if (row.memory_share > row.compute_share)
    return peaks.memory_rate(row.work.bytes) > peaks.memory_rate(kBeyondCaches) ? "cache" : "memory";
  return peaks.compute_rate(row.kernel, vkattn::name(row.type)) > peaks.multiply_add.rate ? "matrix"
                                                                                          : "multiply-add";
}

/// Adds the roofs of the caches that limit points, the slowest first. If no point is limited by a cache, it
/// adds the fastest cache.
void add_caches(const Report& report, PlotData& data) {
  if (data.memory.empty()) return;
  const auto add = [&](double rate) {
    const auto is_known = [&](const PlotRoof& roof) { return roof.rate == rate; };
    if (std::ranges::none_of(data.memory, is_known)) data.memory.push_back({"cache", rate});
  };
  for (const Row& row : report.rows) {
    if (is_shown(row) && limit_of(row, report.peaks) == "cache")
      add(report.peaks.memory_rate(row.work.bytes));
  }
  constexpr double kWorthALine = 1.2;
  const double fastest = report.peaks.memory_rate(0);
  if (data.memory.size() == 1 && fastest > data.memory.front().rate * kWorthALine) add(fastest);
  std::ranges::sort(data.memory, {}, &PlotRoof::rate);
}

std::size_t index_of(std::vector<std::string>& names, const std::string& name) {
  const auto known = std::find(names.begin(), names.end(), name);
  if (known != names.end()) return static_cast<std::size_t>(known - names.begin());
  names.push_back(name);
  return names.size() - 1;
}

/// The driver's information often contains the driver's name, which is then not repeated.
std::string driver_text(const Capabilities& device) {
  if (device.driver_info.empty()) return device.driver_name;
  if (device.driver_info.find(device.driver_name) != std::string::npos) return device.driver_info;
  return device.driver_name + " " + device.driver_info;
}

}  // namespace

PlotData plot_data(const Report& report) {
  PlotData data;
  data.title = drawable("Attention on " + report.device.device_name);
  data.caption = drawable(driver_text(report.device));
  if (!report.date.empty()) data.caption += "  \xc2\xb7  " + report.date;
  data.caption += "  \xc2\xb7  vkattn " + report.version;
  add_roofs(report.peaks, data);
  add_caches(report, data);
  for (const Row& row : report.rows) {
    if (!is_shown(row)) continue;
    PlotPoint point;
    point.number = data.points.size() + 1;
    point.name = drawable(report.suite.empty() ? row.problem : row.name);
    if (!report.suite.empty()) point.problem = row.problem;
    point.kernel = row.kernel;
    point.kernel_index = index_of(data.kernels, row.kernel);
    point.intensity = row.work.flops / row.work.bytes;
    point.flops_per_second = row.flops_per_second();
    point.median_ns = row.time_ns.median;
    point.limit = limit_of(row, report.peaks);
    if (!point.limit.empty()) point.roof_share = std::max(row.compute_share, row.memory_share);
    data.points.push_back(std::move(point));
  }
  const std::size_t missing = report.rows.size() - data.points.size();
  if (missing != 0) {
    data.note =
        count_rows(report, missing) + " without a rate " + (missing == 1 ? "is" : "are") + " not shown.";
  }
  return data;
}

}  // namespace vkattn::bench
