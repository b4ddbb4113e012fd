// The list of kernels, and functions that they share.
#include "kernels/kernel.hpp"

#include "attention/features.hpp"
#include "common/message.hpp"
#include "kernels/tile_table.hpp"
#include "shared/attention_constants.h"

namespace vkattn::detail {

namespace {

bool lane_decode_takes_vectors(const AttentionDesc& desc, const Capabilities& capabilities) {
  const auto config =
      configure_lane_decode(desc, capabilities, table_tiles("lane_decode", desc, capabilities));
  return config && config->tile_workspace_bytes != 0;
}

// Whether lane_decode is faster than lane on a CPU. lane has a row of one KV head in each lane, so it is fast
// with 8 rows of float32 and with 16 rows, but not with quantised keys, which it reads element by element.
bool prefers_lane_decode(const AttentionDesc& desc, const Capabilities& capabilities) {
  // SwiftShader, without 64-bit loads, is faster with lane. On lavapipe before Mesa 25, which the limit of
  // loops tells, two problems were timed, and one gained.
  if (!takes_long_steps(capabilities)) return false;
  const std::int64_t rows = packed_rows(desc);
  if (rows <= 6) return true;
  if (rows > 24 || !lane_decode_takes_vectors(desc, capabilities)) return false;
  if (is_quantised(desc.key.type) && is_quantised(desc.value.type)) return true;
  return rows <= 12 && (rows != 8 || desc.key.type != DataType::kFloat32);
}

}  // namespace

std::vector<Kernel> ordered_kernels(const AttentionDesc& desc, const Capabilities& capabilities) {
  const Kernel lane{"lane", configure_lane};
  const Kernel lane_decode{"lane_decode", configure_lane_decode};
  const Kernel tile{"tile", configure_tile, configure_tile_float16};
  const Kernel matrix{"matrix", configure_matrix};
  const Kernel decode{"decode", configure_decode};
  const Kernel matrix2{"matrix2", configure_matrix2};
  // CPU implementations run barriers as coroutines, so the kernel without any is the faster one there. They
  // emulate matrices.
  if (capabilities.is_cpu()) {
    if (prefers_lane_decode(desc, capabilities)) return {lane_decode, lane, tile, decode, matrix, matrix2};
    return {lane, tile, decode, matrix, matrix2, lane_decode};
  }
  // A few rows fill no matrix, and are bound by memory rather than arithmetic.
  if (packed_rows(desc) <= kFewRows) return {decode, tile, matrix2, matrix, lane, lane_decode};
  // Before Xe2 Intel's matrices spill in all but small tiles, which no such GPU has timed; and on integrated
  // GPUs, which list them too, the compiler makes scalar code of them: docs/trials/gpu_compilers.md.
  const bool avoids_matrices = architecture(capabilities) == Architecture::kIntelGen12;
  if (avoids_matrices) return {matrix2, tile, matrix, lane, decode, lane_decode};
  return {matrix2, matrix, tile, lane, decode, lane_decode};
}

Error no_possible_tile(std::span<const TileSizes> tiles) {
  if (tiles.empty()) return unsupported("the tile table has no block sizes for this problem on this device");
  return unsupported("cannot work with the block sizes ", to_string(tiles.front()));
}

std::string feature_form(const AttentionDesc& desc, std::string_view base) {
  return message(base, has_features(desc) ? "_features" : "");
}

std::string shader_for(const AttentionDesc& desc, const Capabilities& capabilities, std::string_view base,
                       std::string_view words) {
  const auto is_16bit = [](const TensorDesc& tensor) { return element_bytes(tensor.type) == 2; };
  const bool any_16bit =
      is_16bit(desc.query) || is_16bit(desc.key) || is_16bit(desc.value) || is_16bit(desc.output);
  return feature_form(desc, capabilities.storage_buffer_16bit && any_16bit ? base : words);
}

}  // namespace vkattn::detail
