// The host half of the kernels for matrix multiplication: what they accept and how their pipelines are
// specialized. Plain data in and out, no Vulkan calls.
#pragma once

#include <vkattn/matmul.hpp>

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "kernels/own_address.hpp"
#include "kernels/select.hpp"
#include "spirv/specialization.hpp"

namespace vkattn::detail {

/// A matrix as a kernel reads it. Its outer dimension is that of the output, its inner one that of the
/// problem.
struct MatmulOperand {
  std::size_t tensor = 0;  ///< number in the table of tensors: of a or b
  std::uint32_t type = 0;  ///< as the shaders have it
  std::int64_t outer = 0;  ///< size of the outer dimension
  std::int64_t batch_stride = 0, outer_stride = 0, inner_stride = 0;
  std::uint32_t loads = 0;  ///< VKATTN_MATMUL_LOADS_*
  bool is_copied = false;   ///< first, to the workspace: type, strides and loads are the copy's
};

/// The product as a kernel computes it: of the descriptor, or exchanged, the output's transpose as b^T a^T.
struct MatmulView {
  std::int64_t batch = 0, rows = 0, columns = 0, inner = 0;
  MatmulOperand a, b;
  MatrixStrides output{};
  bool bias_by_row = false;  ///< not by column
};

/// The matrix of the problem that an operand is.
[[nodiscard]] inline const MatrixDesc& matrix_of(const MatmulOperand& operand, const MatmulDesc& desc) {
  return operand.tensor == 0 ? desc.a : desc.b;
}

[[nodiscard]] MatmulView view_of(const MatmulDesc& desc);

/// The same product in the other view.
[[nodiscard]] MatmulView exchanged(const MatmulView& view);

/// Whether shaders that load 4 neighbours of a 16-bit operand can load 8.
[[nodiscard]] bool has_loads8(const MatmulOperand& operand, const MatmulDesc& desc);

/// The length of parts of `inner` is a multiple of this, so that they begin at whole blocks of quantised
/// elements.
inline constexpr std::int64_t kPartUnit = 64;

/// A kernel's choices for one problem on one device.
struct MatmulConfig {
  std::string_view name;
  std::string shader;              ///< name in shaders/binaries.cmake
  SpecializationValues constants;  ///< its own, beside those of all kernels
  MatmulView view;
  MatmulTile tile;
  std::uint32_t columns = 0;  ///< of an invocation, or, for the matrix kernel, of a subgroup
  std::uint32_t workgroup_size = 0;
  std::uint32_t required_subgroup_size = 0;
  bool uses_matrix_units = false;
  std::uint32_t block_rows = 0, block_columns = 0;  ///< of a workgroup
  std::int64_t part_unit = kPartUnit;               ///< that the length of parts of inner is a multiple of
  std::vector<OwnAddress> own_addresses;            ///< in the shader's order
  std::string summary;                              ///< for describe(): block sizes in words
};

struct MatmulKernel {
  std::string_view name;
  /// The configuration, with the first of the block sizes that the device takes, or the reason against this
  /// kernel as an Error.
  Result<MatmulConfig> (*configure)(const MatmulDesc& desc, const Capabilities& capabilities,
                                    std::span<const MatmulTile> tiles,
                                    const std::optional<MatmulCopies>& copies);
  bool has_subgroups = false;  ///< its workgroups are sized by MatmulTile::subgroups, not by threads
};

using MatmulSelection = SelectionOf<MatmulConfig>;
/// Chooses a kernel for a resolved descriptor.
[[nodiscard]] Result<MatmulSelection> select_matmul_kernel(const MatmulDesc& desc,
                                                           const Capabilities& capabilities,
                                                           const PlanOptions& options);

/// Block sizes of a kernel for a device, best first.
[[nodiscard]] std::vector<MatmulTile> matmul_tiles(std::string_view kernel, const Capabilities& capabilities);

/// `base` if the device has 16-bit storage or no tensor needs it, else its _words form.
[[nodiscard]] std::string matmul_shader(const MatmulDesc& desc, const Capabilities& capabilities,
                                        std::string_view base);

/// Refuses copies, for a kernel that reads operands where they lie.
[[nodiscard]] Result<void> check_no_copies(const std::optional<MatmulCopies>& copies);

/// The refusal where no block sizes are possible.
[[nodiscard]] Error no_possible_tile(std::span<const MatmulTile> tiles);

using MatmulTiles = std::span<const MatmulTile>;
[[nodiscard]] Result<MatmulConfig> configure_matmul_lane(const MatmulDesc& desc,
                                                         const Capabilities& capabilities, MatmulTiles tiles,
                                                         const std::optional<MatmulCopies>& copies);
[[nodiscard]] Result<MatmulConfig> configure_matmul_lane_decode(const MatmulDesc& desc,
                                                                const Capabilities& capabilities,
                                                                MatmulTiles tiles,
                                                                const std::optional<MatmulCopies>& copies);
[[nodiscard]] Result<MatmulConfig> configure_matmul_matrix(const MatmulDesc& desc,
                                                           const Capabilities& capabilities,
                                                           MatmulTiles tiles,
                                                           const std::optional<MatmulCopies>& copies);
[[nodiscard]] Result<MatmulConfig> configure_matmul_tile(const MatmulDesc& desc,
                                                         const Capabilities& capabilities, MatmulTiles tiles,
                                                         const std::optional<MatmulCopies>& copies);

}  // namespace vkattn::detail
