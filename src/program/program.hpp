// A program: passes over sets of storage buffers, described once and recorded as often as wanted. Attention,
// appends and measurements describe theirs as a ProgramDesc; checks of what the caller binds, descriptor
// sets, parameters, barriers and recording are here and nowhere else.
#pragma once

#include <vkattn/recording.hpp>
#include <vkattn/statistics.hpp>

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "common/attempt.hpp"
#include "common/byte_layout.hpp"
#include "program/slots.hpp"
#include "spirv/buffer_addresses.hpp"
#include "spirv/execution_modes.hpp"
#include "vulkan/debug.hpp"
#include "vulkan/descriptors.hpp"
#include "vulkan/device_state.hpp"
#include "vulkan/parameter_memory.hpp"
#include "vulkan/pipeline.hpp"
#include "vulkan/shader_code.hpp"

namespace vkattn::detail {

/// The most bindings of a program: the backward pass has them.
inline constexpr std::size_t kMostBindings = 32;

/// A tensor that the caller gives.
struct ProgramTensor {
  std::string name;         ///< for messages: "query tensor"
  std::string shape;        ///< for messages: "(2, 8, 64) float16"; may be empty
  std::uint64_t bytes = 0;  ///< from its first element to the end of its last; 0: the program does not use it
  std::uint64_t alignment_bytes = 4;
  std::string_view alignment_name = "its alignment";  ///< what asks for it
  bool may_be_null = false;                           ///< the workspace takes its place
  /// Bound with the whole range that the caller gives, which must fit one descriptor and be whole 32-bit
  /// words.
  bool is_table = false;
  bool written = false;  ///< may not lie on another tensor of the call
  ByteLayout layout{};   ///< where its bytes lie; none: `bytes` side by side
  /// The tensor that this written one may lie on if both begin at the same byte.
  std::optional<std::uint32_t> in_place_of{};
};

/// Checks that no written tensor of a call overlaps another one, by the bytes of the tensors and not by the
/// ranges that were given. `ranges` are the valid places of `tensors`; the workspace counts as written.
[[nodiscard]] Result<void> check_overlaps(std::span<const ProgramTensor> tensors,
                                          std::span<const BufferRange> ranges, const ProgramTensor& workspace,
                                          const BufferRange& workspace_range);

/// The buffer that a binding of a set refers to.
struct ProgramBinding {
  enum class From : std::uint8_t {
    kStandIn,  ///< the same as binding `index`: shaders touch nothing here, but each descriptor must be valid
    kTensor,   ///< the caller's tensor `index`
    kWorkspace,          ///< `workspace_byte` on
    kInWorkspace,        ///< a tensor that lies in the workspace, from `first_byte` on
    kTensorOrWorkspace,  ///< the tensor; the workspace if the tensor is null
    kParameters,         ///< ProgramSet::parameters
  };
  From from = From::kStandIn;
  std::uint32_t index = 0;
  std::uint64_t first_byte = 0;  ///< of the tensor, or the workspace
  std::uint64_t bytes = 0;
  std::uint64_t workspace_byte = 0;
  std::uint32_t unit_bytes = 4;  ///< offsets are counted in these
  /// Bound with the rest of the range that the caller gave, so that a driver that checks bounds hides no
  /// stray write.
  bool to_end = false;
  bool exact = false;  ///< the shader takes no offset, so the tensor is aligned as descriptors are
};

/// The buffers of one or several passes, with the numbers that depend on their places.
struct ProgramSet {
  std::uint32_t layout = 0;  ///< of the passes that it is for
  std::vector<ProgramBinding> bindings;
  std::vector<std::byte> push_constants;
  std::vector<std::byte> parameters;  ///< for ProgramBinding::From::kParameters; may be empty
  std::uint64_t parameters_byte = 0;  ///< their place in the workspace, for programs with push descriptors
};

/// Push constants or parameters as a set has them.
template <class Params>
[[nodiscard]] std::vector<std::byte> bytes_of(const Params& params) {
  const auto bytes = std::as_bytes(std::span(&params, 1));
  return {bytes.begin(), bytes.end()};
}

/// A 32-bit word of push constants or parameters that a binding's offset is added to. A descriptor begins at
/// a multiple of its alignment, at or before the tensor's first element; the offset is the distance.
struct OffsetWord {
  std::uint32_t binding = 0;
  std::uint32_t byte = 0;

