/// @file
/// What a device offers and what of it is enabled: plain data, so that kernel selection can be tested without
/// a GPU.
#pragma once

#include <vkattn/vulkan_types.h>

#include <array>
#include <cstdint>
#include <string>
#include <vector>

namespace vkattn {

/// VkPhysicalDeviceType, with its numbers.
enum class DeviceType : std::uint32_t {
  kOther = 0,          ///< none of those below
  kIntegratedGpu = 1,  ///< closely coupled with the host
  kDiscreteGpu = 2,    ///< on a card of its own
  kVirtualGpu = 3,     ///< in a virtual machine
  kCpu = 4,            ///< the host itself, such as lavapipe
};

/// One matrix shape of VK_KHR_cooperative_matrix: C (m x n) = A (m x k) * B (k x n) + C.
struct MatrixShape {
  std::uint32_t m = 0;      ///< rows of A and C
  std::uint32_t n = 0;      ///< columns of B and C
  std::uint32_t k = 0;      ///< columns of A, rows of B
  std::string a_type;       ///< f16, f32, bf16, s8, u8, s32, u32, or other
  std::string b_type;       ///< likewise
  std::string c_type;       ///< likewise, of what is added
  std::string result_type;  ///< likewise
  std::string scope;        ///< subgroup, workgroup or other
};

/// One entry of VK_NV_cooperative_matrix2's flexible dimensions: matrices may have any multiples of the
/// granularities as their m, n and k.
struct FlexibleMatrix {
  /// As MatrixShape has m, n and k: what each is a multiple of.
  /// @{
  std::uint32_t m_granularity = 0;
  std::uint32_t n_granularity = 0;
  std::uint32_t k_granularity = 0;
  /// @}
  /// As in MatrixShape.
  /// @{
  std::string a_type;
  std::string b_type;
  std::string c_type;
  std::string result_type;
  std::string scope;
  /// @}
  std::uint32_t workgroup_invocations = 0;  ///< with workgroup scope: the size that a workgroup must have
};

/// Where a driver keeps the rows of accumulators (matrices of float32 sums) of subgroup scope. No extension
/// tells it: a probe on the device does (Runtime::probe_row_layouts). It is of a pair of matrices with the
/// same rows, scores and sums, in which a lane has components of the same rows.
struct RowLayout {
  std::uint32_t rows = 0;           ///< of both matrices
  std::uint32_t score_columns = 0;  ///< of scores
  std::uint32_t sum_columns = 0;    ///< of sums
  std::uint32_t lanes = 0;          ///< of the subgroup
  /// Rows that a lane has components of, a power of two up to 32. 0: rows lie in a way that the numbers below
  /// cannot tell, and no kernel uses them.
  std::uint32_t lane_rows = 0;
  std::uint32_t lane_bits = 0;  ///< lanes whose numbers differ in these bits alone have the same rows
  /// The bits of a component's number that are the row's number in its lane: bits 4 b .. 4 b + 3 name bit b.
  /// @{
  std::uint32_t score_row_bits = 0;
  std::uint32_t sum_row_bits = 0;
  /// @}
  [[nodiscard]] bool operator==(const RowLayout&) const = default;  ///< equal in every member
};

/// Facts of one device. A feature counts only where it is supported and enabled. At first there is none, and
/// most limits are the least that Vulkan allows.
struct Capabilities {
  std::string device_name;  ///< VkPhysicalDeviceProperties::deviceName
  std::string driver_name;  ///< VkPhysicalDeviceDriverProperties::driverName; may be empty
  std::string driver_info;  ///< driverInfo of the same: the driver's version in words
  DeviceType device_type = DeviceType::kOther;  ///< whether it is a CPU, and which GPU is preferred
  std::uint32_t vendor_id = 0;                  ///< VkPhysicalDeviceProperties::vendorID
  std::uint32_t device_id = 0;                  ///< VkPhysicalDeviceProperties::deviceID
  /// The lower of the device's and DeviceDesc::api_version; VK_API_VERSION_1_1 at first.
  std::uint32_t api_version = (1U << 22U) | (1U << 12U);
  std::uint32_t driver_version = 0;  ///< VkPhysicalDeviceProperties::driverVersion, in the vendor's encoding

  std::uint32_t compute_units = 0;  ///< multiprocessors, compute units or hardware threads; 0 where not known
  std::uint32_t subgroup_size = 1;  ///< invocations, in pipelines that ask for no size
  std::uint32_t min_subgroup_size = 1;          ///< the smallest there is; subgroup_size where not known
  std::uint32_t max_subgroup_size = 1;          ///< the largest, likewise
  bool subgroup_arithmetic = false;             ///< sums and the like over a subgroup, in compute shaders
  bool subgroup_shuffle = false;                ///< in compute shaders
  bool subgroup_vote = false;                   ///< in compute shaders
  bool subgroup_size_control = false;           ///< subgroupSizeControl
  bool required_subgroup_size = false;          ///< a compute pipeline may ask for any size from min to max
  bool compute_full_subgroups = false;          ///< computeFullSubgroups
  std::uint32_t max_workgroup_subgroups = ~0U;  ///< in pipelines that ask for a size

