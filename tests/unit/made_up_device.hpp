// Made-up devices, and the choices of kernels on them, for tests of the host's code.
#pragma once

#include <vkattn/backward.hpp>
#include <vkattn/matmul.hpp>

#include <gtest/gtest.h>
#include <vulkan/vulkan_core.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "kernels/kernel.hpp"
#include "kernels/tile_table.hpp"
#include "kernels/vendors.hpp"
#include "support/problem_text.hpp"
#include "support/text.hpp"

namespace vkattn::tests {

inline void set_subgroup_sizes(Capabilities& c, std::uint32_t least, std::uint32_t most) {
  c.min_subgroup_size = least;
  c.subgroup_size = c.max_subgroup_size = most;
}

/// The device with subgroups of a single size.
[[nodiscard]] inline Capabilities with_lanes(Capabilities c, std::uint32_t lanes) {
  set_subgroup_sizes(c, lanes, lanes);
  return c;
}

/// The device with a change.
template <class Change>
[[nodiscard]] Capabilities changed(Capabilities c, Change change) {
  change(c);
  return c;
}

/// The least that Vulkan 1.1 guarantees, with enough storage buffers.
[[nodiscard]] inline Capabilities small_device(DeviceType type) {
  Capabilities c;
  c.device_type = type;
  c.max_stage_storage_buffers = 8;
  return c;
}

/// A GPU with large workgroups, subgroups of 32 and 48 KiB of shared memory.
[[nodiscard]] inline Capabilities made_up_gpu() {
  Capabilities c = small_device(DeviceType::kDiscreteGpu);
  c.max_shared_memory_bytes = 49152;
  c.max_workgroup_invocations = 1024;
  c.max_workgroup_size = {1024, 1024, 64};
  c.storage_buffer_16bit = true;
  return with_lanes(c, 32);
}

/// A matrix shape with float16 operands and float32 sums.
[[nodiscard]] inline MatrixShape shape(std::uint32_t m, std::uint32_t n, std::uint32_t k) {
  return {m, n, k, "f16", "f16", "f32", "f32", "subgroup"};
}

/// A GPU with 16x16x16 matrices in subgroups of 32.
[[nodiscard]] inline Capabilities matrix_gpu(const std::vector<MatrixShape>& shapes = {shape(16, 16, 16)}) {
  Capabilities c = made_up_gpu();
  c.max_stage_storage_buffers = 32;
  c.subgroup_shuffle = c.subgroup_vote = true;
  c.shader_float16 = c.vulkan_memory_model = c.cooperative_matrix = true;
  c.matrix_shapes = shapes;
  return c;
}

/// A matrix GPU whose pipelines may ask for any subgroup size in the range.
[[nodiscard]] inline Capabilities gpu_of(std::uint32_t vendor_id, std::uint32_t least, std::uint32_t most,
                                         const MatrixShape& matrix = shape(16, 16, 16)) {
  Capabilities c = matrix_gpu({matrix});
  c.vendor_id = vendor_id;
  set_subgroup_sizes(c, least, most);
  c.subgroup_size_control = c.required_subgroup_size = c.compute_full_subgroups = true;
  return c;
}

/// A device with everything that matrix2 needs except flexible matrices.
[[nodiscard]] inline Capabilities device_with_flexible_matrices() {
  Capabilities c = made_up_gpu();
  c.api_version = VK_API_VERSION_1_3;
  c.shader_float16 = c.vulkan_memory_model = c.maintenance4 = c.cooperative_matrix = true;
  c.matrix2_flexible_dimensions = c.matrix2_reductions = c.matrix2_conversions = true;
  c.matrix2_per_element_operations = true;
  c.max_flexible_matrix_dimension = 1024;
  c.max_matrix_workgroup_size = 1024;
  return c;
}

/// Flexible matrices as NVIDIA's GPUs list them.
[[nodiscard]] inline Capabilities with_workgroup_scope() {
  Capabilities c = device_with_flexible_matrices();
  c.vendor_id = detail::kVendorNvidia;
  c.matrix2_workgroup_scope = c.matrix2_tensor_addressing = true;
  c.flexible_matrices = {{16, 8, 16, "f16", "f16", "f32", "f32", "subgroup", 0},
                         {32, 16, 16, "f16", "f16", "f16", "f16", "workgroup", 128},
                         {32, 16, 16, "f16", "f16", "f32", "f32", "workgroup", 128},
                         {32, 32, 16, "f16", "f16", "f32", "f32", "workgroup", 256}};
  return c;
}

/// A CPU with the flexible matrices that lavapipe lists.
[[nodiscard]] inline Capabilities cpu_with_subgroup_scope() {
  Capabilities c = with_lanes(device_with_flexible_matrices(), 8);
  c.device_type = DeviceType::kCpu;
  c.flexible_matrices = {{8, 8, 8, "f16", "f16", "f32", "f32", "subgroup", 0}};
  return c;
}

/// The gradients of a problem of attention.
[[nodiscard]] inline BackwardDesc backward_of(std::string_view problem) {
  BackwardDesc desc;
  desc.attention = desc_of(problem);
  desc.attention.has_lse = true;
  return desc;
}
[[nodiscard]] inline MatmulDesc product_of(std::int64_t rows, std::int64_t columns, std::int64_t inner) {
  MatmulDesc desc;
  desc.rows = rows;
  desc.columns = columns;
  desc.inner = inner;
  return desc;
}

/// The host half of a kernel alone, with the block sizes of the tile table.
struct HostKernel {
  const char* name;
  decltype(&detail::configure_matrix) configure;

  [[nodiscard]] Result<detail::KernelConfig> operator()(const AttentionDesc& desc,
                                                        const Capabilities& c) const {
    return configure(desc, c, detail::table_tiles(name, desc, c));
  }
  [[nodiscard]] Result<detail::KernelConfig> operator()(std::string_view problem,
                                                        const Capabilities& c) const {
    return (*this)(desc_of(problem), c);
  }
  /// The configuration. If there is none, the test fails.
  [[nodiscard]] detail::KernelConfig configured(std::string_view problem, const Capabilities& c) const {
    const auto config = (*this)(problem, c);
    EXPECT_TRUE(config.ok()) << problem << ": " << config.error().message;
    return config.ok() ? config.value() : detail::KernelConfig{};
  }
  /// Why the kernel refuses the problem. Empty if it takes the problem.
  [[nodiscard]] std::string reason(std::string_view problem, const Capabilities& c,
                                   ErrorCode code = ErrorCode::kUnsupported) const {
    const auto config = (*this)(problem, c);
    if (config.ok()) return "";
    EXPECT_EQ(config.error().code, code) << config.error().message;
    return config.error().message;
  }
};

[[nodiscard]] inline std::uint32_t constant(const detail::KernelConfig& config, std::uint32_t id) {
  for (const detail::SpecializationValue& value : config.constants) {
    if (value.id == id) return value.value;
  }
  ADD_FAILURE() << "no specialization constant " << id;
  return 0;
}

}  // namespace vkattn::tests