  bool operator==(const OffsetWord&) const = default;
};

/// A 32-bit word of the parameters that comes from the call.
struct CallWord {
  std::uint32_t index = 0;  ///< in ProgramCall::words
  std::uint32_t byte = 0;

  bool operator==(const CallWord&) const = default;
};

/// The interface of the shaders of one operation: bindings, push constants, and the words that calls set.
struct ProgramLayout {
  std::uint32_t binding_count = 0;  ///< that its shaders name; descriptor sets have those in use (Slots)
  /// The bindings in use, in order; empty: those that some set binds. All others lie in the buffer of the
  /// binding `shared`, wherever sets say that they do.
  std::vector<std::uint32_t> bound;
  std::uint32_t shared = 0;
  std::uint32_t push_constant_bytes = 0;
  std::optional<std::uint32_t>
      units_byte;  ///< of the push constants that a step's first_unit and unit_count go to
  std::vector<OffsetWord> push_offsets;
  std::vector<AddressWord> push_addresses;  ///< of the push constants: shaders have them, or see by_address
  std::vector<OffsetWord> parameter_offsets;
  std::vector<CallWord> call_words;

  bool operator==(const ProgramLayout&) const = default;
};

/// The writes of earlier passes that a pass must see.
struct PassBarrier {
  VkAccessFlags from = 0;
  VkAccessFlags to = 0;
};

/// One pipeline.
struct ProgramPass {
  std::string name;
  std::string shader;  ///< name in shaders/binaries.cmake, for reports
  ShaderCode code;     ///< read by compile()
  SpecializationValues specialization;
  std::uint32_t workgroup_size = 0;          ///< invocations, for reports
  std::uint32_t required_subgroup_size = 0;  ///< with full subgroups; 0: any
  std::optional<PassBarrier> barrier;        ///< before it, unless the pass is recorded first
  std::optional<PassBarrier> between{};      ///< before each further dispatch: they read and write one buffer
  /// Bindings that it reaches by the layout's push_addresses.
  std::vector<std::uint32_t> by_address{};
  bool unrolls_on_cpus = false;  ///< even a shader with matrices, whose loops are kept on CPUs otherwise
  std::uint32_t layout = 0;
  std::shared_ptr<const Pipeline> pipeline{};  ///< if another program has it already
};

/// A hash of code, constants, subgroup sizes and the modes that the device offers. With one driver it is
/// equal for passes whose pipelines do the same.
[[nodiscard]] std::uint64_t hash_of(std::span<const ProgramPass> passes, const ExecutionModes& modes);

/// One dispatch: a run of a pass's units on a set.
struct ProgramStep {
  std::uint32_t pass = 0;
  std::uint32_t set = 0;
  std::uint32_t first_unit = 0, unit_count = 0;
  std::uint32_t groups_x = 0, groups_y = 0;
  double estimated_ns = 0;  ///< a rough guess, never a measurement
};

/// Everything that is recorded, without handles, so that tests can look at it without a device.
struct ProgramDesc {
  std::vector<ProgramTensor> tensors;
  std::vector<ProgramPass> passes;
  std::vector<ProgramSet> sets;
  std::vector<ProgramStep> steps;  ///< by pass
  std::vector<ProgramLayout> layouts = std::vector<ProgramLayout>(1);
  std::uint64_t workspace_bytes = 0;

