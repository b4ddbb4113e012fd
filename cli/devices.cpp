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

constexpr std::size_t kDeviceLabelWidth = 16;
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

/// The features of VK_NV_cooperative_matrix2 with their names in the output.
std::vector<std::pair<std::string, bool>> matrix2_features(const Capabilities& device) {
  return {{"workgroup_scope", device.matrix2_workgroup_scope},
          {"flexible_dimensions", device.matrix2_flexible_dimensions},
          {"reductions", device.matrix2_reductions},
          {"conversions", device.matrix2_conversions},
          {"per_element_operations", device.matrix2_per_element_operations},
          {"tensor_addressing", device.matrix2_tensor_addressing},
          {"block_loads", device.matrix2_block_loads}};
}

/// What the device has of VK_NV_cooperative_matrix2: its features, then its flexible matrices with their
/// granularity.
std::vector<std::string> matrix2_entries(const Capabilities& device) {
  std::vector<std::string> entries;
  for (const auto& [name, enabled] : matrix2_features(device)) {
    if (!enabled) continue;
    std::string words = name;
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
  const std::vector<std::string> matrix2 = matrix2_entries(device);
  if (!matrix2.empty())
    text += console::labelled_list("matrix units 2", matrix2, kDeviceLabelWidth, kDeviceIndent);
  text += console::labelled_list("limits", limit_entries(device), kDeviceLabelWidth, kDeviceIndent);
  for (const KernelEntry& entry : kernel_entries(device)) {
    text += fact("kernel " + entry.kernel, kernel_text(entry));
  }
  return text;
}

Json limits_json(const Capabilities& device) {
  return Json{{"max_shared_memory_bytes", device.max_shared_memory_bytes},
              {"max_workgroup_invocations", device.max_workgroup_invocations},
              {"max_workgroup_size", device.max_workgroup_size},
              {"max_workgroup_count", device.max_workgroup_count},
              {"max_storage_buffer_range_bytes", device.max_storage_buffer_range},
              {"max_buffer_size_bytes", device.max_buffer_size},
              {"max_memory_allocation_bytes", device.max_memory_allocation_bytes},
              {"max_push_constants_bytes", device.max_push_constants_bytes},
              {"max_stage_storage_buffers", device.max_stage_storage_buffers},
              {"min_storage_offset_alignment_bytes", device.min_storage_offset_alignment},
              {"max_flexible_matrix_dimension", device.max_flexible_matrix_dimension},
              {"max_matrix_workgroup_size", device.max_matrix_workgroup_size},
              {"matrix_reserved_shared_memory_bytes", device.matrix_reserved_shared_bytes}};
}

Json matrix_json(const Capabilities& device) {
  Json shapes = Json::array();
  for (const MatrixShape& shape : device.matrix_shapes) {
    shapes.push_back(Json{{"m", shape.m},
                          {"n", shape.n},
                          {"k", shape.k},
                          {"a", shape.a_type},
                          {"b", shape.b_type},
                          {"c", shape.c_type},
                          {"result", shape.result_type},
                          {"scope", shape.scope}});
  }
  return shapes;
}

Json flexible_json(const Capabilities& device) {
  Json entries = Json::array();
  for (const FlexibleMatrix& flexible : device.flexible_matrices) {
    entries.push_back(Json{{"m_granularity", flexible.m_granularity},
                           {"n_granularity", flexible.n_granularity},
                           {"k_granularity", flexible.k_granularity},
                           {"a", flexible.a_type},
                           {"b", flexible.b_type},
                           {"c", flexible.c_type},
                           {"result", flexible.result_type},
                           {"scope", flexible.scope},
                           {"workgroup_invocations", flexible.workgroup_invocations}});
  }
  return entries;
}

Json info_json(const DeviceInfo& info) {
  const Capabilities& device = info.capabilities;
  Json json = device_json(device);
  json["index"] = info.index;
  json["rejected"] = info.rejected;
  if (!info.rejected.empty()) return json;
  json["driver_version"] = device.driver_version;
  json["subgroup"] = Json{{"size", device.subgroup_size},
                          {"min_size", device.min_subgroup_size},
                          {"max_size", device.max_subgroup_size},
                          {"size_control", device.subgroup_size_control},
                          {"arithmetic", device.subgroup_arithmetic},
                          {"shuffle", device.subgroup_shuffle}};
  json["features"] = Json{{"storage_buffer_16bit", device.storage_buffer_16bit},
                          {"shader_int16", device.shader_int16},
                          {"shader_float16", device.shader_float16},
                          {"shader_int64", device.shader_int64},
                          {"preserves_nan_float32", device.preserves_nan_float32},
                          {"rounds_float16_to_nearest", device.rounds_float16_to_nearest},
                          {"maximal_reconvergence", device.maximal_reconvergence},
                          {"subgroup_uniform_control_flow", device.subgroup_uniform_control_flow},
                          {"push_descriptors", device.push_descriptors},
                          {"pipeline_statistics", device.pipeline_statistics},
                          {"cooperative_matrix", device.cooperative_matrix},
                          {"bfloat16_matrix", device.bfloat16_matrix},
                          {"maintenance4", device.maintenance4}};
  for (const auto& [name, enabled] : matrix2_features(device))
    json["features"]["cooperative_matrix2_" + name] = enabled;
  json["matrix_shapes"] = matrix_json(device);
  json["flexible_matrices"] = flexible_json(device);
  json["limits"] = limits_json(device);
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
    print(dump_json(Json{{"version", invocation.version}, {"devices", std::move(list)}, {"choice", choice}}));
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
