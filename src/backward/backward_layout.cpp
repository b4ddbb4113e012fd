// The layout of a backward pass: see backward_layout.hpp.
#include "backward/backward_layout.hpp"

#include <algorithm>
#include <string_view>

#include "attention/tensor_rules.hpp"
#include "attention/window.hpp"
#include "backward/gradient_table.hpp"
#include "common/integers.hpp"
#include "common/message.hpp"
#include "program/bound_set.hpp"
#include "program/program.hpp"

namespace vkattn::detail {

namespace {

// If no pairs are kept: the log-sum-exp and D of each row. Kept gradients lie behind them at a multiple of 16
// bytes, as shaders/backward/matrix2_pairs.glsl has it.
std::uint64_t bytes_of_row_numbers(const BackwardLayout& layout) {
  return round_up(8 * layout.rows, std::uint64_t{16});
}

std::uint64_t bytes_of_pair(const BackwardLayout& layout) {
  if (layout.keeps_gradients) return 4;
  return layout.keeps_score_gradients ? 12 : 8;
}

std::uint64_t bytes_of_pairs(const BackwardKernel& kernel, const BackwardLayout& layout) {
  const std::uint64_t bytes = layout.rows * layout.chunk_keys * bytes_of_pair(layout);
  if (kernel.keeps_pairs) return bytes;
  return bytes_of_row_numbers(layout) + (layout.keeps_gradients ? bytes : 0);
}

// Only by request: it has not been measured. Without dK and dV the keys' pass would run for dQ alone.
bool keeps_gradients(const BackwardDesc& desc, const BackwardKernel& kernel, const PlanOptions& options) {
  return kernel.may_keep_gradients && options.chunk_keys != 0 && desc.has_grad_query &&
         (desc.has_grad_key || desc.has_grad_value);
}

// Chunks are whole steps. A chunk's pairs should stay in a CPU's caches, and be enough to keep a GPU busy. A
// driver that ends loops early gets chunks that are short enough, if there are any.
void choose_chunk(const BackwardDesc& desc, const Capabilities& capabilities, std::uint32_t wanted,
                  BackwardLayout& layout) {
  constexpr std::uint64_t kMostKeys = 2048;
  const std::uint64_t budget = std::uint64_t{capabilities.is_cpu() ? 16U : 256U} << 20U;
  const auto keys = static_cast<std::uint64_t>(std::max<std::int64_t>(desc.attention.kv_length, 1));
  const std::uint64_t row_bytes = std::max<std::uint64_t>(layout.rows * bytes_of_pair(layout), 1);
  std::uint64_t most = std::min(budget, capabilities.max_storage_buffer_range) / row_bytes;
  most = wanted != 0 ? wanted : std::clamp<std::uint64_t>(most, kChunkStep, kMostKeys);
  most = most / kChunkStep * kChunkStep;
  if (const std::int64_t limit = capabilities.max_loop_iterations; wanted == 0 && limit != 0) {
    while (most > kChunkStep &&
           iterations_over_chunk(desc.attention, static_cast<std::int64_t>(most)) >= limit)
      most -= kChunkStep;
  }
  // Even chunks, without a small last one.
  const std::uint64_t chunks = divide_up(keys, most);
  layout.chunk_keys =
      static_cast<std::uint32_t>(round_up(divide_up(keys, chunks), std::uint64_t{kChunkStep}));
  layout.chunks = static_cast<std::uint32_t>(divide_up(keys, std::uint64_t{layout.chunk_keys}));
}

// Deals out the elements of the sums, at multiples of 4.
std::uint64_t deal_out_sums(const BackwardDesc& desc, const BackwardKernel& kernel, BackwardLayout& layout) {
  const AttentionDesc& attention = desc.attention;
  std::uint64_t elements = 0;
  const auto take = [&](std::uint32_t& place, bool used, std::uint64_t count) {
    place = static_cast<std::uint32_t>(elements);
    if (used) elements += round_up(count, std::uint64_t{4});
  };
  const auto head_dim = static_cast<std::uint64_t>(attention.head_dim);
  const auto value_dim = static_cast<std::uint64_t>(attention.value_dim);
  const std::uint64_t chunk_keys = static_cast<std::uint64_t>(attention.batch) *
                                   static_cast<std::uint64_t>(attention.kv_heads) * layout.chunk_keys;
  take(layout.delta_sums, desc.has_grad_sinks || layout.keeps_deltas, layout.rows);
  take(layout.slope_sums, desc.has_grad_alibi_slopes, layout.rows);
  const bool adds_chunks = kernel.keeps_pairs || layout.keeps_gradients;
  take(layout.query_sums, adds_chunks && desc.has_grad_query && sums_lie_apart(*desc.grad_query, layout),
       layout.rows * head_dim);
  const bool keeps = kernel.key_sums_in_workspace;
  take(layout.key_sums, keeps && desc.has_grad_key && sums_lie_apart(*desc.grad_key, layout),
       chunk_keys * head_dim);
  take(layout.value_sums, keeps && desc.has_grad_value && sums_lie_apart(*desc.grad_value, layout),
       chunk_keys * value_dim);
  take(layout.mask_sums, desc.has_grad_mask && mask_sums_all_keys(desc), mask_sum_units(desc, 1));
  return elements;
}

}  // namespace

bool sums_lie_apart(const TensorDesc& gradient, const BackwardLayout& layout) {
  return sums_lie_apart(gradient, layout.avoids_shared_sets);
}

std::int64_t iterations_over_chunk(const AttentionDesc& desc, std::int64_t chunk_keys) {
  const std::int64_t dropout = desc.dropout > 0 ? 11 * 4 : 1;
  return chunk_keys / kMaskedStep * (iterations_over_dims(desc) + dropout * kMaskedStep) + 3 * desc.head_dim;
}

bool mask_sums_all_keys(const BackwardDesc& desc) {
  return desc.grad_mask->strides->dim == 0 || desc.attention.kv_length <= 1;
}

std::uint64_t mask_sum_units(const BackwardDesc& desc, std::uint32_t chunk_keys) {
  const TensorExtents e = row_of(&BackwardTensors::grad_mask).extents(desc);
  const std::uint64_t rows = static_cast<std::uint64_t>(e.batch) * static_cast<std::uint64_t>(e.heads) *
                             static_cast<std::uint64_t>(e.rows);
  return rows * (mask_sums_all_keys(desc) ? 1 : chunk_keys);
}

Result<BackwardLayout> lay_out_backward(const BackwardDesc& desc, const Capabilities& capabilities,
                                        const BackwardKernel& kernel, const PlanOptions& options) {
  BackwardLayout layout;
  layout.rows = static_cast<std::uint64_t>(workspace_rows(desc.attention, whole_window(desc.attention)));
  layout.scale = scale_parts(desc.attention.effective_scale());
  layout.keeps_score_gradients = desc.has_grad_mask && (desc.attention.softcap > 0 || layout.scale.pair != 1);
  if (options.chunk_keys % kChunkStep != 0) {
    return invalid("PlanOptions::chunk_keys is ", options.chunk_keys, " but must be a multiple of ",
                   kChunkStep, ", or 0");
  }
  layout.keeps_gradients = keeps_gradients(desc, kernel, options);
  if (kernel.keeps_pairs || layout.keeps_gradients) {
    choose_chunk(desc, capabilities, options.chunk_keys, layout);
  } else {
    const auto keys = static_cast<std::uint32_t>(std::max<std::int64_t>(desc.attention.kv_length, 1));
    layout.chunk_keys = round_up(keys, kChunkStep);
  }
  layout.keeps_deltas = kernel.keeps_deltas && layout.chunks > 1;
  const std::uint64_t alignment = binding_alignment(capabilities);
  const auto append = [&](std::uint64_t bytes) {
    const WorkspaceArea area{round_up(layout.workspace_bytes, alignment), bytes};
    if (bytes != 0) layout.workspace_bytes = area.offset + bytes;
    return area;
  };
  layout.pairs = append(bytes_of_pairs(kernel, layout));
  const std::uint64_t range = capabilities.max_storage_buffer_range;
  const BufferLimit buffers = buffer_limit(capabilities);
  layout.avoids_shared_sets = kernel.avoids_shared_sets;
  std::uint64_t sum_bytes = 4 * deal_out_sums(desc, kernel, layout);
  if (layout.avoids_shared_sets &&
      (sum_bytes > range || layout.workspace_bytes + sum_bytes > buffers.bytes)) {
    layout.avoids_shared_sets = false;  // such sums can live in the gradients
    sum_bytes = 4 * deal_out_sums(desc, kernel, layout);
  }
  layout.sums = append(sum_bytes);
  if (options.push_descriptors) layout.parameters = append(kMostParameterBytes);
  const auto check = [&](std::string_view what, std::uint64_t bytes, std::string_view limit,
                         std::uint64_t most) -> Result<void> {
    if (bytes <= most) return {};
    return limit_exceeded(what, " of the backward pass take ", bytes, " bytes; ", limit, " is ", most);
  };
  if (Result<void> s = check(kernel.keeps_pairs       ? "probabilities of a chunk of the keys"
                             : layout.keeps_gradients ? "gradients of a chunk of the keys"
                                                      : "numbers of the rows",
                             layout.pairs.bytes, "maxStorageBufferRange", range);
      !s) {
    return s.error();
  }
  if (Result<void> s = check("running sums", layout.sums.bytes, "maxStorageBufferRange", range); !s)
    return s.error();
  if (Result<void> s = check("workspaces", layout.workspace_bytes, buffers.name, buffers.bytes); !s)
    return s.error();
  return layout;
}

}  // namespace vkattn::detail