  /// The layout of a program whose passes have one alone.
  [[nodiscard]] ProgramLayout& layout() { return layouts.front(); }
};

struct ProgramOptions {
  VkPipelineCache pipeline_cache = VK_NULL_HANDLE;
  bool push_descriptors = false;
  bool capture_statistics = false;
  bool deferred = false;  ///< compile() is called by the caller
};

/// Passes from `begin` to before `end`.
struct PassRange {
  std::uint32_t begin = 0, end = 0;
};

/// The tensors and numbers of one execution.
struct ProgramCall {
  std::span<const BufferRange> tensors;  ///< as ProgramDesc::tensors
  BufferRange workspace;
  std::span<const std::uint32_t> words;  ///< of CallWord
  PassRange skipped;                     ///< left out, as their results are there already
};

class Program;

/// Steps that are recorded: from `begin` to before `end`, without the steps from `skip_begin` to before
/// `skip_end`. Neither `begin` nor `end` lies inside of the skipped ones.
struct StepRange {
  std::size_t begin = 0, end = 0;
  std::size_t skip_begin = 0, skip_end = 0;

  [[nodiscard]] bool is_empty() const { return begin >= end; }
  [[nodiscard]] bool skips(std::size_t step) const { return step >= skip_begin && step < skip_end; }
};

/// A call resolved to descriptor sets and parameters. Keeps its program alive.
struct BindingsState {
  std::shared_ptr<const Program> program;
  std::vector<VkDescriptorSet> sets;      ///< one for each set of the program, by UsedLayout's objects
  std::vector<VkDescriptorPool> pools;    ///< of each of Program::objects_ from which sets were taken
  std::vector<std::byte> push_constants;  ///< of each step, side by side
  ParameterPiece parameters;              ///< of all sets
  StepRange steps;                        ///< of a whole execution

  BindingsState() = default;
  BindingsState(const BindingsState&) = delete;
  BindingsState& operator=(const BindingsState&) = delete;
  ~BindingsState();
};

/// Limits by which the units of a pass are dealt out to dispatches.
struct UnitLimits {
  std::uint64_t units_per_group = 1;
  std::uint64_t most_units = ~std::uint64_t{0};  ///< of a dispatch, a multiple of units_per_group
  double unit_ns = 0;
};

/// Appends the dispatches that `units` of a pass take. A grid is folded over its x and y.
void add_steps(ProgramDesc& program, std::uint32_t pass, std::uint32_t set, std::uint64_t units,
               const UnitLimits& limits, const Capabilities& capabilities);

/// What the largest layout of a program takes.
struct ProgramNeeds {
  std::uint32_t push_constant_bytes = 0;
  std::uint32_t storage_buffers = 0;  ///< of a descriptor set
};
[[nodiscard]] ProgramNeeds needs_of(const ProgramDesc& program);

/// Checks that the device can run the program. The error is the first limit in its way, with what to do.
[[nodiscard]] Result<void> check_device(const ProgramDesc& program, bool push_descriptors,
                                        const Capabilities& capabilities);

/// Checks that the driver can keep statistics of pipelines if they are wanted.
[[nodiscard]] Result<void> check_statistics(bool capture_statistics, const Capabilities& capabilities);

/// Offsets of descriptors are multiples of this. It is at least 16, so that the rest after rounding keeps
/// 16-byte loads aligned.
[[nodiscard]] std::uint64_t binding_alignment(const Capabilities& capabilities);
/// The largest buffer that memory can be bound to, and the limit that says so.
struct BufferLimit {
  std::uint64_t bytes = 0;
  std::string_view name;
};
[[nodiscard]] BufferLimit buffer_limit(const Capabilities& capabilities);
/// Checks that a tensor that is bound whole fits maxStorageBufferRange. `advice` ends the sentence: ", so
/// ...".
[[nodiscard]] Result<void> check_tensor_bytes(std::string_view name, std::uint64_t bytes,
                                              const Capabilities& capabilities, std::string_view advice = "");

/// A description with its pipelines: immutable once compiled, safe to share across threads.
class Program : public std::enable_shared_from_this<Program> {
 public:
  /// Checks the description against the device, and compiles it unless compilation is deferred.
  [[nodiscard]] static Result<std::shared_ptr<const Program>> create(Shared<const DeviceState> device,
                                                                     ProgramDesc desc,
                                                                     const ProgramOptions& options);

