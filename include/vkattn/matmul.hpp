/// @file
/// Matrix multiplication for the projections around attention: Y = X W + b and its gradients.
#pragma once

#include <vkattn/bindings.hpp>
#include <vkattn/buffer_range.hpp>
#include <vkattn/capabilities.hpp>
#include <vkattn/device.hpp>
#include <vkattn/kernels.hpp>
#include <vkattn/matmul_desc.hpp>
#include <vkattn/recording.hpp>
#include <vkattn/shared.hpp>
#include <vkattn/statistics.hpp>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace vkattn {

struct Tuning;

namespace detail {
struct MatmulState;
}  // namespace detail

/// The tensors of one execution. Bindings whose output overlaps another tensor are refused.
struct MatmulTensors {
  BufferRange a{};       ///< null where MatmulDesc::a_is_ones
  BufferRange b{};       ///< as MatmulDesc::b says
  BufferRange bias{};    ///< where MatmulDesc::has_bias
  BufferRange output{};  ///< as MatmulDesc::output says
};

/// Operands that are copied before they are multiplied: as float32 with `inner` in rows, to the workspace.
/// For CPUs, which read quantised weights, elements at any address and large matrices that lie across slowly.
struct MatmulCopies {
  bool a = false;                                        ///< not where it is all ones
  bool b = false;                                        ///< quantised or not
  bool operator==(const MatmulCopies&) const = default;  ///< equal in both
};

/// How to plan a matrix multiplication.
struct MatmulOptions {
  VkPipelineCache pipeline_cache = {};  ///< owned by the caller; may be null
  std::string kernel;                   ///< forces one: lane, tile or matrix. Empty: the best that can run
  std::vector<KernelRefusal> refusals;  ///< as PlanOptions::refusals
  std::optional<MatmulTile> tile{};     ///< in place of the kernel's own block sizes
  /// Parts that `inner` is cut into, whose sums are added by a second pass: for few rows and columns. 0: as
  /// many as the device needs to be busy. 1: none. At most 64; as parts have multiples of 64 elements, there
  /// may be fewer.
  std::uint32_t inner_splits = 0;
  /// In place of the rule, which copies on CPUs what enough rows or columns of the output read. {}: none,
  /// which takes the least workspace.
  std::optional<MatmulCopies> copies{};
  Shared<const Tuning> tuning{};  ///< as PlanOptions::tuning, for what is left open above
  /// As PlanOptions::max_dispatch_ns. Of a block of the output that is above it by itself the log warns.
  std::uint64_t max_dispatch_ns = 0;
  bool push_descriptors = false;      ///< for record(command buffer, tensors, workspace)
  bool deferred_compilation = false;  ///< leave compilation to MatmulPlan::compile()
  bool capture_statistics = false;    ///< for MatmulPlan::statistics()
};

/// Checks every rule that needs no device; the first broken one is the error.
[[nodiscard]] Result<void> validate(const MatmulDesc& desc);

/// Every kernel for a matrix multiplication in the order of preference, with the reason against each.
[[nodiscard]] std::vector<KernelSupport> kernel_support(const MatmulDesc& desc,
                                                        const Capabilities& capabilities);

/// An immutable plan of one to four passes. Cheap to copy; safe to share across threads; the last copy, or
/// the last of its Bindings, ends it as AttentionPlan's does. Two runs on one device with the same inputs
/// give the same bits.
class MatmulPlan {
 public:
  /// Errors: a broken rule of the descriptor, no kernel that can run it (each with its reason), a device
  /// limit (each tensor must fit maxStorageBufferRange), or Vulkan's own.
  [[nodiscard]] static Result<MatmulPlan> create(const Device& device, const MatmulDesc& desc,
                                                 const MatmulOptions& options = {});

  /// As AttentionPlan::compile().
  [[nodiscard]] Result<void> compile() const;
  /// That nothing is left to compile.
  [[nodiscard]] bool is_compiled() const noexcept;

  /// What it computes, with all strides.
  [[nodiscard]] const MatmulDesc& desc() const;
  /// The kernel's name, which lives as long as the plan; empty where nothing is to be done.
  [[nodiscard]] std::string_view kernel_name() const;
  /// The block sizes in force.
  [[nodiscard]] MatmulTile tile() const;
  /// The operands that are copied.
  [[nodiscard]] MatmulCopies copies() const;
  /// As AttentionPlan::configuration().
  [[nodiscard]] std::string configuration() const;
  /// As AttentionPlan::uses_matrix_units().
  [[nodiscard]] bool uses_matrix_units() const;
  /// As AttentionPlan::dispatches().
  [[nodiscard]] std::vector<DispatchInfo> dispatches() const;
  /// As AttentionPlan::pipelines().
  [[nodiscard]] std::vector<PipelineInfo> pipelines() const;
  /// As AttentionPlan::requirements(): a split over `inner` and copies take a workspace.
  [[nodiscard]] PlanRequirements requirements() const;
  /// As AttentionPlan::range_bytes().
  [[nodiscard]] VkDeviceSize range_bytes(BufferRange MatmulTensors::*tensor, VkDeviceSize offset = 0) const;
  /// Lines for a person: the problem, the kernel with its block sizes, the reasons against others.
  [[nodiscard]] std::string describe() const;
  /// As AttentionPlan::statistics().
  [[nodiscard]] Result<std::vector<PipelineStatistics>> statistics(bool listings = false) const;

  /// As AttentionPlan::make_bindings().
  [[nodiscard]] Result<Bindings> make_bindings(const MatmulTensors& tensors,
                                               const BufferRange& workspace = {},
                                               VkDescriptorPool pool = {}) const;
  /// Points existing bindings at other tensors. Only while none is in use.
  [[nodiscard]] Result<void> rewrite(Bindings& bindings, const MatmulTensors& tensors,
                                     const BufferRange& workspace = {}) const;
  /// That the plan was made on this VkDevice.
  [[nodiscard]] bool is_on(const Device& device) const noexcept;
  /// That the bindings were made by this plan or a copy of it.
  [[nodiscard]] bool has_made(const Bindings& bindings) const noexcept;

  /// As AttentionPlan::record().
  void record(VkCommandBuffer commands, const Bindings& bindings,
              const RecordOptions& options = {}) const noexcept;
  /// The same without an object, for plans made with MatmulOptions::push_descriptors.
  [[nodiscard]] Result<void> record(VkCommandBuffer commands, const MatmulTensors& tensors,
                                    const BufferRange& workspace = {},
                                    const RecordOptions& options = {}) const;

 private:
  explicit MatmulPlan(Shared<const detail::MatmulState> state) : state_(std::move(state)) {}
  Shared<const detail::MatmulState> state_;
};

}  // namespace vkattn
