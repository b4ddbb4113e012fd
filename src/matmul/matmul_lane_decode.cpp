// Host half of the lane_decode kernel for matrix multiplication: a CPU's vector reads the other matrix of a
// product of a few rows or columns. The form depends on how that matrix lies: in lines of its inner dimension
// (shaders/matmul/matmul_lane_decode_vectors.comp, or matmul_lane_decode.comp where that form cannot read
// it), or across, in lines of its outer one (matmul_lane_decode_across.comp).
#include <algorithm>
#include <array>
#include <cstdint>
#include <optional>
#include <vector>

#include "common/integers.hpp"
#include "common/message.hpp"
#include "kernels/block_limits.hpp"
#include "kernels/own_address.hpp"
#include "kernels/subgroup_size.hpp"
#include "matmul/matmul_kernel.hpp"
#include "matmul/matmul_tensors.hpp"
#include "shared/matmul_constants.h"
#include "shared/shared_memory.h"

namespace vkattn::detail {

namespace {

enum class Form : std::uint8_t { kVectors, kSharedInner, kOwnRows };

constexpr std::uint32_t kShortStep = 4;  // vectors of inner, so that each type has whole words or blocks

// As VKATTN_ADDRESS_PARAMS names them.
constexpr std::array<OwnAddress, 2> kVectorAddresses{
    {{VKATTN_MATMUL_BINDING_A, 0}, {VKATTN_MATMUL_BINDING_B, 0}}};

bool lies_across(const MatmulView& view) {
  return view.a.loads == VKATTN_MATMUL_LOADS_OUTER;
}

// Whether each line of the inner dimension begins at a word of 32 bits.
bool has_words(const MatmulOperand& operand, const MatmulDesc& desc) {
  const MatrixDesc& matrix = matrix_of(operand, desc);
  if (element_bytes(matrix.type) != 2) return true;
  const auto even = [](std::int64_t extent, std::int64_t stride) { return extent <= 1 || stride % 2 == 0; };
  return matrix.alignment_bytes >= 4 && even(desc.batch, operand.batch_stride) &&
         even(operand.outer, operand.outer_stride);
}

bool takes_vectors(const MatmulView& view, const MatmulDesc& desc, const Capabilities& capabilities) {
  const DataType a = matrix_of(view.a, desc).type, b = matrix_of(view.b, desc).type;
  const bool a_in_lines = block_elements(a) > 1 || (view.a.inner_stride == 1 && has_words(view.a, desc));
  const bool b_in_lines = view.b.type != VKATTN_MATMUL_TYPE_ONES && block_elements(b) == 1 &&
                          view.b.inner_stride == 1 && has_words(view.b, desc);
  return a_in_lines && b_in_lines &&
         reads_by_address(capabilities, kVectorAddresses.size(), sizeof(MatmulParams)) &&
         capabilities.subgroup_shuffle && capabilities.shader_float16 &&
         capabilities.subgroup_size == kVectorLanes;
}

// Best first.
std::vector<Form> forms_of(const MatmulView& view, const MatmulDesc& desc, const Capabilities& capabilities) {
  if (lies_across(view)) return {Form::kOwnRows};
  if (!takes_vectors(view, desc, capabilities)) return {Form::kSharedInner};
  return {Form::kVectors, Form::kSharedInner};
}

// Whether the smaller operand is shuffled to the order of the larger one's elements.
bool is_shuffled(const MatmulView& view, const MatmulDesc& desc) {
  const auto is_in_order = [](DataType type) {
    return type == DataType::kFloat32 || type == DataType::kFloat16;
  };
  return !is_in_order(matrix_of(view.a, desc).type) || !is_in_order(matrix_of(view.b, desc).type);
}

// Vectors of a step where rows are read one by one, in the order of memory: the most up to the tile's number
// that divide a row. With more columns a step has more loads, which take long to compile. 0: they are read
// otherwise, as longer rows and the line of the other matrix leave a core's first cache, short steps cost
// more, and columns that are shuffled are so for each row, which blocks' order makes too dear even for one.
std::uint32_t step_of_row(const MatmulTile& tile, std::uint32_t columns, const MatmulView& view,
                          const MatmulDesc& desc) {
  constexpr std::int64_t kLongestInner = 2048;
  constexpr std::uint32_t kLongest = 96, kLongestOfColumns = 48, kShortest = 20;
  if (view.inner > kLongestInner || view.inner % kVectorLanes != 0) return 0;
  if (block_elements(matrix_of(view.a, desc).type) > 1) return 0;
  if (columns > 1 && is_shuffled(view, desc)) return 0;
  const auto vectors = static_cast<std::uint32_t>(view.inner) / kVectorLanes;
  const std::uint32_t most = std::min(tile.inner, columns == 1 ? kLongest : kLongestOfColumns);
  const std::uint32_t least = std::max(std::min(most, kShortest), kShortStep);
  for (std::uint32_t step = most / kShortStep * kShortStep; step >= least; step -= kShortStep) {
    if (vectors % step == 0) return step;
  }
  return 0;
}

// Sums are private, and a step's multiply-adds are all written out. Lanes that share inner read quantised
// elements by whole blocks, and a matrix that lies across is read by quads of rows.
bool is_possible_step(const MatmulTile& tile, Form form, std::uint32_t columns, const MatmulView& view,
                      const MatmulDesc& desc) {
  const auto block = static_cast<std::uint32_t>(block_elements(matrix_of(view.a, desc).type));
  const bool takes_rows = form == Form::kVectors   ? is_power(tile.rows, 1, 8)
                          : form == Form::kOwnRows ? is_power(tile.rows, 4, 32)
                                                   : is_power(tile.rows, 1, 16);
  const bool takes_inner = form == Form::kVectors
                               ? (tile.rows == 1 ? step_of_row(tile, columns, view, desc) != 0
                                                 : is_power(tile.inner, kShortStep, 16))
                               : is_power(tile.inner, 4, 32) && (block == 1 || tile.inner == block);
  return tile.threads == 0 && takes_rows && takes_inner && tile.columns >= 1 && tile.columns <= 8 &&
         tile.rows * tile.columns <= 64;
}

// Whether each cache line is read ahead. Prefetchers follow longer rows, and a smaller matrix stays in a
// core's own cache.
bool touches(const MatmulView& view, DataType type, const Capabilities& capabilities) {
  constexpr std::int64_t kLongestInner = 1024;
  constexpr double kFewestBytes = 512 * 1024;
  const double bytes = static_cast<double>(view.rows) * static_cast<double>(view.inner) * block_bytes(type) /
                       block_elements(type);
  return view.inner <= kLongestInner && bytes >= kFewestBytes && capabilities.max_loop_iterations == 0;
}

std::string count_of(std::uint32_t count, const char* thing) {
  return message(count, " ", thing, count == 1 ? "" : "s");
}

// The form whose lanes share the inner dimension.
void choose_shared_inner(const MatmulView& view, DataType type, const Capabilities& capabilities,
                         std::uint32_t lanes, MatmulConfig& config) {
  config.required_subgroup_size = required_subgroup_size(capabilities, lanes);
  config.block_rows = config.tile.rows;
  config.shader = "matmul_lane_decode_wide";
  const bool is_touched = touches(view, type, capabilities);
  config.constants = {{VKATTN_MATMUL_SPEC_TOUCHES, is_touched ? 1U : 0U}};
  config.summary =
      message(config.tile.rows, " rows x ", count_of(config.columns, "column"), " a subgroup, ", lanes,
              " lanes of ", config.tile.inner, " of inner a step", is_touched ? ", cache lines first" : "");
}

// The form by vectors. What is left behind the last step is read element by element, so steps are short where
// long ones leave something.
void choose_vectors(const MatmulView& view, const MatmulDesc& desc, const Capabilities& capabilities,
                    MatmulConfig& config) {
  if (config.tile.rows == 1) {
    config.tile.inner = step_of_row(config.tile, config.columns, view, desc);
  } else if (view.inner % (std::int64_t{config.tile.inner} * kVectorLanes) != 0) {
    config.tile.inner = kShortStep;
  }
  config.own_addresses.assign(kVectorAddresses.begin(), kVectorAddresses.end());
  config.required_subgroup_size = required_subgroup_size(capabilities, kVectorLanes);
  config.block_rows = config.tile.rows == 1 ? kVectorLanes : config.tile.rows;
  config.shader = "matmul_lane_decode_addresses";
  config.summary = message(config.block_rows, config.tile.rows == 1 ? " rows one by one x " : " rows x ",
                           count_of(config.columns, "column"), " a subgroup, ", config.tile.inner,
                           " vectors of inner a step, by addresses");
}

// The form whose lanes have rows of their own.
void choose_own_rows(std::uint32_t lanes, MatmulConfig& config) {
  config.block_rows = config.tile.rows * lanes;
  config.shader = "matmul_lane_decode_across_wide";
  config.summary = message(lanes, " lanes of ", config.tile.rows, " rows x ",
                           count_of(config.columns, "column"), ", ", config.tile.inner, " of inner a step");
}

}  // namespace

Result<MatmulConfig> configure_matmul_lane_decode(const MatmulDesc& desc, const Capabilities& capabilities,
                                                  MatmulTiles tiles,
                                                  const std::optional<MatmulCopies>& copies) {
  if (Result<void> s = check_no_copies(copies); !s) return s.error();
  if (!loads_wide(capabilities)) return unsupported("is for CPUs with 64-bit integers and 16-bit storage");
  const auto lanes = lanes_of_one_size(capabilities);
  if (!lanes) return lanes.error();
  const MatmulView given = view_of(desc);
  MatmulView view = desc.rows < desc.columns ? exchanged(given) : given;
  const DataType type = matrix_of(view.a, desc).type;
  const bool in_lines = block_elements(type) > 1 || view.a.inner_stride == 1 || lies_across(view);
  if (view.a.type == VKATTN_MATMUL_TYPE_ONES || !in_lines) {
    return unsupported("reads the larger matrix in lines of its inner dimension, or, by four, in those of ",
                       view.a.tensor == 0 ? "a's rows" : "b's columns", ", but it lies in neither");
  }
  const auto columns = static_cast<std::uint32_t>(std::clamp<std::int64_t>(view.columns, 1, UINT32_MAX));
  std::uint32_t most = 0;
  std::optional<Result<void>> fits;
  for (const Form form : forms_of(view, desc, capabilities)) {
    for (const MatmulTile& tile : tiles) {
      if (!is_possible_step(tile, form, columns, view, desc)) continue;
      most = std::max(most, tile.columns);
      if (columns > tile.columns) continue;
      const std::uint32_t shared_words =
          form == Form::kSharedInner ? VKATTN_MATMUL_LANE_DECODE_STAGE(tile.rows, columns, *lanes) : 0;
      fits = check_limits({4 * shared_words, *lanes, 1}, capabilities);
      if (!*fits) continue;
      MatmulConfig config;
      config.view = view;
      config.tile = tile;
      config.columns = columns;
      config.workgroup_size = *lanes;
      config.block_columns = columns;
      if (form == Form::kVectors) choose_vectors(view, desc, capabilities, config);
      if (form == Form::kSharedInner) choose_shared_inner(view, type, capabilities, *lanes, config);
      if (form == Form::kOwnRows) choose_own_rows(*lanes, config);
      return config;
    }
  }
  if (fits) return no_block_fits(*fits);
  if (most == 0) return no_possible_tile(tiles);
  return unsupported("takes up to ", most, " rows or columns; the product has ", view.columns);
}

}  // namespace vkattn::detail
