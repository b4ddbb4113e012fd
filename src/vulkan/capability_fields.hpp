// The fields of Capabilities by the names that a file of capabilities has for them. `vkattn devices --json`
// writes the rows, parse_capabilities() reads them.
#pragma once

#include <vkattn/capabilities.hpp>

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "common/members.hpp"

namespace vkattn::detail {

/// The version of the file. It rises if a row is renamed or means something else. A new row needs no new
/// version: files without it leave the field as Capabilities has it at first.
inline constexpr std::uint32_t kCapabilitiesVersion = 1;
/// The member of the file that has it.
inline constexpr std::string_view kCapabilitiesVersionName = "capabilities_version";

/// Calls visit(group, name, pointer to member) for each field. A field without a group stands beside the
/// groups, in the object of the device.
template <class Visit>
constexpr void for_each_capability(Visit&& visit) {
  using C = Capabilities;
  visit("", "name", &C::device_name);
  visit("", "type", &C::device_type);
  visit("", "driver", &C::driver_name);
  visit("", "driver_info", &C::driver_info);
  visit("", "api_version", &C::api_version);  // as "1.3.230"
  visit("", "vendor_id", &C::vendor_id);
  visit("", "device_id", &C::device_id);
  visit("", "driver_version", &C::driver_version);
  visit("", "compute_units", &C::compute_units);
  visit("subgroup", "size", &C::subgroup_size);
  visit("subgroup", "min_size", &C::min_subgroup_size);
  visit("subgroup", "max_size", &C::max_subgroup_size);
  visit("subgroup", "size_control", &C::subgroup_size_control);
  visit("subgroup", "required_size", &C::required_subgroup_size);
  visit("subgroup", "full_subgroups", &C::compute_full_subgroups);
  visit("subgroup", "max_workgroup_subgroups", &C::max_workgroup_subgroups);
  visit("subgroup", "arithmetic", &C::subgroup_arithmetic);
  visit("subgroup", "shuffle", &C::subgroup_shuffle);
  visit("subgroup", "vote", &C::subgroup_vote);
  visit("features", "storage_buffer_16bit", &C::storage_buffer_16bit);
  visit("features", "shader_int16", &C::shader_int16);
  visit("features", "shader_float16", &C::shader_float16);
  visit("features", "shader_int64", &C::shader_int64);
  visit("features", "shader_int8", &C::shader_int8);
  visit("features", "vulkan_memory_model", &C::vulkan_memory_model);
  visit("features", "vulkan_memory_model_device_scope", &C::vulkan_memory_model_device_scope);
  visit("features", "preserves_nan_float32", &C::preserves_nan_float32);
  visit("features", "rounds_float16_to_nearest", &C::rounds_float16_to_nearest);
  visit("features", "maximal_reconvergence", &C::maximal_reconvergence);
  visit("features", "subgroup_uniform_control_flow", &C::subgroup_uniform_control_flow);
  visit("features", "buffer_device_address", &C::buffer_device_address);
  visit("features", "buffer_addresses", &C::buffer_addresses);
  visit("features", "push_descriptors", &C::push_descriptors);
  visit("features", "mapped_device_memory", &C::mapped_device_memory);
  visit("features", "pipeline_statistics", &C::pipeline_statistics);
  visit("features", "cooperative_matrix", &C::cooperative_matrix);
  visit("features", "bfloat16_type", &C::bfloat16_type);
  visit("features", "bfloat16_matrix", &C::bfloat16_matrix);
  visit("features", "maintenance4", &C::maintenance4);
  visit("features", "cooperative_matrix2_workgroup_scope", &C::matrix2_workgroup_scope);
  visit("features", "cooperative_matrix2_flexible_dimensions", &C::matrix2_flexible_dimensions);
  visit("features", "cooperative_matrix2_reductions", &C::matrix2_reductions);
  visit("features", "cooperative_matrix2_conversions", &C::matrix2_conversions);
  visit("features", "cooperative_matrix2_per_element_operations", &C::matrix2_per_element_operations);
  visit("features", "cooperative_matrix2_tensor_addressing", &C::matrix2_tensor_addressing);
  visit("features", "cooperative_matrix2_block_loads", &C::matrix2_block_loads);
  visit("limits", "max_shared_memory_bytes", &C::max_shared_memory_bytes);
  visit("limits", "max_workgroup_invocations", &C::max_workgroup_invocations);
  visit("limits", "max_workgroup_size", &C::max_workgroup_size);
  visit("limits", "max_workgroup_count", &C::max_workgroup_count);
  visit("limits", "max_loop_iterations", &C::max_loop_iterations);
  visit("limits", "max_storage_buffer_range_bytes", &C::max_storage_buffer_range);
  visit("limits", "max_buffer_size_bytes", &C::max_buffer_size);
  visit("limits", "max_memory_allocation_bytes", &C::max_memory_allocation_bytes);
  visit("limits", "max_push_constants_bytes", &C::max_push_constants_bytes);
  visit("limits", "max_push_descriptors", &C::max_push_descriptors);
  visit("limits", "max_stage_storage_buffers", &C::max_stage_storage_buffers);
  visit("limits", "min_storage_offset_alignment_bytes", &C::min_storage_offset_alignment);
  visit("limits", "max_flexible_matrix_dimension", &C::max_flexible_matrix_dimension);
  visit("limits", "max_matrix_workgroup_size", &C::max_matrix_workgroup_size);
  visit("limits", "matrix_reserved_shared_memory_bytes", &C::matrix_reserved_shared_bytes);
  visit("", "matrix_shapes", &C::matrix_shapes);
  visit("", "flexible_matrices", &C::flexible_matrices);
  visit("", "row_layouts", &C::row_layouts);
}

/// The same for an element of a list: visit(name, pointer to member).
/// @{
template <class Visit>
constexpr void for_each_field(const MatrixShape* /*of*/, Visit&& visit) {
  using S = MatrixShape;
  visit("m", &S::m);
  visit("n", &S::n);
  visit("k", &S::k);
  visit("a", &S::a_type);
  visit("b", &S::b_type);
  visit("c", &S::c_type);
  visit("result", &S::result_type);
  visit("scope", &S::scope);
}
template <class Visit>
constexpr void for_each_field(const FlexibleMatrix* /*of*/, Visit&& visit) {
  using F = FlexibleMatrix;
  visit("m_granularity", &F::m_granularity);
  visit("n_granularity", &F::n_granularity);
  visit("k_granularity", &F::k_granularity);
  visit("a", &F::a_type);
  visit("b", &F::b_type);
  visit("c", &F::c_type);
  visit("result", &F::result_type);
  visit("scope", &F::scope);
  visit("workgroup_invocations", &F::workgroup_invocations);
}
template <class Visit>
constexpr void for_each_field(const RowLayout* /*of*/, Visit&& visit) {
  using R = RowLayout;
  visit("rows", &R::rows);
  visit("score_columns", &R::score_columns);
  visit("sum_columns", &R::sum_columns);
  visit("lanes", &R::lanes);
  visit("lane_rows", &R::lane_rows);
  visit("lane_bits", &R::lane_bits);
  visit("score_row_bits", &R::score_row_bits);
  visit("sum_row_bits", &R::sum_row_bits);
}
/// @}

/// The number of rows.
[[nodiscard]] consteval std::size_t capability_count() {
  std::size_t count = 0;
  for_each_capability([&](auto...) { ++count; });
  return count;
}
template <class Element>
[[nodiscard]] consteval std::size_t field_count() {
  std::size_t count = 0;
  for_each_field(static_cast<const Element*>(nullptr), [&](auto...) { ++count; });
  return count;
}
static_assert(capability_count() == member_count<Capabilities>(), "each member of Capabilities has a row");
static_assert(field_count<MatrixShape>() == member_count<MatrixShape>());
static_assert(field_count<FlexibleMatrix>() == member_count<FlexibleMatrix>());
static_assert(field_count<RowLayout>() == member_count<RowLayout>());

/// The words of a DeviceType in such a file.
struct DeviceTypeWord {
  DeviceType type;
  std::string_view word;
};
inline constexpr DeviceTypeWord kDeviceTypeWords[] = {{DeviceType::kOther, "other"},
                                                      {DeviceType::kIntegratedGpu, "integrated GPU"},
                                                      {DeviceType::kDiscreteGpu, "discrete GPU"},
                                                      {DeviceType::kVirtualGpu, "virtual GPU"},
                                                      {DeviceType::kCpu, "CPU"}};

}  // namespace vkattn::detail
