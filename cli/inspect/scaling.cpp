// `vkattn inspect --sweep-dim`: shows the purpose of the scale 1/sqrt(dim).
#include <algorithm>
#include <cmath>
#include <optional>
#include <string>
#include <vector>

#include "console.hpp"
#include "error.hpp"
#include "harness/data.hpp"
#include "inspect/reports.hpp"
#include "inspect/weights.hpp"
#include "open_runtime.hpp"
#include "picture/charts.hpp"
#include "plot_file.hpp"

namespace vkattn::cli {
namespace {

constexpr std::int64_t kHeads = 8, kRows = 64, kKeys = 64;

/// The statistics with the scale, or without it.
struct Side {
  WeightStatistics weights;
  double median_gradient = 0, mean_gradient = 0;  ///< norms of the softmax's Jacobian
};

struct Point {
  std::int64_t dim = 0;
  Side scaled, unscaled;
};

struct Sweep {
  std::uint64_t seed = 1;
  std::vector<Point> points;
  std::optional<WeightCheck> check;
};

std::vector<float> normal_array(std::uint64_t stream, std::int64_t count) {
  harness::NormalNumbers normal(stream);
  std::vector<float> numbers;
  for (std::int64_t i = 0; i < count; ++i)
    numbers.push_back(static_cast<float>(normal.at(static_cast<std::uint64_t>(i))));
  return numbers;
}

AttentionDesc desc_of_dim(std::int64_t dim) {
  AttentionDesc desc;
  desc.query_heads = desc.kv_heads = kHeads;
  desc.query_length = kRows;
  desc.kv_length = kKeys;
  desc.head_dim = dim;
  desc = desc.resolved();
  desc.value = desc.key;  // values do not matter here, so one element of each key is enough
  desc.value_dim = 1;
  desc.output = {};
  return desc.resolved();
}

Side measure(const Runtime& runtime, const WeightProblem& problem, Sweep& sweep) {
  const Weights weights = compute_weights(runtime, problem);
  if (sweep.check) check_weights(problem, weights, *sweep.check);
  Side side;
  side.weights = weight_statistics(weights.rows());
  std::vector<double> norms = jacobian_norms(weights.rows());
  for (const double norm : norms) side.mean_gradient += norm / static_cast<double>(norms.size());
  const auto middle = norms.begin() + static_cast<std::ptrdiff_t>(norms.size() / 2);
  std::nth_element(norms.begin(), middle, norms.end());
  side.median_gradient = *middle;
  return side;
}

Point measure_dim(const Runtime& runtime, std::int64_t dim, Sweep& sweep) {
  const std::vector<float> query =
      normal_array(harness::stream_of(sweep.seed, 2 * static_cast<std::uint64_t>(dim)), kHeads * kRows * dim);
  const std::vector<float> key = normal_array(
      harness::stream_of(sweep.seed, 2 * static_cast<std::uint64_t>(dim) + 1), kHeads * kKeys * dim);
  WeightProblem problem{desc_of_dim(dim), query, key};
  Point point;
  point.dim = dim;
  point.scaled = measure(runtime, problem, sweep);
  problem.desc.scale = 1;
  point.unscaled = measure(runtime, problem, sweep);
  return point;
}

std::string setting_text(const Sweep& sweep) {
  return std::to_string(kHeads) + " heads of " + std::to_string(kRows) + " queries and " +
         std::to_string(kKeys) + " keys, unit-normal numbers (seed " + std::to_string(sweep.seed) + ")";
}

std::string gradient_text(double norm) {
  return norm < 1e-3 ? console::significant(norm * 1e6) + "e-6" : console::fixed(norm, 4);
}

std::string table(const Sweep& sweep) {
  using console::pad_left;
  std::string text =
      "dim   sqrt   deviation of scores   entropy of log2(n)   largest weight        gradient, median\n"
      "              scaled  unscaled      scaled  unscaled    scaled  unscaled     scaled    unscaled\n";
  for (const auto& [dim, scaled, unscaled] : sweep.points) {
    const auto share = [](const Side& side) { return console::percent(side.weights.entropy_share); };
    text += pad_left(std::to_string(dim), 3) +
            pad_left(console::significant(std::sqrt(static_cast<double>(dim))), 7) +
            pad_left(console::significant(scaled.weights.score_deviation), 10) +
            pad_left(console::significant(unscaled.weights.score_deviation), 10) +
            pad_left(share(scaled), 12) + pad_left(share(unscaled), 10) +
            pad_left(console::fixed(scaled.weights.mean_largest, 3), 10) +
            pad_left(console::fixed(unscaled.weights.mean_largest, 3), 10) +
            pad_left(gradient_text(scaled.median_gradient), 11) +
            pad_left(gradient_text(unscaled.median_gradient), 12) + "\n";
  }
  return text;
}

std::string text_report(const Runtime& runtime, const Sweep& sweep) {
  std::string text = device_line(runtime) + console::labelled("data", setting_text(sweep), 10);
  if (sweep.check) {
    text += console::labelled(
        "check", (sweep.check->passed() ? "passed: " : "FAILED: ") + check_text(*sweep.check), 10);
  }
  text += "\n" + table(sweep) + "\n";
  return text +
         console::labelled(
             "",
             "scaled: scores times 1/sqrt(dim); unscaled: times 1. Gradient: the Frobenius norm of the "
             "Jacobian "
             "of softmax at a query's weights, of half of the queries less than this. A sum of dim products "
             "of "
             "unit-normal numbers has a standard deviation of sqrt(dim): without the scale weights come to "
             "stand on one key, and no gradient gets through to the scores.",
             0);
}

Json side_json(const Side& side) {
  Json json = statistics_json(side.weights);
  json["median_jacobian_norm"] = side.median_gradient;
  json["mean_jacobian_norm"] = side.mean_gradient;
  return json;
}

std::string json_report(const Runtime& runtime, const Sweep& sweep, const Invocation& invocation) {
  Json json = json_head(runtime, invocation);
  json["seed"] = sweep.seed;
  json["heads"] = kHeads;
  json["queries"] = kRows;
  json["keys"] = kKeys;
  Json dims = Json::array();
  for (const Point& point : sweep.points) {
    dims.push_back(Json{{"head_dim", point.dim},
                        {"scaled", side_json(point.scaled)},
                        {"unscaled", side_json(point.unscaled)}});
  }
  json["dims"] = std::move(dims);
  if (sweep.check) json["check"] = check_json(*sweep.check);
  return dump_json(json);
}

/// Two lines of one statistic: with the scale and without it.
template <class Number>
std::vector<picture::Series> both_lines(const Sweep& sweep, Number&& number) {
  std::vector<picture::Series> lines = {{"without the scale", {}, 1}, {"scores times 1/sqrt(dim)", {}, 0}};
  for (const Point& point : sweep.points) {
    lines[0].points.push_back({static_cast<double>(point.dim), number(point.unscaled)});
    lines[1].points.push_back({static_cast<double>(point.dim), number(point.scaled)});
  }
  return lines;
}

picture::ChartPage charts(const Sweep& sweep, const std::string& device) {
  const auto chart = [&](const char* title, const char* note, auto&& number) {
    return picture::Chart{title, note, "", both_lines(sweep, number)};
  };
  picture::ChartPage page;
  page.title = "Why scores are divided by sqrt(dim)";
  page.caption = setting_text(sweep) + "  \xc2\xb7  " + device;
  page.x_axis = "dimension of queries and keys";
  page.charts = {
      chart("Standard deviation of the scores", "Grows with sqrt(dim), or stays at 1.",
            [](const Side& side) { return side.weights.score_deviation; }),
      chart("Entropy of the weights", "Share of log2(keys), which equal weights have; mean of the queries.",
            [](const Side& side) { return side.weights.entropy_share; }),
      chart("Largest weight of a query", "1: it looks at one key alone; mean of the queries.",
            [](const Side& side) { return side.weights.mean_largest; }),
      chart("Gradient that passes the softmax", "Frobenius norm of its Jacobian, median of the queries.",
            [](const Side& side) { return side.median_gradient; })};
  page.charts[0].is_logarithmic = page.charts[3].is_logarithmic = true;
  page.charts[1].top = page.charts[2].top = 1;
  picture::Series expected{"sqrt(dim)", {}, 5, picture::Look::kBand};
  for (const Point& point : sweep.points) {
    const auto dim = static_cast<double>(point.dim);
    expected.points.push_back({dim, std::sqrt(dim)});
  }
  page.charts[0].series.push_back(std::move(expected));
  return page;
}

}  // namespace

int inspect_scaling(const InspectArguments& arguments, const Invocation& invocation) {
  const std::vector<std::int64_t> dims = numbers_of("--sweep-dim", arguments.sweep_dim, 1, kMaxHeadDim);
  Sweep sweep;
  sweep.seed = seed_of(arguments);
  if (arguments.check) sweep.check.emplace();
  if (!arguments.plot.empty() && dims.size() < 2)
    fail_usage("--plot of --sweep-dim needs at least 2 dimensions, and " + arguments.sweep_dim + " is one");
  std::optional<PlotFile> plot = open_plot(arguments.plot);
  const Runtime runtime = open_runtime(arguments.where);
  console::ProgressBar bar;
  for (const std::int64_t dim : dims) {
    bar.update(static_cast<double>(sweep.points.size()) / static_cast<double>(dims.size()),
               "dimension " + std::to_string(dim));
    sweep.points.push_back(measure_dim(runtime, dim, sweep));
  }
  bar.clear();
  print(arguments.json ? json_report(runtime, sweep, invocation) : text_report(runtime, sweep));
  if (plot) write_plot(*plot, draw_charts(charts(sweep, device_caption(runtime, invocation)), plot->format));
  if (sweep.check) require_passed(*sweep.check);
  return 0;
}

}  // namespace vkattn::cli