  [[nodiscard]] const ProgramDesc& desc() const { return desc_; }
  /// The pipeline of a pass, for another program; null if this program is not compiled.
  [[nodiscard]] std::shared_ptr<const Pipeline> pipeline_of(std::size_t pass) const;

  /// Compiles all passes; equal passes share a pipeline. May be called from any thread: calls while one
  /// compiles have its outcome, later calls do nothing, or try again after a failure.
  [[nodiscard]] Result<void> compile() const;
  /// A program that is not compiled can be bound, but not recorded.
  [[nodiscard]] bool is_compiled() const noexcept { return compiled_.load(std::memory_order_acquire); }

  /// The dispatches that record() records. The names live as long as the program.
  [[nodiscard]] std::vector<DispatchInfo> dispatches() const;
  /// The memory that the caller must provide, and the effects of record() on a command buffer.
  [[nodiscard]] PlanRequirements requirements() const;

  /// Bytes that the range of a tensor needs from an offset on, to the next multiple of 4: devices may access
  /// whole 32-bit words. 0 if the program does not use the tensor.
  [[nodiscard]] static std::uint64_t range_bytes(const ProgramTensor& tensor, std::uint64_t offset) noexcept;

  /// In the order of their first dispatches, each once. The names live as long as the program.
  [[nodiscard]] std::vector<PipelineInfo> pipelines() const;
  [[nodiscard]] Result<std::vector<PipelineStatistics>> statistics(bool listings) const;
  /// Code of pipelines counts once for each pipeline.
  [[nodiscard]] Result<PlanMemory> memory() const;

  /// Checks the call's ranges against the tensors and writes descriptor sets. They come from `pool` if it is
  /// not null.
  [[nodiscard]] Result<std::shared_ptr<BindingsState>> bind(const ProgramCall& call,
                                                            VkDescriptorPool pool = VK_NULL_HANDLE) const;
  /// Points bindings of this program at another call's tensors.
  [[nodiscard]] Result<void> rewrite(BindingsState& bindings, const ProgramCall& call) const;

  /// Whether a slice of an execution has steps.
  [[nodiscard]] static bool has_steps(const BindingsState& bindings, const RecordOptions& slice) noexcept {
    return !slice_of(bindings.steps, slice).is_empty();
  }
  /// Records the steps, or nothing if the program is not compiled. Neither allocates nor waits nor locks.
  /// `is_continued`: the first timestamp of the slice is there already, as the last one of the slice before.
  RecordStatus record(VkCommandBuffer commands, const BindingsState& bindings,
                      const RecordOptions& options = {}, bool is_continued = false) const noexcept;
  /// Records without an object of bindings, for programs made with push descriptors.
  [[nodiscard]] Result<void> record(VkCommandBuffer commands, const ProgramCall& call,
                                    const RecordOptions& options = {}) const;
  /// Records one dispatch of a program with one step, with other push constants and as many workgroups,
  /// ordered after what was recorded before it. Addresses in push constants are those of the bindings.
  void record_dispatch(VkCommandBuffer commands, const BindingsState& bindings,
                       std::span<const std::byte> push_constants, std::uint32_t groups) const noexcept;

 private:
  friend struct BindingsState;
  struct BoundSet;
  using SlotBuffers = std::array<VkDescriptorBufferInfo, kMostBindings>;  ///< by slot

  /// Shaders of pipelines that were compiled, and of those that other programs had.
  struct PipelineNames {
    std::vector<std::string_view> compiled, found;
    /// "compiled a, b; found c".
    [[nodiscard]] std::string in_words() const;
  };
  /// Vulkan's objects that equal layouts share.
  struct LayoutObjects {
    std::shared_ptr<const PipelineLayout> layout;
    std::unique_ptr<DescriptorPools> pools;
    std::size_t first_set = 0;  ///< in BindingsState::sets
    std::size_t set_count = 0;
  };
  struct UsedLayout {
    Slots slots;
    std::size_t objects = 0;
  };

