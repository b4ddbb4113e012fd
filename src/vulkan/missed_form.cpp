// See missed_form.hpp.
#include "vulkan/missed_form.hpp"

#include <vector>

#include "common/message.hpp"
#include "vulkan/device_feature_table.hpp"

namespace vkattn::detail {

namespace {

using FeatureRows = std::vector<const DeviceFeatureRow*>;

// The capabilities of the device with more features enabled.
Capabilities with(const DeviceState& device, const FeatureRows& rows) {
  Capabilities capabilities = device.capabilities;
  for (const DeviceFeatureRow* const row : rows) capabilities.*row->member = true;
  capabilities.bfloat16_matrix &= capabilities.bfloat16_type;
  if (capabilities.subgroup_size_control) {
    capabilities.required_subgroup_size = device.supported.required_subgroup_size;
  }
  // These lists and limits are read only if their feature is enabled.
  if (capabilities.matrix_shapes.empty()) capabilities.matrix_shapes = device.supported.matrix_shapes;
  if (capabilities.flexible_matrices.empty()) {
    capabilities.flexible_matrices = device.supported.flexible_matrices;
    capabilities.max_flexible_matrix_dimension = device.supported.max_flexible_matrix_dimension;
    capabilities.max_matrix_workgroup_size = device.supported.max_matrix_workgroup_size;
    capabilities.matrix_reserved_shared_bytes = device.supported.matrix_reserved_shared_bytes;
  }
  return capabilities;
}

}  // namespace

std::string missed_form(const DeviceState& device, const FormOn& form) {
  FeatureRows missing;
  for (const DeviceFeatureRow& row : device_feature_table()) {
    if (device.supported.*row.member && !(device.capabilities.*row.member)) missing.push_back(&row);
  }
  if (missing.empty()) return {};
  const std::string better = form(with(device, missing));
  if (better.empty() || better == form(device.capabilities)) return {};
  // Features that the better form does not need are left out, one after the other.
  for (std::size_t i = missing.size(); i-- > 0;) {
    FeatureRows fewer = missing;
    fewer.erase(fewer.begin() + static_cast<std::ptrdiff_t>(i));
    if (form(with(device, fewer)) == better) missing = std::move(fewer);
  }
  std::string names;
  std::string extensions;
  for (const DeviceFeatureRow* const row : missing) {
    names += message(names.empty() ? "" : ", ", row->name);
    const bool is_named = row->extension == nullptr || extensions.find(row->extension) != std::string::npos ||
                          (row->core_version != 0 && device.capabilities.api_version >= row->core_version);
    if (!is_named) extensions += message(extensions.empty() ? "" : ", ", row->extension);
  }
  return message("not enabled: ", names, extensions.empty() ? "" : " of ", extensions, ", with which ",
                 better, " would be used");
}

}  // namespace vkattn::detail
