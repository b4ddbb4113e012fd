// `vkattn inspect` for queries and keys: a table, and a heat map of each head's weights.
#include <algorithm>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "console.hpp"
#include "error.hpp"
#include "inspect/inputs.hpp"
#include "inspect/layer_output.hpp"
#include "inspect/reports.hpp"
#include "inspect/steps.hpp"
#include "inspect/weights.hpp"
#include "open_runtime.hpp"
#include "picture/heat_map.hpp"
#include "plot_file.hpp"
#include "problem/problem.hpp"
#include "run_outputs.hpp"

namespace vkattn::cli {
namespace {

/// The statistics of a head with attention's scale, and without it.
struct Head {
  WeightStatistics scaled, unscaled;
};

struct HeadsReport {
  InspectInputs inputs;
  Weights scaled, unscaled;
  std::vector<Head> heads;
  std::optional<WeightCheck> check;
  std::optional<Steps> steps;        ///< set if --print or --steps ask for them
  std::optional<OutputFile> output;  ///< the output of a layer
};

std::string problem_text(const AttentionDesc& desc) {
  bench::Problem problem;
  problem.desc = desc;
  problem.desc.value_dim = desc.head_dim;
  problem.desc.set_layout(Layout::kBhsd);
  return to_string(problem);
}

void compute(const Runtime& runtime, const InspectArguments& arguments, HeadsReport& report) {
  const bool check = arguments.check;
  WeightProblem problem{report.inputs.desc, report.inputs.query, report.inputs.key};
  if (check) report.check.emplace();
  report.scaled = compute_weights(runtime, problem);
  if (check) check_weights(problem, report.scaled, *report.check);
  problem.desc.scale = 1;
  report.unscaled = compute_weights(runtime, problem);
  if (check) check_weights(problem, report.unscaled, *report.check);
  for (std::int64_t head = 0; head < problem.desc.query_heads; ++head) {
    report.heads.push_back(
        {weight_statistics(report.scaled.rows_of(head)), weight_statistics(report.unscaled.rows_of(head))});
  }
  const InspectInputs& inputs = report.inputs;
  std::vector<float> output;
  if (inputs.output_desc) {
    const WeightProblem with_values{*inputs.output_desc, inputs.query, inputs.key, inputs.value};
    output = compute_attention(runtime, with_values, WeightsStage::kNone).output;
  }
  if (report.output) write_layer_output(*report.output, *inputs.layer_output, output);
  if (arguments.steps) {
    report.steps = all_steps(runtime, inputs, report.scaled, report.unscaled);
    report.steps->output = std::move(output);
  } else if (arguments.print_weights) {
    report.steps = Steps{.weights = report.scaled.weights};
  }
}

/// A label, and its position if another row has the same label.
std::string name_of(const std::vector<std::string>& labels, std::int64_t index) {
  const std::string& label = labels[static_cast<std::size_t>(index)];
  const bool is_one_of_many = std::ranges::count(labels, label) > 1;
  return label + (is_one_of_many ? "[" + std::to_string(index) + "]" : "");
}

std::string link_text(const InspectInputs& inputs, const WeightStatistics& statistics) {
  if (!statistics.has_choice) return "none: each query sees one key";
  return name_of(inputs.query_labels, statistics.largest_row) + " -> " +
         name_of(inputs.key_labels, statistics.largest_key) + " " + console::fixed(statistics.largest, 2);
}

std::string entropy_text(const WeightStatistics& statistics) {
  return console::fixed(statistics.entropy_bits, 2) + " " +
         console::pad_left("(" + console::fixed(statistics.entropy_share * 100, 0) + " %)", 7);
}

std::string statistics_table(const HeadsReport& report) {
  using console::pad_left;
  std::string text =
      "head  deviation of scores    entropy, bits (of log2 n)     largest weight       strongest link\n"
      "        scaled   unscaled       scaled       unscaled     scaled   unscaled\n";
  for (std::size_t i = 0; i < report.heads.size(); ++i) {
    const auto& [scaled, unscaled] = report.heads[i];
    text += pad_left(std::to_string(i), 4) + pad_left(console::significant(scaled.score_deviation), 10) +
            pad_left(console::significant(unscaled.score_deviation), 11) +
            pad_left(entropy_text(scaled), 15) + pad_left(entropy_text(unscaled), 15) +
            pad_left(console::fixed(scaled.mean_largest, 3), 10) +
            pad_left(console::fixed(unscaled.mean_largest, 3), 11) + "   " +
            link_text(report.inputs, scaled) + "\n";
  }
  return "\n" + text + "\n" +
         console::labelled("",
                           "scaled: scores times " + scale_text(report.inputs.desc) +
                               "; unscaled: times 1. Entropy and largest weight are means over the queries "
                               "that see at least two keys; a query that looks at all of its n keys alike "
                               "has log2(n) bits.",
                           0);
}

std::string text_report(const Runtime& runtime, const HeadsReport& report) {
  const InspectInputs& inputs = report.inputs;
  const auto line = [](std::string_view label, const std::string& text) {
    return console::labelled(label, text, 10);
  };
  std::string text = device_line(runtime) + line("input", inputs.source) +
                     line("problem", problem_text(inputs.desc)) + line("kernel", report.scaled.kernel);
  if (report.check) {
    text += line("check", (report.check->passed() ? "passed: " : "FAILED: ") + check_text(*report.check));
  }
  if (report.output) text += line("output", output_text(*report.output));
  text += report.steps ? steps_text(inputs, *report.steps) : statistics_table(report);
  if (!inputs.warning.empty()) text += "\n" + console::labelled("", inputs.warning, 0);
  return text;
}

Json side_json(const Weights& weights, std::int64_t head, const WeightStatistics& statistics) {
  Json json = statistics_json(statistics);
  json["largest_weight"] = Json{
      {"weight", statistics.largest}, {"query", statistics.largest_row}, {"key", statistics.largest_key}};
  json["weights"] = matrix_json(weights.rows_of(head).weights, static_cast<std::size_t>(weights.keys));
  return json;
}

std::string json_report(const Runtime& runtime, const HeadsReport& report, const Invocation& invocation) {
  const InspectInputs& inputs = report.inputs;
  Json json = json_head(runtime, invocation);
  json["input"] = inputs.source;
  json["problem"] = problem_text(inputs.desc);
  json["kernel"] = report.scaled.kernel;
  json["untrained"] = !inputs.warning.empty();
  if (!inputs.warning.empty()) json["note"] = inputs.warning;
  json["query_labels"] = inputs.query_labels;
  json["key_labels"] = inputs.key_labels;
  json["scale"] = inputs.desc.effective_scale();
  Json heads = Json::array();
  for (std::size_t i = 0; i < report.heads.size(); ++i) {
    const auto head = static_cast<std::int64_t>(i);
    heads.push_back(Json{{"head", head},
                         {"scaled", side_json(report.scaled, head, report.heads[i].scaled)},
                         {"unscaled", side_json(report.unscaled, head, report.heads[i].unscaled)}});
    if (report.steps) heads.back()["steps"] = steps_json(inputs, *report.steps, head);
  }
  json["heads"] = std::move(heads);
  if (report.check) json["check"] = check_json(*report.check);
  if (report.output) json["output"] = output_json(*report.output);
  return dump_json(json);
}

/// The weights of a head. A hidden key has no number.
std::vector<double> panel_values(const Weights& weights, std::int64_t head) {
  const WeightRows rows = weights.rows_of(head);
  std::vector<double> values(rows.weights.begin(), rows.weights.end());
  for (std::size_t i = 0; i < values.size(); ++i) {
    const auto key = static_cast<std::int64_t>(i) % rows.keys;
    const reference::KeyRange& range = rows.visible[i / static_cast<std::size_t>(rows.keys)];
    if (key < range.begin || key >= range.end) values[i] = std::numeric_limits<double>::quiet_NaN();
  }
  return values;
}

picture::HeatMap heat_map(const HeadsReport& report, const InspectArguments& arguments,
                          const std::string& device) {
  const InspectInputs& inputs = report.inputs;
  const AttentionDesc& desc = inputs.desc;
  picture::HeatMap map;
  map.title = "Attention weights: " + inputs.source;
  map.caption = problem_text(desc);
  if (!desc.scale) map.caption += ", scores times " + scale_text(desc);
  map.caption += "  \xc2\xb7  " + device;
  map.warning = inputs.warning;
  map.row_axis = "query";
  map.column_axis = "key";
  map.scale_axis = "weight";
  map.scale = arguments.colors == "sqrt" ? picture::HeatScale::kSquareRoot : picture::HeatScale::kLinear;
  map.has_scale_for_each = arguments.colors_per_head;
  map.row_labels = inputs.query_labels;
  map.column_labels = inputs.key_labels;
  map.labels_are_numbers = inputs.labels_are_numbers;
  const auto hides = [&](const reference::KeyRange& range) {
    return range.end - range.begin < desc.kv_length;
  };
  if (std::ranges::any_of(report.scaled.visible, hides)) map.no_number = "hidden";
  const std::size_t shown = std::min(report.heads.size(), picture::kMostHeatPanels);
  if (shown < report.heads.size()) {
    map.title = "Heads 0 to " + std::to_string(shown - 1) + " of " + std::to_string(report.heads.size()) +
                ": " + inputs.source;
  }
  for (std::size_t i = 0; i < shown; ++i) {
    const WeightStatistics& numbers = report.heads[i].scaled;
    map.panels.push_back({"head " + std::to_string(i),
                          "entropy " + console::fixed(numbers.entropy_bits, 2) + " bits (" +
                              console::fixed(numbers.entropy_share * 100, 0) + " %), largest " +
                              console::fixed(numbers.largest, 2),
                          panel_values(report.scaled, static_cast<std::int64_t>(i))});
  }
  return map;
}

/// Names the characters of labels that are boxes in a PNG, because its font lacks them.
void warn_of_missing_glyphs(const picture::HeatMap& map) {
  std::vector<std::string> texts = map.row_labels;
  texts.insert(texts.end(), map.column_labels.begin(), map.column_labels.end());
  const std::string missing = picture::missing_glyphs(texts);
  if (missing.empty()) return;
  constexpr std::size_t kMostBytes = 48;
  std::size_t bytes = std::min(missing.size(), kMostBytes);
  while (bytes < missing.size() && (static_cast<unsigned char>(missing[bytes]) & 0xC0U) == 0x80U) --bytes;
  print_warning("the picture's font has no glyph for '" + missing.substr(0, bytes) + "'" +
                (bytes < missing.size() ? " and others" : "") +
                ", and shows boxes; --plot FILE.svg is drawn with its viewer's fonts");
}

/// Refuses weights that are too large for a picture, before anything is computed.
void require_room_in_picture(const AttentionDesc& desc) {
  constexpr auto kMost = static_cast<std::int64_t>(picture::kMostHeatCells);
  if (std::max(desc.query_length, desc.kv_length) <= kMost) return;
  fail_usage("--plot has room for " + std::to_string(kMost) + " queries and keys, and these are " +
             std::to_string(desc.query_length) + " and " + std::to_string(desc.kv_length) +
             "; leave it out, or give fewer");
}

}  // namespace

int inspect_heads(const InspectArguments& arguments, InspectMode mode, const Invocation& invocation) {
  HeadsReport report;
  report.inputs = mode == InspectMode::kText    ? inputs_of_text(arguments)
                  : mode == InspectMode::kLayer ? inputs_of_layer(arguments)
                                                : inputs_of_arrays(arguments);
  if (!arguments.plot.empty()) require_room_in_picture(report.inputs.desc);
  if ((arguments.steps || arguments.print_weights) && !arguments.json)
    require_room_in_text(arguments.steps ? "--steps" : "--print", report.inputs);
  std::optional<PlotFile> plot = open_plot(arguments.plot);
  if (report.inputs.layer_output) {
    report.output.emplace(OutputFile{.file = take(AtomicFile::create(arguments.output)),
                                     .shape = report.inputs.layer_output->shape});
  }
  for (const std::string& advice : report.inputs.advice) print_warning(advice);
  const Runtime runtime = open_runtime(arguments.where);
  compute(runtime, arguments, report);
  if (report.output) require(report.output->file.commit());
  print(arguments.json ? json_report(runtime, report, invocation) : text_report(runtime, report));
  if (plot) {
    const picture::HeatMap map = heat_map(report, arguments, device_caption(runtime, invocation));
    if (plot->format == picture::Format::kPng) warn_of_missing_glyphs(map);
    write_plot(*plot, draw_heat_map(map, plot->format));
  }
  if (report.check) require_passed(*report.check);
  return 0;
}

}  // namespace vkattn::cli