  Program(Shared<const DeviceState> device, ProgramDesc desc, const ProgramOptions& options);
  [[nodiscard]] Result<void> make_layouts();
  void place_sets();
  [[nodiscard]] Result<void> make_pipelines(PipelineNames& names) const;
  [[nodiscard]] Result<std::shared_ptr<const Pipeline>> make_pipeline(const ProgramPass& pass,
                                                                      PipelineNames& names) const;
  [[nodiscard]] bool updates_parameters() const noexcept;
  [[nodiscard]] Result<void> check(const ProgramCall& call) const;
  [[nodiscard]] Result<void> check_range(const ProgramTensor& tensor, const BufferRange& range) const;
  [[nodiscard]] BoundSet resolve(const ProgramSet& set, const ProgramCall& call,
                                 const VkDescriptorBufferInfo& parameters) const;
  void find_addresses(const ProgramLayout& layout, BoundSet& bound) const noexcept;
  [[nodiscard]] SlotBuffers in_slots(const BoundSet& bound, const Slots& slots) const noexcept;
  [[nodiscard]] const LayoutObjects& objects_of(const ProgramSet& set) const noexcept;
  /// The steps of an execution of the call, and of a slice of it.
  /// @{
  [[nodiscard]] StepRange steps_of(const ProgramCall& call) const noexcept;
  [[nodiscard]] static StepRange slice_of(const StepRange& all, const RecordOptions& options) noexcept;
  /// @}
  [[nodiscard]] std::uint64_t parameter_bytes(const ProgramSet& set) const noexcept;
  /// Parameter bytes of all sets, side by side.
  [[nodiscard]] std::uint64_t parameter_bytes() const noexcept;
  void fill_parameters(const ProgramSet& set, const BoundSet& bound, const ProgramCall& call,
                       std::byte* target) const noexcept;
  void fill_push_constants(const ProgramStep& step, const BoundSet& bound, std::byte* target) const noexcept;
  void write(BindingsState& bindings, const ProgramCall& call) const;
  [[nodiscard]] Result<void> take_sets(BindingsState& bindings, VkDescriptorPool pool) const;
  void wait_for_earlier(VkCommandBuffer commands) const noexcept;
  /// `last` is the step before, null for the first of a slice; `all` is the whole execution.
  void begin_pass(VkCommandBuffer commands, CommandLabels& labels, const ProgramStep& step,
                  const ProgramStep* last, const StepRange& all) const noexcept;
  void barrier(VkCommandBuffer commands, const PassBarrier& access, VkPipelineStageFlags from,
               VkPipelineStageFlags to) const noexcept;
  void update_parameters(VkCommandBuffer commands, const ProgramCall& call) const;

  Shared<const DeviceState> device_;
  ProgramDesc desc_;
  ProgramOptions options_;
  std::vector<UsedLayout> layouts_;
  std::vector<LayoutObjects> objects_;     ///< empty if there are no passes
  std::vector<std::size_t> place_of_set_;  ///< of each set of the program, in BindingsState::sets
  std::uint32_t push_constant_bytes_ = 0;  ///< the most of a layout
  ProgramTensor workspace_;                ///< what check() asks of it
  std::vector<std::string> labels_;        ///< of the passes, for captures
  // The thread that set compiling_ makes these once, in compile().
  mutable std::mutex compile_mutex_;
  mutable std::shared_ptr<Attempt<void>> compiling_;  ///< guarded by the mutex; null: nobody does
  mutable std::atomic<bool> compiled_ = false;
  mutable std::vector<std::shared_ptr<const Pipeline>> pipelines_;
  mutable std::vector<std::size_t> pipeline_of_pass_;
};

}  // namespace vkattn::detail
