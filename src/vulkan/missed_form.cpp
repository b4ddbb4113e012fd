// See missed_form.hpp.
#include "vulkan/missed_form.hpp"

#include <utility>
#include <vector>

#include "common/message.hpp"
#include "vulkan/device_feature_table.hpp"

namespace vkattn::detail {

namespace {

using FeatureRows = std::vector<const DeviceFeatureRow*>;

// Capabilities `some`, with features of `all` enabled too.
Capabilities with(const Capabilities& some, const Capabilities& all, const FeatureRows& rows) {
  Capabilities capabilities = some;
  for (const DeviceFeatureRow* const row : rows) capabilities.*row->member = true;
  capabilities.bfloat16_matrix &= capabilities.bfloat16_type;
  if (capabilities.subgroup_size_control) capabilities.required_subgroup_size = all.required_subgroup_size;
  // These lists and limits are read only if their feature is enabled.
  if (capabilities.matrix_shapes.empty()) capabilities.matrix_shapes = all.matrix_shapes;
  if (capabilities.flexible_matrices.empty()) {
    capabilities.flexible_matrices = all.flexible_matrices;
    capabilities.max_flexible_matrix_dimension = all.max_flexible_matrix_dimension;
    capabilities.max_matrix_workgroup_size = all.max_matrix_workgroup_size;
    capabilities.matrix_reserved_shared_bytes = all.matrix_reserved_shared_bytes;
  }
  return capabilities;
}

}  // namespace

MissedFeatures missed_features(const Capabilities& some, const Capabilities& all, const FormOn& form) {
  FeatureRows missing;
  for (const DeviceFeatureRow& row : device_feature_table()) {
    if (all.*row.member && !(some.*row.member)) missing.push_back(&row);
  }
  if (missing.empty()) return {};
  std::string better = form(with(some, all, missing));
  if (better.empty() || better == form(some)) return {};
  // Features that the better form does not need are left out, one after the other.
  for (std::size_t i = missing.size(); i-- > 0;) {
    FeatureRows fewer = missing;
    fewer.erase(fewer.begin() + static_cast<std::ptrdiff_t>(i));
    if (form(with(some, all, fewer)) == better) missing = std::move(fewer);
  }
  return {std::move(missing), std::move(better)};
}

const char* extension_of(const DeviceFeatureRow& row, std::uint32_t api_version) {
  return row.core_version != 0 && api_version >= row.core_version ? nullptr : row.extension;
}

std::string missed_form(const DeviceState& device, const FormOn& form) {
  const auto [missing, better] = missed_features(device.capabilities, device.supported, form);
  if (missing.empty()) return {};
  std::string names;
  std::string extensions;
  for (const DeviceFeatureRow* const row : missing) {
    names += message(names.empty() ? "" : ", ", row->name);
    const char* const extension = extension_of(*row, device.capabilities.api_version);
    if (extension == nullptr || extensions.find(extension) != std::string::npos) continue;
    extensions += message(extensions.empty() ? "" : ", ", extension);
  }
  return message("not enabled: ", names, extensions.empty() ? "" : " of ", extensions, ", with which ",
                 better, " would be used");
}

}  // namespace vkattn::detail
