// What a device offers and what of it is enabled: plain data, so that kernel selection can be tested without
// a GPU.
#pragma once

#include <vulkan/vulkan_core.h>

#include <array>
#include <cstdint>
#include <string>
#include <vector>

namespace vkattn {

/// One matrix shape of VK_KHR_cooperative_matrix: C (m x n) = A (m x k) * B (k x n) + C.
struct MatrixShape {
  std::uint32_t m = 0, n = 0, k = 0;
  std::string a_type, b_type, c_type, result_type;  ///< f16, f32, bf16, s8, u8, s32, u32, or other
  std::string scope;                                ///< subgroup, workgroup or other
};

/// One entry of VK_NV_cooperative_matrix2's flexible dimensions: matrices may have any multiples of the
/// granularities as their m, n and k.
struct FlexibleMatrix {
  std::uint32_t m_granularity = 0, n_granularity = 0, k_granularity = 0;
  std::string a_type, b_type, c_type, result_type;  ///< as in MatrixShape
  std::string scope;                                ///< subgroup, workgroup or other
  std::uint32_t workgroup_invocations = 0;  ///< with workgroup scope: the size that a workgroup must have
};

/// Facts of one device. A feature counts only where it is supported and enabled.
struct Capabilities {
  std::string device_name;
  std::string driver_name;
  std::string driver_info;
  VkPhysicalDeviceType device_type = VK_PHYSICAL_DEVICE_TYPE_OTHER;
  std::uint32_t vendor_id = 0;
  std::uint32_t device_id = 0;
  std::uint32_t api_version = VK_API_VERSION_1_1;
  std::uint32_t driver_version = 0;

  std::uint32_t compute_units = 0;  ///< multiprocessors, compute units or hardware threads; 0 where not known
  std::uint32_t subgroup_size = 1;
  std::uint32_t min_subgroup_size = 1;
  std::uint32_t max_subgroup_size = 1;
  bool subgroup_arithmetic = false;
  bool subgroup_shuffle = false;
  bool subgroup_vote = false;
  bool subgroup_size_control = false;
  bool required_subgroup_size = false;  ///< a compute pipeline may ask for any size from min to max
  bool compute_full_subgroups = false;
  std::uint32_t max_workgroup_subgroups = ~0U;  ///< in pipelines that ask for a size

  std::uint32_t max_shared_memory_bytes = 16384;
  std::uint32_t max_workgroup_invocations = 128;
  std::array<std::uint32_t, 3> max_workgroup_size{128, 128, 64};
  std::array<std::uint32_t, 3> max_workgroup_count{65535, 65535, 65535};
  /// After so many iterations, of all loops together, the driver leaves every loop of an invocation; 0:
  /// never. Problems whose loops might take more are refused.
  std::uint32_t max_loop_iterations = 0;
  std::uint64_t max_storage_buffer_range = 1ULL << 27U;
  std::uint64_t max_buffer_size = ~0ULL;  ///< ~0 where the device does not say (before Vulkan 1.3)
  std::uint64_t max_memory_allocation_bytes = ~0ULL;
  std::uint32_t max_push_constants_bytes = 128;
  std::uint32_t max_stage_storage_buffers = 4;
  std::uint64_t min_storage_offset_alignment = 256;

  bool storage_buffer_16bit = false;  ///< storageBuffer16BitAccess
  bool shader_int16 = false;
  bool shader_float16 = false;
  bool shader_int64 = false;
  bool vulkan_memory_model = false;
  bool maintenance4 = false;           ///< a workgroup's size may be a specialization constant in SPIR-V 1.6
  bool preserves_nan_float32 = false;  ///< shaderSignedZeroInfNanPreserveFloat32
  bool push_descriptors = false;
  std::uint32_t max_push_descriptors = 0;
  bool pipeline_statistics = false;  ///< VK_KHR_pipeline_executable_properties
  bool cooperative_matrix = false;
  bool bfloat16_matrix = false;  ///< shaderBFloat16Type and shaderBFloat16CooperativeMatrix
  std::vector<MatrixShape> matrix_shapes;
  // The features of VK_NV_cooperative_matrix2.
  bool matrix2_workgroup_scope = false;
  bool matrix2_flexible_dimensions = false;
  bool matrix2_reductions = false;
  bool matrix2_conversions = false;
  bool matrix2_per_element_operations = false;
  bool matrix2_tensor_addressing = false;
  bool matrix2_block_loads = false;
  std::vector<FlexibleMatrix> flexible_matrices;
  std::uint32_t max_flexible_matrix_dimension = 0;
  std::uint32_t max_matrix_workgroup_size = 0;     ///< of workgroups that hold matrices of workgroup scope
  std::uint32_t matrix_reserved_shared_bytes = 0;  ///< that such matrices take of max_shared_memory_bytes

  /// A driver that computes on the host, such as lavapipe: other block sizes, and no limit on dispatch times.
  [[nodiscard]] bool is_cpu() const { return device_type == VK_PHYSICAL_DEVICE_TYPE_CPU; }
};

}  // namespace vkattn
