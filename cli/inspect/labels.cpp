// See labels.hpp.
#include "inspect/labels.hpp"

#include <algorithm>
#include <cstddef>

#include "console.hpp"
#include "error.hpp"
#include "inspect/tokens.hpp"
#include "json.hpp"
#include "runtime/input_file.hpp"

namespace vkattn::cli {
namespace {

/// Reads labels from a JSON list of texts, or from lines.
std::vector<std::string> labels_in_file(const std::string& path) {
  constexpr std::uintmax_t kMostBytes = std::uintmax_t{1} << 20;
  const auto text = detail::read_input(path, kMostBytes);
  if (!text) fail_usage("--labels-file " + path + ": " + text.error().message);
  if (!text->starts_with('[')) {
    std::vector<std::string> lines = lines_of(*text);
    if (text->ends_with('\n')) lines.pop_back();
    return lines;
  }
  const Json list = Json::parse(*text, nullptr, false);
  std::vector<std::string> labels;
  for (const Json& each : list) {
    if (each.is_string()) labels.push_back(drawable(each.get<std::string>()));
  }
  if (!list.is_array() || labels.size() != list.size())
    fail_usage("--labels-file " + path + " begins with [ but is no JSON list of texts");
  return labels;
}

}  // namespace

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::size_t begin = 0;
  for (std::size_t end = 0; end != std::string::npos; begin = end + 1) {
    end = text.find('\n', begin);
    lines.push_back(drawable(text.substr(begin, end - begin)));
  }
  return lines;
}

std::vector<std::string> given_labels(const InspectArguments& arguments,
                                      const std::vector<LabelledRows>& all) {
  const bool is_file = !arguments.labels_file.empty();
  if (!is_file && arguments.labels.empty()) return {};
  std::vector<std::string> labels =
      is_file ? labels_in_file(arguments.labels_file) : read_tokens("--labels", arguments.labels);
  const auto count = static_cast<std::int64_t>(labels.size());
  std::string rows;
  for (const LabelledRows& each : all)
    rows += (rows.empty() ? "" : " and ") + each.name + " has " + std::to_string(each.rows);
  if (!std::ranges::all_of(all, [&](const LabelledRows& each) { return each.rows == count; })) {
    fail_usage((is_file ? "--labels-file " + arguments.labels_file : "--labels") + " has " +
               console::count(labels.size(), is_file ? "label" : "token") + ", but " + rows + " rows");
  }
  return labels;
}

}  // namespace vkattn::cli
