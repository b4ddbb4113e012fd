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

// By vectors, a workgroup reads the rows of this tile one after the other, in the order of memory.
bool reads_one_by_one(const MatmulTile& tile) {
  return tile.rows == 1;
}

// Vectors of a step where rows are read one by one: the most, up to the tile's number, that divide a row.
// With more columns a step has more loads, which take long to compile, so steps are shorter. Not read so are
// - rows longer than 2048, as with the line of the other matrix they leave a core's first cache;
// - rows that only short steps divide, which cost more;
// - blocks, as their order makes the shuffle of even one column for each row too dear;
// - other types that want shuffled columns, if there are several: they are shuffled again for each row.
Result<std::uint32_t> step_of_row(const MatmulTile& tile, std::uint32_t columns, const MatmulView& view,
                                  const MatmulDesc& desc) {
  constexpr std::int64_t kLongestInner = 2048;
  constexpr std::uint32_t kLongest = 96, kLongestOfColumns = 48, kShortest = 20;
  if (block_elements(matrix_of(view.a, desc).type) > 1) {
    return unsupported("with rows 1 reads rows one by one, but not those of blocks");
  }
  if (columns > 1 && is_shuffled(view, desc)) {
    return unsupported("with rows 1 reads rows one by one, for ", columns,
                       " columns only if both operands are f32 or f16");
  }
  if (view.inner > kLongestInner) {
    return unsupported("with rows 1 reads rows one by one, of up to ", kLongestInner, " elements; inner is ",
                       view.inner);
  }
  const auto elements = static_cast<std::uint32_t>(view.inner);
  const std::uint32_t most = std::min(tile.inner, columns == 1 ? kLongest : kLongestOfColumns);
  const std::uint32_t least = std::max(std::min(most, kShortest), kShortStep);
  for (std::uint32_t step = most / kShortStep * kShortStep; step >= least; step -= kShortStep) {
    if (elements % (step * kVectorLanes) == 0) return step;
  }
  return unsupported("with rows 1 reads rows one by one, in steps of ", least, " to ", most, " vectors of ",
                     kVectorLanes, " in fours, none of which divides inner ", view.inner);
}

// Whether the form takes the tile's rows. Sums are private, and a step's multiply-adds are all written out.
bool takes_rows(Form form, std::uint32_t rows) {
  switch (form) {
    case Form::kVectors:
      return is_power(rows, 1, 8);
    case Form::kSharedInner:
      return is_power(rows, 1, 16);
    case Form::kOwnRows:
      return is_power(rows, 4, 32);  // by quads
  }
  return false;
}

// The tile as the form uses it, or the reason against it. By vectors, what is left behind the last step is
// read element by element, so steps are short where long ones leave something. Lanes that share inner read
// quantised elements by whole blocks.
Result<MatmulTile> fitted_tile(MatmulTile tile, Form form, std::uint32_t columns, const MatmulView& view,
                               const MatmulDesc& desc) {
  const Error impossible = no_possible_tile({&tile, 1});
  if (tile.threads != 0 || !takes_rows(form, tile.rows) || tile.columns < 1 || tile.columns > 8 ||
      tile.rows * tile.columns > 64) {
    return impossible;
  }
  if (form != Form::kVectors) {
    const auto block = static_cast<std::uint32_t>(block_elements(matrix_of(view.a, desc).type));
    if (!is_power(tile.inner, 4, 32) || (block != 1 && tile.inner != block)) return impossible;
  } else if (reads_one_by_one(tile)) {
    if (tile.inner < kShortStep) return impossible;
    const auto step = step_of_row(tile, columns, view, desc);
    if (!step) return step.error();
    tile.inner = *step;
  } else {
    if (!is_power(tile.inner, kShortStep, 16)) return impossible;
    if (view.inner % (std::int64_t{tile.inner} * kVectorLanes) != 0) tile.inner = kShortStep;
  }
  return tile;
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

// The form by vectors. Parts of inner have whole steps, as only these are read by vectors.
void choose_vectors(const Capabilities& capabilities, MatmulConfig& config) {
  const bool one_by_one = reads_one_by_one(config.tile);
  config.part_unit = round_up(kPartUnit, std::int64_t{config.tile.inner} * kVectorLanes);
  config.own_addresses.assign(kVectorAddresses.begin(), kVectorAddresses.end());
  config.required_subgroup_size = required_subgroup_size(capabilities, kVectorLanes);
  config.block_rows = one_by_one ? kVectorLanes : config.tile.rows;
  config.shader = "matmul_lane_decode_addresses";
  config.summary = message(config.block_rows, one_by_one ? " rows one by one x " : " rows x ",
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
  std::optional<Error> against;  // the first tile in the best form
  for (const Form form : forms_of(view, desc, capabilities)) {
    for (const MatmulTile& given_tile : tiles) {
      const auto tile = fitted_tile(given_tile, form, columns, view, desc);
      if (!tile) {
        if (!against) against = tile.error();
        continue;
      }
      most = std::max(most, tile->columns);
      if (columns > tile->columns) continue;
      const std::uint32_t shared_words =
          form == Form::kSharedInner ? VKATTN_MATMUL_LANE_DECODE_STAGE(tile->rows, columns, *lanes) : 0;
      fits = check_limits({4 * shared_words, *lanes, 1}, capabilities);
      if (!*fits) continue;
      MatmulConfig config;
      config.view = view;
      config.tile = *tile;
      config.columns = columns;
      config.workgroup_size = *lanes;
      config.block_columns = columns;
      if (form == Form::kVectors) choose_vectors(capabilities, config);
      if (form == Form::kSharedInner) choose_shared_inner(view, type, capabilities, *lanes, config);
      if (form == Form::kOwnRows) choose_own_rows(*lanes, config);
      return config;
    }
  }
  if (fits) return no_block_fits(*fits);
  if (most == 0) return against ? *against : no_possible_tile(tiles);
  return unsupported("takes up to ", most, " rows or columns; the product has ", view.columns);
}

}  // namespace vkattn::detail
