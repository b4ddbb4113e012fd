// Checks and choices that the kernels on matrix units share.
#pragma once

#include <string_view>

#include "kernels/kernel.hpp"
#include "kernels/subgroup_size.hpp"

namespace vkattn::detail {

/// Types of K and V that a kernel on matrix units takes beside that of Q.
enum class QuantisedOperands { kNone, kFloat8, kAll };

/// One common 16-bit type of Q, K and V, or K, V or both quantised as `quantised` says; or the reason
/// against.
[[nodiscard]] Result<void> check_matrix_types(const AttentionDesc& desc, QuantisedOperands quantised);

/// The refusal of a device without a feature, by its name.
[[nodiscard]] Result<void> need_feature(bool have, std::string_view feature);

/// Checks the features that every kernel with cooperative matrices of this type needs.
[[nodiscard]] Result<void> check_matrix_features(const Capabilities& capabilities, DataType operand);

/// Checks also the features of kernels whose subgroups reduce rows of matrices.
[[nodiscard]] Result<void> check_subgroup_matrix_features(const Capabilities& capabilities, DataType operand);

/// Checks the features of every kernel on VK_NV_cooperative_matrix2, and those of matrices of workgroup
/// scope.
[[nodiscard]] Result<void> check_matrix2_features(const Capabilities& capabilities, DataType operand);
[[nodiscard]] Result<void> check_workgroup_matrix_features(const Capabilities& capabilities);

/// Dims of one matrix in the staged forms of matrix2: operands go from shared memory to a product, a few
/// registers at a time.
inline constexpr std::uint32_t kStagedBlockDims = 16;

/// Whether an entry has operands of that type (f16 or bf16), float32 sums and that scope.
[[nodiscard]] bool is_usable_flexible(const FlexibleMatrix& entry, std::string_view operand,
                                      std::string_view scope);

/// Invocations of the largest workgroup that a matrix may be spread over.
[[nodiscard]] std::uint32_t largest_matrix_workgroup(const Capabilities& capabilities);

/// The shape that multiplies operands of this type (f16 or bf16) to float32: 16x16x16 if the device lists it,
/// as AMD and NVIDIA do, else the largest. An error: the device lists none.
[[nodiscard]] Result<MatrixShape> best_matrix_shape(const Capabilities& capabilities,
                                                    std::string_view operand);

/// Adds the constants that say whether rows of Q, K and V can be read 8 elements at a time.
void add_loads8(const AttentionDesc& desc, SpecializationValues& constants);

/// The subgroup size for matrices of n columns: the size to ask for, or the only size of the device.
[[nodiscard]] Result<std::uint32_t> matrix_subgroup_size(const Capabilities& capabilities, std::uint32_t n);

}  // namespace vkattn::detail
