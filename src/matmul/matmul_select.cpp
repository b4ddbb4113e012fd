// Kernels for matrix multiplication: views of the problem, block sizes, selection.
#include <array>
#include <iterator>
#include <utility>

#include "common/message.hpp"
#include "kernels/own_address.hpp"
#include "kernels/select.hpp"
#include "kernels/tile_table.hpp"
#include "matmul/matmul_kernel.hpp"
#include "shared/attention_constants.h"
#include "shared/matmul_constants.h"
#include "vkattn_core_shaders.hpp"
#include "vulkan/shader_code.hpp"

namespace vkattn::detail {

namespace {

/// The dimension along which 4 neighbours lie side by side in memory, at a multiple of 4 elements; or that
/// there is none.
std::uint32_t loads_of(const MatmulOperand& operand, const MatmulDesc& desc) {
  const MatrixDesc& matrix = matrix_of(operand, desc);
  if (operand.type == VKATTN_MATMUL_TYPE_ONES || block_elements(matrix.type) > 1)
    return VKATTN_MATMUL_LOADS_SINGLE;
  if (matrix.alignment_bytes < 4 * element_bytes(matrix.type)) return VKATTN_MATMUL_LOADS_SINGLE;
  const auto aligned = [](std::int64_t extent, std::int64_t stride) {
    return extent <= 1 || stride % 4 == 0;
  };
  if (!aligned(desc.batch, operand.batch_stride)) return VKATTN_MATMUL_LOADS_SINGLE;
  if (operand.inner_stride == 1 && aligned(operand.outer, operand.outer_stride)) {
    return VKATTN_MATMUL_LOADS_INNER;
  }
  const bool outer = operand.outer_stride == 1 && operand.outer % 4 == 0 && operand.outer != 0 &&
                     aligned(desc.inner, operand.inner_stride);
  return outer ? VKATTN_MATMUL_LOADS_OUTER : VKATTN_MATMUL_LOADS_SINGLE;
}

MatmulConfig named(MatmulConfig config, std::string_view name) {
  config.name = name;
  return config;
}

struct MatmulEntry {
  std::string_view kernel;
  bool on_cpu, on_gpu;
  MatmulTile tile;
  Architecture architecture = Architecture::kAny;
};

/// Block sizes, best first.
constexpr std::array kTable{
    // A workgroup of the lane kernel is one SIMD vector of a CPU (threads 0). The more sums an
    // invocation has, the more share a gathered element of a, and the more of inner a step has, the less
    // sums are loaded and stored; more than 256 sums take long to compile, and what is loaded element by
    // element in steps of 8.
    MatmulEntry{"lane", true, false, {0, 8, 32, 8}},
    MatmulEntry{"lane", true, false, {0, 8, 32, 4}},
    MatmulEntry{"lane", true, false, {0, 8, 16, 8}},
    MatmulEntry{"lane", true, false, {0, 4, 32, 4}},
    MatmulEntry{"lane", true, false, {0, 4, 16, 4}},
    MatmulEntry{"lane", true, false, {0, 4, 4, 4}},
    MatmulEntry{"lane", true, false, {0, 1, 16, 4}},
    MatmulEntry{"lane", true, false, {0, 1, 4, 4}},
    MatmulEntry{"lane", false, true, {64, 1, 8, 4}},

    // Rows share the few columns that are loaded; sums are at most 64. A lane reads whole blocks of quantised
    // elements. 32 rows are for a larger matrix that lies across: the longer the piece of each of its lines
    // that a workgroup reads, the better. By vectors up to 8 rows are possible, and inner counts vectors.
    // With rows 1, rows are read one by one, and inner is the most vectors of a step.
    MatmulEntry{"lane_decode", true, false, {0, 1, 4, 96}},
    MatmulEntry{"lane_decode", true, false, {0, 32, 2, 8}},
    MatmulEntry{"lane_decode", true, false, {0, 16, 4, 4}},
    MatmulEntry{"lane_decode", true, false, {0, 8, 4, 8}},
    MatmulEntry{"lane_decode", true, false, {0, 8, 8, 4}},
    MatmulEntry{"lane_decode", true, false, {0, 8, 8, 32}},

    // Largest first; the small ones are for few rows or columns. A CPU is given tile only where it is asked
    // for.
    MatmulEntry{"tile", false, true, {256, 4, 4, 16}},
    MatmulEntry{"tile", false, true, {64, 4, 4, 16}},
    MatmulEntry{"tile", true, true, {64, 2, 4, 16}},

    // Largest first. Registers of Intel's GPUs hold less beside the sums, docs/compilers.txt.
    MatmulEntry{"matrix", false, true, {0, 16, 32, 16, 4}, Architecture::kIntelXe2},
    MatmulEntry{"matrix", false, true, {0, 16, 32, 16, 1}, Architecture::kIntelXe2},
    MatmulEntry{"matrix", false, true, {0, 16, 16, 16, 4}, Architecture::kIntelGen12},
    MatmulEntry{"matrix", false, true, {0, 16, 16, 16, 1}, Architecture::kIntelGen12},
    MatmulEntry{"matrix", false, true, {0, 64, 64, 32, 4}, Architecture::kNvidia},
    // By tuning alone, because no GPU has timed it: where it fits, the one above does too.
    MatmulEntry{"matrix", false, true, {0, 64, 64, 32, 4, 2}, Architecture::kNvidia},
    MatmulEntry{"matrix", false, true, {0, 64, 32, 32, 4}},
    MatmulEntry{"matrix", false, true, {0, 32, 32, 32, 4}},
    MatmulEntry{"matrix", true, true, {0, 16, 32, 32, 4}},
    MatmulEntry{"matrix", true, true, {0, 16, 32, 32, 1}},
    MatmulEntry{"matrix", true, true, {0, 16, 16, 16, 1}},
    MatmulEntry{"matrix", true, true, {0, 32, 32, 32, 1}},
};

std::vector<MatmulKernel> kernels_in_order(const Capabilities& capabilities) {
  const MatmulKernel lane{"lane", configure_matmul_lane};
  const MatmulKernel lane_decode{"lane_decode", configure_matmul_lane_decode};
  const MatmulKernel tile{"tile", configure_matmul_tile};
  const MatmulKernel matrix{"matrix", configure_matmul_matrix, true};
  // The order of attention's kernels: CPU implementations run barriers as coroutines and emulate matrices,
  // and before Xe2 Intel's matrices take more registers than there are. lane_decode takes few rows alone.
  if (capabilities.is_cpu()) {
    // It was not timed on lavapipe before Mesa 25, which the limit of loops tells.
    if (capabilities.max_loop_iterations != 0) return {lane, lane_decode, tile, matrix};
    return {lane_decode, lane, tile, matrix};
  }
  if (architecture(capabilities) == Architecture::kIntelGen12) return {tile, matrix, lane, lane_decode};
  return {matrix, tile, lane, lane_decode};
}

/// Refuses a block size that the kernel does not use.
Result<void> check_sizes(const MatmulKernel& kernel, const MatmulTile& tile) {
  if (kernel.has_subgroups && tile.threads != 0) {
    return unsupported("has no block size threads (", tile.threads, " were given) but subgroups");
  }
  if (!kernel.has_subgroups && tile.subgroups != 0) {
    return unsupported("has no block size subgroups (", tile.subgroups, " were given) but threads");
  }
  if (!kernel.has_subgroups && tile.stages != 0) {
    return unsupported("has no block size stages (", tile.stages, " were given)");
  }
  if (tile.stages != 0 && tile.stages != 2) {
    return unsupported("has 2 stages, or one if stages is 0, but ", tile.stages, " were given");
  }
  return {};
}

Result<MatmulConfig> configure(const MatmulKernel& kernel, const MatmulDesc& desc,
                               const Capabilities& capabilities, const PlanOptions& options) {
  if (options.matmul_tile) {
    if (Result<void> s = check_sizes(kernel, *options.matmul_tile); !s) return s.error();
  }
  const std::vector<MatmulTile> tiles =
      options.matmul_tile ? std::vector{*options.matmul_tile} : matmul_tiles(kernel.name, capabilities);
  auto config = kernel.configure(desc, capabilities, tiles, options.copies);
  if (config && !config->own_addresses.empty() && !built_shader(shader_binaries(), config->shader)) {
    config = kernel.configure(desc, without_addresses(capabilities), tiles, options.copies);
  }
  if (!config) return config;
  if (const auto code = built_shader(shader_binaries(), config->shader); !code) return code.error();
  return named(*std::move(config), kernel.name);
}

}  // namespace

std::vector<MatmulTile> matmul_tiles(std::string_view kernel, const Capabilities& capabilities) {
  std::vector<MatmulTile> tiles;
  for (const MatmulEntry& entry : kTable) {
    const bool matches =
        (capabilities.is_cpu() ? entry.on_cpu : entry.on_gpu) &&
        (entry.architecture == Architecture::kAny || entry.architecture == architecture(capabilities));
    if (entry.kernel == kernel && matches) tiles.push_back(entry.tile);
  }
  return tiles;
}

MatmulView view_of(const MatmulDesc& desc) {
  const MatrixStrides& a = *desc.a.strides;
  const MatrixStrides& b = *desc.b.strides;
  MatmulView view{desc.batch, desc.rows, desc.columns, desc.inner, {}, {}, *desc.output.strides, false};
  const auto a_type = desc.a_is_ones ? VKATTN_MATMUL_TYPE_ONES : static_cast<std::uint32_t>(desc.a.type);
  view.a = {0, a_type, desc.rows, a.batch, a.row, a.column, 0};
  view.b = {1, static_cast<std::uint32_t>(desc.b.type), desc.columns, b.batch, b.column, b.row, 0};
  for (MatmulOperand* operand : {&view.a, &view.b}) operand->loads = loads_of(*operand, desc);
  return view;
}

MatmulView exchanged(const MatmulView& view) {
  MatmulView other = view;
  std::swap(other.rows, other.columns);
  std::swap(other.a, other.b);
  std::swap(other.output.row, other.output.column);
  other.bias_by_row = !view.bias_by_row;
  return other;
}

std::string matmul_shader(const MatmulDesc& desc, const Capabilities& capabilities, std::string_view base) {
  const auto is_16bit = [](DataType type) { return element_bytes(type) == 2; };
  const bool any = is_16bit(desc.a.type) || is_16bit(desc.b.type) || is_16bit(desc.output.type);
  return message(base, capabilities.storage_buffer_16bit && any ? "" : "_words");
}

Result<void> check_no_copies(const std::optional<MatmulCopies>& copies) {
  if (!copies || *copies == MatmulCopies{}) return {};
  return unsupported("reads operands where they lie, but PlanOptions::copies asks for copies");
}

Error no_possible_tile(std::span<const MatmulTile> tiles) {
  if (tiles.empty()) {
    return unsupported("it has no block sizes for this device");
  }
  return unsupported("cannot work with the block sizes ", to_string(tiles.front()),
                     " on this device and operands of these types");
}

Result<MatmulSelection> select_matmul_kernel(const MatmulDesc& desc, const Capabilities& capabilities,
                                             const PlanOptions& options) {
  return select_first(
      kernels_in_order(capabilities), options, "this matrix multiplication",
      [&](const MatmulKernel& kernel) { return configure(kernel, desc, capabilities, options); });
}

}  // namespace vkattn::detail

namespace vkattn {

std::vector<KernelSupport> kernel_support(const MatmulDesc& desc, const Capabilities& capabilities) {
  const Result<void> valid = validate(desc);
  const MatmulDesc resolved = valid ? desc.resolved() : MatmulDesc{};
  return detail::support_of(detail::kernels_in_order(capabilities), valid,
                            [&](const detail::MatmulKernel& kernel) {
                              return detail::configure(kernel, resolved, capabilities, {});
                            });
}

}  // namespace vkattn
