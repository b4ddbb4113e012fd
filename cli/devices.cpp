// `vkattn devices`: the devices, the facts that decide about kernels, and the availability of each kernel.
#include <vkattn/runtime.hpp>

#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "command.hpp"
#include "console.hpp"
#include "error.hpp"
#include "json.hpp"
#include "open_runtime.hpp"

namespace vkattn::cli {
namespace {

constexpr std::size_t kDeviceLabelWidth = 20;
constexpr std::size_t kDeviceIndent = 3;

std::string yes_no(bool value) {
  return value ? "yes" : "no";
}

std::string fact(std::string_view label, const std::string& text) {
  return console::labelled(label, console::printable(text), kDeviceLabelWidth, kDeviceIndent);
}

/// A limit in bytes. The largest number means that the device does not state the limit.
std::string limit_text(std::uint64_t bytes) {
  return bytes == ~0ULL ? "not stated" : console::bytes(static_cast<double>(bytes));
}

/// A problem of ordinary size. A kernel that refuses it refuses the device and not the problem.
AttentionDesc plain_problem(DataType type) {
  AttentionDesc desc;
  desc.set_type(type);
  desc.query_length = 16;  // no kernel refuses so few rows
  desc.kv_length = 512;
  desc.head_dim = 64;
  return desc;
}

/// Whether a kernel can run on the device.
struct KernelEntry {
  std::string kernel;
  std::vector<std::string> types;  ///< types of Q, K and V that the kernel takes
  std::string reason;              ///< set if it takes no type
};

std::vector<KernelEntry> kernel_entries(const Capabilities& device) {
  std::vector<KernelEntry> entries;
  for (const DataType type : {DataType::kFloat32, DataType::kFloat16, DataType::kBfloat16}) {
    for (const KernelSupport& support : kernel_support(plain_problem(type), device)) {
      auto entry = std::find_if(entries.begin(), entries.end(),
                                [&](const KernelEntry& other) { return other.kernel == support.kernel; });
      if (entry == entries.end()) entry = entries.insert(entry, {std::string(support.kernel), {}, {}});
      if (support.reason.empty()) entry->types.emplace_back(name(type));
      // Every kernel takes float16, so a reason against float16 comes from the device.
      if (type == DataType::kFloat16) entry->reason = support.reason;
    }
  }
  return entries;
}

std::string kernel_text(const KernelEntry& entry) {
  if (entry.types.empty()) return "not available: " + entry.reason;
  std::string text = "available for";
  for (std::size_t i = 0; i < entry.types.size(); ++i) text += (i == 0 ? " " : ", ") + entry.types[i];
  return text;
}

std::string subgroup_text(const Capabilities& device) {
  std::string text = std::to_string(device.subgroup_size);
  if (device.min_subgroup_size != device.max_subgroup_size) {
    text += " (" + std::to_string(device.min_subgroup_size) + " to " +
            std::to_string(device.max_subgroup_size) +
            (device.subgroup_size_control ? ", as the kernel asks)" : ")");
  }
  return text + ", arithmetic " + yes_no(device.subgroup_arithmetic) + ", shuffle " +
         yes_no(device.subgroup_shuffle);
}

std::vector<std::string> matrix_entries(const Capabilities& device) {
  if (!device.cooperative_matrix) return {"none that this build can use (VK_KHR_cooperative_matrix)"};
  std::vector<std::string> entries;
  for (const MatrixShape& shape : device.matrix_shapes) {
    const std::string entry = std::to_string(shape.m) + "x" + std::to_string(shape.n) + "x" +
                              std::to_string(shape.k) + " " + shape.a_type + "->" + shape.result_type;
    if (std::find(entries.begin(), entries.end(), entry) == entries.end()) entries.push_back(entry);
  }
  if (entries.empty()) entries.emplace_back("no shape listed");
  return entries;
}

/// What the device has of the second extension for matrices: its features, then its flexible matrices with
/// their granularity.
std::vector<std::string> flexible_entries(const Capabilities& device) {
  std::vector<std::string> entries;
  const Json features = capabilities_json(device)["features"];
  for (const auto& [name, enabled] : features.items()) {
    constexpr std::string_view kFirst = "cooperative_matrix";  // followed by the second's number and '_'
    if (!name.starts_with(kFirst) || name == kFirst || !enabled.get<bool>()) continue;
    std::string words = name.substr(name.find('_', kFirst.size()) + 1);
    std::replace(words.begin(), words.end(), '_', ' ');
    entries.push_back(words);
  }
  for (const FlexibleMatrix& flexible : device.flexible_matrices) {
    std::string entry = std::to_string(flexible.m_granularity) + "x" +
                        std::to_string(flexible.n_granularity) + "x" +
                        std::to_string(flexible.k_granularity) + " " + flexible.a_type + "->" +
                        flexible.result_type + " " + flexible.scope;
    if (flexible.workgroup_invocations != 0) entry += " of " + std::to_string(flexible.workgroup_invocations);
    if (std::find(entries.begin(), entries.end(), entry) == entries.end()) entries.push_back(entry);
  }
  return entries;
}

std::vector<std::string> limit_entries(const Capabilities& device) {
  return {"storage buffer " + limit_text(device.max_storage_buffer_range),
          "buffer " + limit_text(device.max_buffer_size),
          "allocation " + limit_text(device.max_memory_allocation_bytes),
          "push constants " + console::bytes(device.max_push_constants_bytes),
          "buffer offsets in steps of " +
              console::bytes(static_cast<double>(device.min_storage_offset_alignment))};
}

std::string device_text(const DeviceInfo& info) {
  const Capabilities& device = info.capabilities;
  std::string text = console::labelled(
      std::to_string(info.index),
      console::printable(device.device_name) + " - " + device_type_text(device.device_type), kDeviceIndent);
  if (!info.rejected.empty()) return text + fact("cannot be used", info.rejected);
  text += fact("driver", device.driver_name + " " + device.driver_info);
  text += fact("Vulkan", version_text(device.api_version));
  text += fact("subgroups of", subgroup_text(device));
  text +=
      fact("workgroups of", "up to " + std::to_string(device.max_workgroup_invocations) + " invocations, " +
                                console::bytes(device.max_shared_memory_bytes) + " of shared memory");
  text += fact("16-bit", "storage " + yes_no(device.storage_buffer_16bit) + ", float16 " +
                             yes_no(device.shader_float16) + ", int16 " + yes_no(device.shader_int16));
  text += fact("64-bit", "int64 " + yes_no(device.shader_int64));
  text += console::labelled_list("matrix units", matrix_entries(device), kDeviceLabelWidth, kDeviceIndent);
  const std::vector<std::string> flexible = flexible_entries(device);
  if (!flexible.empty())
    text += console::labelled_list("matrix units 2", flexible, kDeviceLabelWidth, kDeviceIndent);
  text += console::labelled_list("limits", limit_entries(device), kDeviceLabelWidth, kDeviceIndent);
  for (const KernelEntry& entry : kernel_entries(device)) {
    text += fact("kernel " + entry.kernel, kernel_text(entry));
  }
  return text;
}

Json info_json(const DeviceInfo& info) {
  const Capabilities& device = info.capabilities;
  const bool is_usable = info.rejected.empty();
  Json json = is_usable ? capabilities_json(device) : device_json(device);
  json["index"] = info.index;
  json["rejected"] = info.rejected;
  if (!is_usable) return json;
  Json kernels = Json::array();
  for (const KernelEntry& entry : kernel_entries(device)) {
    kernels.push_back(Json{{"name", entry.kernel},
                           {"available", !entry.types.empty()},
                           {"types", entry.types},
                           {"reason", entry.types.empty() ? entry.reason : ""}});
  }
  json["kernels"] = std::move(kernels);
  return json;
}

int list_devices(bool as_json, const DeviceArguments& arguments, const Invocation& invocation) {
  Result<std::vector<DeviceInfo>> listed = Runtime::list_devices();
  if (!listed.ok()) fail_device(listed.error().message);
  const std::vector<DeviceInfo> devices = std::move(listed).value();
  if (devices.empty()) {
    fail_device(
        "no Vulkan device was found (the package mesa-vulkan-drivers on Debian and Ubuntu has one for any "
        "CPU)");
  }
  // The runtime chooses and gives its reasons. VKATTN_DEVICE may name a device that does not exist.
  RuntimeOptions options;
  options.device = arguments.device;
  options.pipeline_cache = false;
  const Result<Runtime> runtime = Runtime::create(options);
  const std::string choice = runtime.ok() ? runtime->device_choice() : "";
  Json list = Json::array();
  std::string text;
  for (const DeviceInfo& info : devices) {
    list.push_back(info_json(info));
    text += device_text(info) + "\n";
  }
  if (as_json) {
    Json file{{"version", invocation.version}};
    file.update(Json::parse(capabilities_text({})));
    file["devices"] = std::move(list);
    file["choice"] = choice;
    print(dump_json(file));
  } else {
    print(text + choice);
  }
  if (!runtime.ok()) fail_device(runtime.error().message);
  return 0;
}

}  // namespace

Command add_devices_command(CLI::App& parent, const Invocation& invocation) {
  CLI::App& app = add_subcommand(parent, "devices", "List Vulkan devices, and what kernels say of them");
  auto as_json = std::make_shared<bool>(false);
  auto device = std::make_shared<DeviceArguments>();
  add_device_option(app, *device);
  add_switch(app, "--json", *as_json, "Print JSON");
  set_help(app, "vkattn devices [OPTIONS]",
           "Examples:\n"
           "  vkattn devices\n"
           "  vkattn devices --json\n"
           "  VKATTN_DEVICE=llvmpipe vkattn devices    ends with what the variable chooses\n");
  return {&app, [as_json, device, invocation] { return list_devices(*as_json, *device, invocation); }};
}

}  // namespace vkattn::cli
