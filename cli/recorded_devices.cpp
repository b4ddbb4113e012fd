// See recorded_devices.hpp.
#include "recorded_devices.hpp"

#include <vkattn/backward.hpp>
#include <vkattn/matmul.hpp>
#include <vkattn/runtime.hpp>

#include <algorithm>
#include <cctype>
#include <string_view>
#include <utility>

#include "console.hpp"
#include "error.hpp"
#include "json.hpp"
#include "problem/gradients.hpp"

namespace vkattn::cli {

namespace {

using bench::Problem;

constexpr std::size_t kDeviceLineLabelWidth = 12;
constexpr std::size_t kDeviceLineIndent = 3;

struct RecordedDevice {
  std::string file;
  Capabilities capabilities;
};

std::string lower(std::string_view text) {
  std::string lowered(text);
  for (char& c : lowered) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return lowered;
}

bool is_number(const std::string& text) {
  return std::ranges::all_of(text, [](char c) { return c >= '0' && c <= '9'; });
}

std::vector<RecordedDevice> chosen_devices(const RecordedDevices& where) {
  std::vector<RecordedDevice> all;
  for (const std::string& file : where.files) {
    for (Capabilities& device : take(read_capabilities(file))) all.push_back({file, std::move(device)});
  }
  if (where.device.empty()) return all;
  std::vector<RecordedDevice> chosen;
  for (std::size_t i = 0; i < all.size(); ++i) {
    const bool is_meant =
        is_number(where.device)
            ? std::to_string(i) == where.device
            : lower(all[i].capabilities.device_name).find(lower(where.device)) != std::string::npos;
    if (is_meant) chosen.push_back(all[i]);
  }
  if (chosen.empty()) {
    fail_usage("the files have " + console::count(all.size(), "device") + ", and '" +
               console::printable(where.device) + "' is none of them");
  }
  return chosen;
}

Result<Support> support_of(const Problem& problem, const Capabilities& device, const PlanOptions& options) {
  if (problem.operation == bench::Operation::kBackward) {
    return supports(bench::with_all_gradients(problem.desc), device, options);
  }
  if (problem.operation == bench::Operation::kMatmul) return supports(problem.matmul, device, options);
  return supports(problem.desc, device, options);
}

Json features_json(const std::vector<WantedFeature>& features) {
  Json list = Json::array();
  for (const WantedFeature& feature : features) {
    list.push_back(Json{{"name", feature.name}, {"extension", feature.extension}, {"gain", feature.gain}});
  }
  return list;
}

Json support_json(const RecordedDevice& device, const Result<Support>& support) {
  Json json = device_json(device.capabilities);
  json["file"] = device.file;
  if (!support) {
    json["refused"] = support.error().message;
    return json;
  }
  json["kernel"] = support->kernel;
  json["summary"] = support->summary;
  json["kernels"] = kernels_json(support->kernels);
  json["storage_buffers"] = support->storage_buffers;
  json["push_constant_bytes"] = support->push_constant_bytes;
  json["workspace_bytes"] = support->workspace_bytes;
  json["dispatches"] = support->dispatches;
  json["uses"] = features_json(support->uses);
  json["lacks"] = features_json(support->lacks);
  json["better"] = support->better;
  return json;
}

std::string device_line(std::string_view label, const std::string& text) {
  return console::labelled(label, console::printable(text), kDeviceLineLabelWidth, kDeviceLineIndent);
}

/// The names, with the extension of each that needs one.
std::string features_text(const std::vector<WantedFeature>& features) {
  std::string text;
  for (const WantedFeature& feature : features) {
    text.append(text.empty() ? "" : ", ").append(feature.name);
    if (!feature.extension.empty()) text.append(" (").append(feature.extension).append(")");
  }
  return text;
}

std::string support_text(const RecordedDevice& device, const Result<Support>& support) {
  const Capabilities& c = device.capabilities;
  std::string text = console::printable(c.device_name) + " - " + device_type_text(c.device_type) + "\n" +
                     device_line("driver", c.driver_name + " " + c.driver_info);
  if (!support) return text + device_line("refused", support.error().message);
  text += device_line("kernel", support->kernel + " (" + support->summary + ")");
  for (const KernelSupport& other : support->kernels) {
    if (!other.reason.empty()) text += device_line("not " + std::string(other.kernel), other.reason);
  }
  text += device_line("buffers", std::to_string(support->storage_buffers) + " of " +
                                     std::to_string(c.max_stage_storage_buffers) + " storage buffers");
  text += device_line("workspace", console::bytes(static_cast<double>(support->workspace_bytes)));
  text += device_line("dispatches", std::to_string(support->dispatches));
  if (!support->uses.empty()) text += device_line("enable", features_text(support->uses));
  if (!support->lacks.empty()) {
    text += device_line("lacks",
                        features_text(support->lacks) + ", with which " + support->better + " would be used");
  }
  return text;
}

}  // namespace

Json kernels_json(const std::vector<KernelSupport>& kernels) {
  Json list = Json::array();
  for (const KernelSupport& support : kernels) {
    list.push_back(
        Json{{"name", support.kernel}, {"available", support.reason.empty()}, {"reason", support.reason}});
  }
  return list;
}

int show_support(const RecordedDevices& where, const Problem& problem, const PlanOptions& options,
                 bool as_json, const Invocation& invocation) {
  std::size_t refused = 0;
  Json list = Json::array();
  std::string text = console::printable(to_string(problem)) + "\n";
  const std::vector<RecordedDevice> devices = chosen_devices(where);
  for (const RecordedDevice& device : devices) {
    const Result<Support> support = support_of(problem, device.capabilities, options);
    // A rule that the problem or an option breaks is no answer about the device.
    if (!support && !is_refusal(support.error())) fail(support.error());
    if (!support) ++refused;
    list.push_back(support_json(device, support));
    text += "\n" + support_text(device, support);
  }
  print(as_json ? dump_json(Json{{"version", invocation.version},
                                 {"problem", to_string(problem)},
                                 {"devices", std::move(list)}})
                : text);
  if (refused == 0) return 0;
  fail_device(std::to_string(refused) + " of " + console::count(devices.size(), "device") +
              " cannot run this problem");
}

}  // namespace vkattn::cli
