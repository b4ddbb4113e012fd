// The host half of a kernel: what it accepts and how its pipeline is specialized. Plain data in and out, no
// Vulkan calls, so that selection can be tested without a device.
#pragma once

#include <vkattn/attention.hpp>
#include <vkattn/capabilities.hpp>
#include <vkattn/plan.hpp>
#include <vkattn/tuning.hpp>

#include <algorithm>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "attention/params.hpp"
#include "kernels/own_address.hpp"
#include "spirv/specialization.hpp"

namespace vkattn::detail {

/// The unit of work of a pass: one workgroup takes one.
enum class PassUnit : std::uint8_t {
  kTiles,   ///< of the kernel: a tile of rows, with one part of the keys
  kRows,    ///< one row of the output
  kBlocks,  ///< blocks of the block mask
};

/// Everything that makes one pipeline for one problem on one device, except the decisions of the plan
/// (PassVariant).
struct PassConfig {
  std::string_view name;           ///< the kernel's, or of what comes before or after it: combine, ...
  std::string shader;              ///< name in shaders/binaries.cmake
  SpecializationValues constants;  ///< its own, beside those of all passes
  std::uint32_t workgroup_size = 0;
  std::uint32_t required_subgroup_size = 0;  ///< with full subgroups; 0: any
  std::vector<std::uint32_t> by_address;     ///< bindings that it reads by their buffers' addresses
  PassUnit unit = PassUnit::kTiles;
  std::uint32_t units_per_workgroup = 1;  ///< of kBlocks
  /// Rough number of operations of a workgroup with kRows or kBlocks, so that no dispatch takes too long.
  double workgroup_flops = 0;
};

/// A kernel's choices for one problem on one device. Nothing changes it afterwards.
struct KernelConfig : PassConfig {
  TileSizes tile;  ///< the block sizes that the rest follows from
  std::uint32_t rows_per_workgroup = 0;
  std::uint32_t shared_bytes = 0;
  bool whole_heads = false;    ///< the keys of one head must fit one descriptor, whatever key_step is
  std::uint32_t key_step = 0;  ///< keys visited at a time: parts of a split are multiples of it
  std::uint32_t workgroups_per_unit = 2;  ///< that a compute unit runs at a time, to size a split
  bool loops_over_dims = true;  ///< in a step; else each dim is of a thread's own, see check_loop_limit()
  std::uint32_t step_iterations = 0;  ///< rounds of a step's loops beside those over dims
  bool uses_matrix_units = false;
  /// Bytes of the workspace that each tile of rows has to itself, for each part of the keys; 0: none.
  std::uint32_t tile_workspace_bytes = 0;
  std::vector<OwnAddress> own_addresses;  ///< in the shader's order; by_address is for shaders without any
  /// Keep running sums as float32 in the workspace where the keys are not split (kSumsInWorkspace).
  bool sums_in_workspace = false;
  /// Keys of a block of the block mask that the kernel skips by, its rows being rows_per_workgroup; 0: it
  /// cannot.
  std::uint32_t block_mask_keys = 0;
  /// The last workgroup of a tile can combine so many partial rows of a split itself (rows x parts); 0: none.
  std::uint32_t most_partial_rows = 0;
  DataType probability_type = DataType::kFloat32;  ///< what probabilities are rounded to before they meet V
  DataType arithmetic_type = DataType::kFloat32;   ///< of products and short sums
  std::string summary;                             ///< for describe(): tile sizes in words
};

struct Kernel {
  std::string_view name;
  /// The configuration with the first of the block sizes that the device takes, or the reason against this
  /// kernel as an Error.
  Result<KernelConfig> (*configure)(const AttentionDesc& desc, const Capabilities& capabilities,
                                    std::span<const TileSizes> tiles);
  /// The configuration in float16 arithmetic, for float16 tensors; null if the kernel has no such form.
  Result<KernelConfig> (*configure_float16)(const AttentionDesc& desc, const Capabilities& capabilities,
                                            std::span<const TileSizes> tiles) = nullptr;
};

/// Every kernel, best first for the problem on the device.
[[nodiscard]] std::vector<Kernel> ordered_kernels(const AttentionDesc& desc,
                                                  const Capabilities& capabilities);

/// Whether the options ask for no split, so for no workspace.
[[nodiscard]] bool asks_for_one_part(const PlanOptions& options);

/// Bytes of tiles' own parts of the workspace (KernelConfig::tile_workspace_bytes) for so many KV heads, if
/// so many parts share the keys. A part has one step of keys at the least.
[[nodiscard]] double tiles_bytes(const AttentionDesc& desc, const KernelConfig& config, double heads,
                                 double parts);

/// Whether the bytes fit half of what a buffer, its memory and a descriptor may have.
[[nodiscard]] bool fit_half_of_a_buffer(double bytes, const Capabilities& capabilities);

/// Whether the options allow tiles their own parts of the workspace: one part of the keys asks for none, and
/// those of all parts that are asked for must fit half of a buffer.
[[nodiscard]] bool options_allow_tile_workspace(const PlanOptions& options, const AttentionDesc& desc,
                                                const Capabilities& capabilities, const KernelConfig& config);

/// Refuses a problem whose loops the driver might end early, by a bound on their iterations. If the options
/// ask for a number of parts, the keys are cut into these.
[[nodiscard]] Result<void> check_loop_limit(const AttentionDesc& desc, const Capabilities& capabilities,
                                            const KernelConfig& config, const PlanOptions& options);

/// The most keys of a part, in whole steps, whose loops the driver does not end early; at least one step.
[[nodiscard]] std::int64_t most_keys_of_part(const AttentionDesc& desc, const Capabilities& capabilities,
                                             const KernelConfig& config);

/// Refuses parts of so many keys if the driver might end the kernel's loops early.
[[nodiscard]] Result<void> check_part_keys(const AttentionDesc& desc, const Capabilities& capabilities,
                                           const KernelConfig& config, const PlanOptions& options,
                                           std::int64_t keys);

/// The refusal of a kernel that can use none of the block sizes.
[[nodiscard]] Error no_possible_tile(std::span<const TileSizes> tiles);

/// Rows of one KV head: the query heads that share it are packed (shaders/lib/grid.glsl).
[[nodiscard]] inline std::int64_t packed_rows(const AttentionDesc& desc) {
  return desc.query_heads == 0 || desc.kv_heads == 0 ? 0
                                                     : desc.query_length * (desc.query_heads / desc.kv_heads);
}

/// A guess of the workgroups that a compute unit runs at a time: 256 threads, but at least 2 workgroups. It
/// need not fit the device's limits.
[[nodiscard]] inline std::uint32_t workgroups_of_a_unit(std::uint32_t threads) {
  return std::max(2U, 256 / threads);
}

/// reads_by_address() behind the push constants of attention.
[[nodiscard]] inline bool reads_by_address(const Capabilities& capabilities, std::size_t tensors) {
  return reads_by_address(capabilities, tensors, sizeof(AttentionParams));
}

/// Whether many rows see the same keys, as far as positions decide. For few rows it is false: steps of lane
/// that suit a number of keys would only make more pipelines for a cache that grows.
[[nodiscard]] inline bool rows_share_keys(const AttentionDesc& desc) {
  return !desc.causal && desc.window == SlidingWindow{} && desc.query_length >= 64;
}

/// Packed rows that count as few: decode rather than prefill.
inline constexpr std::int64_t kFewRows = 16;

/// `base` if the device has 16-bit storage or the problem does not need it, else `words`; and of it the form
/// with features if the problem has some.
[[nodiscard]] std::string shader_for(const AttentionDesc& desc, const Capabilities& capabilities,
                                     std::string_view base, std::string_view words);
/// The form of a shader with features if the problem has some, else without.
[[nodiscard]] std::string feature_form(const AttentionDesc& desc, std::string_view base);

/// The pass that finds the blocks of rows and keys that are hidden whole.
[[nodiscard]] PassConfig configure_block_mask(const AttentionDesc& desc, const Capabilities& capabilities,
                                              const KernelConfig& kernel);
/// The pass that writes the attention weights, once the log-sum-exp of each row is known.
[[nodiscard]] PassConfig configure_weights(const AttentionDesc& desc, const Capabilities& capabilities);

/// The pass that merges the parts of a split over keys.
[[nodiscard]] PassConfig configure_combine(const AttentionDesc& desc, const Capabilities& capabilities,
                                           std::int64_t parts);

using Tiles = std::span<const TileSizes>;
[[nodiscard]] Result<KernelConfig> configure_decode(const AttentionDesc& desc,
                                                    const Capabilities& capabilities, Tiles tiles);
[[nodiscard]] Result<KernelConfig> configure_lane(const AttentionDesc& desc, const Capabilities& capabilities,
                                                  Tiles tiles);
[[nodiscard]] Result<KernelConfig> configure_lane_decode(const AttentionDesc& desc,
                                                         const Capabilities& capabilities, Tiles tiles);
[[nodiscard]] Result<KernelConfig> configure_tile(const AttentionDesc& desc, const Capabilities& capabilities,
                                                  Tiles tiles);
[[nodiscard]] Result<KernelConfig> configure_tile_float16(const AttentionDesc& desc,
                                                          const Capabilities& capabilities, Tiles tiles);
[[nodiscard]] Result<KernelConfig> configure_matrix(const AttentionDesc& desc,
                                                    const Capabilities& capabilities, Tiles tiles);
[[nodiscard]] Result<KernelConfig> configure_matrix2(const AttentionDesc& desc,
                                                     const Capabilities& capabilities, Tiles tiles);

}  // namespace vkattn::detail