  std::uint32_t max_shared_memory_bytes = 16384;                          ///< of one workgroup
  std::uint32_t max_workgroup_invocations = 128;                          ///< of one workgroup
  std::array<std::uint32_t, 3> max_workgroup_size{128, 128, 64};          ///< invocations along x, y and z
  std::array<std::uint32_t, 3> max_workgroup_count{65535, 65535, 65535};  ///< of a dispatch, along x, y and z
  /// After so many iterations, of all loops together, the driver leaves every loop of an invocation; 0:
  /// never. Keys are cut into parts whose loops take fewer; where that does not help, the problem is refused.
  std::uint32_t max_loop_iterations = 0;
  std::uint64_t max_storage_buffer_range = 1ULL << 27U;  ///< bytes that one descriptor covers
  std::uint64_t max_buffer_size = ~0ULL;  ///< bytes; ~0 where the device does not say (before Vulkan 1.3)
  std::uint64_t max_memory_allocation_bytes = ~0ULL;  ///< of one VkDeviceMemory
  std::uint32_t max_push_constants_bytes = 128;       ///< of one pipeline layout
  std::uint32_t max_stage_storage_buffers = 4;        ///< maxPerStageDescriptorStorageBuffers
  std::uint64_t min_storage_offset_alignment = 256;   ///< bytes: minStorageBufferOffsetAlignment

  bool storage_buffer_16bit = false;              ///< storageBuffer16BitAccess
  bool shader_int16 = false;                      ///< shaderInt16
  bool shader_float16 = false;                    ///< shaderFloat16
  bool shader_int64 = false;                      ///< shaderInt64
  bool shader_int8 = false;                       ///< shaderInt8
  bool vulkan_memory_model = false;               ///< vulkanMemoryModel
  bool vulkan_memory_model_device_scope = false;  ///< vulkanMemoryModelDeviceScope
  bool maintenance4 = false;           ///< a workgroup's size may be a specialization constant in SPIR-V 1.6
  bool preserves_nan_float32 = false;  ///< shaderSignedZeroInfNanPreserveFloat32
  /// shaderRoundingModeRTEFloat16, and a shader may ask for it without a word about other widths.
  bool rounds_float16_to_nearest = false;
  bool maximal_reconvergence = false;          ///< shaderMaximalReconvergence
  bool subgroup_uniform_control_flow = false;  ///< shaderSubgroupUniformControlFlow
  bool buffer_device_address = false;          ///< bufferDeviceAddress, from Vulkan 1.2 on
  bool buffer_addresses = false;               ///< that, and DeviceDesc::buffer_addresses
  bool push_descriptors = false;               ///< VK_KHR_push_descriptor, or pushDescriptor of Vulkan 1.4
  std::uint32_t max_push_descriptors = 0;      ///< of a set; 0 where the device has no push descriptors
  bool mapped_device_memory = false;           ///< some of the device's own memory is mapped and coherent
  bool pipeline_statistics = false;            ///< VK_KHR_pipeline_executable_properties
  bool cooperative_matrix = false;             ///< cooperativeMatrix of VK_KHR_cooperative_matrix
  bool bfloat16_type = false;                  ///< shaderBFloat16Type
  bool bfloat16_matrix = false;                ///< that and shaderBFloat16CooperativeMatrix
  std::vector<MatrixShape> matrix_shapes;      ///< empty without cooperative_matrix
  /// A feature of VK_NV_cooperative_matrix2 by its name there (cooperativeMatrixWorkgroupScope and so on).
  /// @{
  bool matrix2_workgroup_scope = false;
  bool matrix2_flexible_dimensions = false;
  bool matrix2_reductions = false;
  bool matrix2_conversions = false;
  bool matrix2_per_element_operations = false;
  bool matrix2_tensor_addressing = false;
  bool matrix2_block_loads = false;
  /// @}
  std::vector<FlexibleMatrix> flexible_matrices;    ///< empty without matrix2_flexible_dimensions
  std::uint32_t max_flexible_matrix_dimension = 0;  ///< the most that their m, n and k may be
  std::uint32_t max_matrix_workgroup_size = 0;      ///< of workgroups that hold matrices of workgroup scope
  std::uint32_t matrix_reserved_shared_bytes = 0;   ///< that such matrices take of max_shared_memory_bytes
  std::vector<RowLayout> row_layouts;               ///< that were probed; empty at first

  /// A driver that computes on the host, such as lavapipe: other block sizes, and no limit on dispatch times.
  [[nodiscard]] bool is_cpu() const { return device_type == DeviceType::kCpu; }
};

}  // namespace vkattn
