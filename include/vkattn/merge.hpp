/// @file
/// Attention over parts of the keys, merged into attention over all of them: for keys that lie on several
/// devices or come one after the other (ring attention: Liu, Zaharia and Abbeel, 2023).
#pragma once

#include <vkattn/bindings.hpp>
#include <vkattn/buffer_range.hpp>
#include <vkattn/data_type.hpp>
#include <vkattn/device.hpp>
#include <vkattn/recording.hpp>
#include <vkattn/shared.hpp>

#include <cstdint>
#include <string>
#include <vector>

namespace vkattn {

namespace detail {
struct MergeState;
}  // namespace detail

/// Results of plans with AttentionDesc::has_lse, each over other keys of the same rows. With p the parts:
///
///     lse = ln(sum over p of exp(lse_p))
///     output = sum over p of exp(lse_p - lse) * output_p
///
/// A part whose row saw no key has lse_p = -inf and counts nothing; where all are such, output is 0 and lse
/// -inf. Sinks and dropout belong to one softmax: give a sink to one part only.
struct MergeDesc {
  std::int64_t rows = 0;                      ///< of one part: batch * query_heads * query_length
  std::int64_t value_dim = 0;                 ///< elements of a row, side by side; rows likewise
  std::int64_t parts = 2;                     ///< at least 1
  DataType part_type = DataType::kFloat32;    ///< of the parts' outputs: kFloat32, kFloat16 or kBfloat16
  DataType output_type = DataType::kFloat32;  ///< likewise; rows * value_dim is even for 16 bits
  bool has_lse = true;                        ///< the merged lse is written too
};

/// The tensors of one execution, contiguous. They begin at a multiple of 4 bytes. `output` may be the place
/// of the first part where the types are the same, and `lse` that of its lse: so one more part is merged into
/// what was merged before. Bindings in which something else overlaps are refused.
struct MergeTensors {
  BufferRange parts{};     ///< (parts, rows, value_dim)
  BufferRange part_lse{};  ///< float32 (parts, rows)
  BufferRange output{};    ///< (rows, value_dim)
  BufferRange lse{};       ///< float32 (rows), where MergeDesc::has_lse
};

/// How to plan a merge: as AppendOptions.
struct MergeOptions {
  VkPipelineCache pipeline_cache = {};  ///< owned by the caller; may be null
  bool push_descriptors = false;        ///< for record(command buffer, tensors)
  bool deferred_compilation = false;    ///< leave compilation to MergePlan::compile()
};

/// Checks every rule that needs no device; the first broken one is the error.
[[nodiscard]] Result<void> validate(const MergeDesc& desc);

/// An immutable plan of one or two passes. Cheap to copy; safe to share across threads; the last copy, or the
/// last of its Bindings, ends it as AttentionPlan's does.
class MergePlan {
 public:
  /// Errors: a broken rule of the descriptor, a device limit (each tensor must fit maxStorageBufferRange), or
  /// Vulkan's own.
  [[nodiscard]] static Result<MergePlan> create(const Device& device, const MergeDesc& desc,
                                                const MergeOptions& options = {});

  /// As AttentionPlan::compile().
  [[nodiscard]] Result<void> compile() const;
  /// That nothing is left to compile.
  [[nodiscard]] bool is_compiled() const noexcept;

  /// What it merges.
  [[nodiscard]] const MergeDesc& desc() const;
  /// As AttentionPlan::dispatches().
  [[nodiscard]] std::vector<DispatchInfo> dispatches() const;
  /// As AttentionPlan::requirements(). There is no workspace.
  [[nodiscard]] PlanRequirements requirements() const;
  /// As AttentionPlan::range_bytes().
  [[nodiscard]] VkDeviceSize range_bytes(BufferRange MergeTensors::*tensor, VkDeviceSize offset = 0) const;
  /// A line for a person.
  [[nodiscard]] std::string describe() const;

  /// As AttentionPlan::make_bindings().
  [[nodiscard]] Result<Bindings> make_bindings(const MergeTensors& tensors, VkDescriptorPool pool = {}) const;
  /// Points existing bindings at other tensors. Only while none is in use.
  [[nodiscard]] Result<void> rewrite(Bindings& bindings, const MergeTensors& tensors) const;
  /// That the bindings were made by this plan or a copy of it.
  [[nodiscard]] bool has_made(const Bindings& bindings) const noexcept;

  /// As AttentionPlan::record().
  void record(VkCommandBuffer commands, const Bindings& bindings,
              const RecordOptions& options = {}) const noexcept;
  /// The same without an object, for plans made with MergeOptions::push_descriptors.
  [[nodiscard]] Result<void> record(VkCommandBuffer commands, const MergeTensors& tensors,
                                    const RecordOptions& options = {}) const;

 private:
  explicit MergePlan(Shared<const detail::MergeState> state) : state_(std::move(state)) {}
  Shared<const detail::MergeState> state_;
};

}  // namespace vkattn
