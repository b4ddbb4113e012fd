// The plan of a merge.
#include <array>
#include <utility>

#include "common/checked.hpp"
#include "common/message.hpp"
#include "merge/merge_program.hpp"
#include "program/plan_log.hpp"

namespace vkattn {

namespace detail {

struct MergeState {
  MergeDesc desc;
  std::shared_ptr<const Program> program;
};

namespace {

/// The ranges of a call in the order of the program's tensors. It refers to itself.
struct MergeCall {
  std::array<BufferRange, kMergeTensorCount> ranges;

  explicit MergeCall(const MergeTensors& tensors) noexcept {
    const auto table = merge_tensor_table();
    for (std::size_t i = 0; i < table.size(); ++i) ranges[i] = tensors.*table[i].range;
  }
  [[nodiscard]] ProgramCall call() const noexcept { return {ranges, {}, {}, 0}; }
};

bool is_float(DataType type) {
  return type == DataType::kFloat32 || type == DataType::kFloat16 || type == DataType::kBfloat16;
}

Result<Shared<const MergeState>> make_plan(const Device& device, const MergeDesc& desc,
                                           const MergeOptions& options) {
  if (Result<void> s = validate(desc); !s) return s.error();
  auto passes = merge_program(desc, device.capabilities());
  if (!passes) return passes.error();
  auto program = Program::create(
      device.share(), *std::move(passes),
      {options.pipeline_cache, options.push_descriptors, false, options.deferred_compilation});
  if (!program) return program.error();
  return Shared<const MergeState>::make(MergeState{desc, *std::move(program)});
}

}  // namespace

}  // namespace detail

Result<void> validate(const MergeDesc& desc) {
  const auto fail = [](auto&&... parts) {
    return Error{ErrorCode::kInvalidArgument, VK_SUCCESS, detail::message(parts...)};
  };
  return detail::without_exceptions([&]() -> Result<void> {
    if (desc.rows < 0 || desc.value_dim < 0) {
      return fail("MergeDesc::rows is ", desc.rows, " and value_dim is ", desc.value_dim,
                  "; neither can be negative");
    }
    if (desc.parts < 1) return fail("MergeDesc::parts is ", desc.parts, "; there must be one at least");
    if (!detail::is_float(desc.part_type) || !detail::is_float(desc.output_type)) {
      return fail("MergeDesc::part_type is ", name(desc.part_type), " and output_type is ",
                  name(desc.output_type), "; parts are merged as float32, float16 or bfloat16");
    }
    const std::int64_t elements = detail::saturating_multiply(desc.rows, desc.value_dim);
    if (element_bytes(desc.output_type) == 2 && elements % 2 != 0) {
      return fail("the merged output has ", elements,
                  " elements of 16 bits, which are written in pairs: take float32 or an even value_dim");
    }
    constexpr std::int64_t kMost = std::int64_t{1} << 40;
    if (elements > kMost || detail::saturating_multiply(elements, desc.parts) > kMost ||
        detail::saturating_multiply(desc.rows, desc.parts) > kMost) {
      return fail("MergeDesc has ", desc.parts, " parts of ", desc.rows, " rows of ", desc.value_dim,
                  " elements, more than any buffer has");
    }
    return {};
  });
}

Result<MergePlan> MergePlan::create(const Device& device, const MergeDesc& desc,
                                    const MergeOptions& options) {
  return detail::without_exceptions([&]() -> Result<MergePlan> {
    auto state = detail::make_plan(device, desc, options);
    if (!state) return state.error();
    const MergePlan plan(*std::move(state));
    detail::log_plan(device.state(), plan);
    return plan;
  });
}

Result<void> MergePlan::compile() const {
  return detail::without_exceptions([&]() -> Result<void> { return state_->program->compile(); });
}

bool MergePlan::is_compiled() const noexcept {
  return state_->program->is_compiled();
}

const MergeDesc& MergePlan::desc() const {
  return state_->desc;
}

std::vector<DispatchInfo> MergePlan::dispatches() const {
  return state_->program->dispatches();
}

PlanRequirements MergePlan::requirements() const {
  return state_->program->requirements();
}

VkDeviceSize MergePlan::range_bytes(BufferRange MergeTensors::*tensor, VkDeviceSize offset) const {
  const auto table = detail::merge_tensor_table();
  for (std::size_t i = 0; i < table.size(); ++i) {
    if (table[i].range == tensor)
      return detail::Program::range_bytes(state_->program->desc().tensors[i], offset);
  }
  return 0;
}

std::string MergePlan::describe() const {
  const MergeDesc& desc = state_->desc;
  return detail::message("merge: ", desc.parts, " parts of ", desc.rows, " rows, value_dim ", desc.value_dim,
                         ", ", name(desc.part_type), " to ", name(desc.output_type),
                         desc.has_lse ? " with lse" : "", "\n");
}

Result<Bindings> MergePlan::make_bindings(const MergeTensors& tensors, VkDescriptorPool pool) const {
  return detail::without_exceptions([&]() -> Result<Bindings> {
    auto bindings = state_->program->bind(detail::MergeCall(tensors).call(), pool);
    if (!bindings) return bindings.error();
    return Bindings(*std::move(bindings));
  });
}

Result<void> MergePlan::rewrite(Bindings& bindings, const MergeTensors& tensors) const {
  return detail::without_exceptions([&]() -> Result<void> {
    return state_->program->rewrite(bindings.state(), detail::MergeCall(tensors).call());
  });
}

bool MergePlan::has_made(const Bindings& bindings) const noexcept {
  return bindings.state().program == state_->program;
}

void MergePlan::record(VkCommandBuffer commands, const Bindings& bindings,
                       const RecordOptions& options) const noexcept {
  state_->program->record(commands, bindings.state(), options);
}

Result<void> MergePlan::record(VkCommandBuffer commands, const MergeTensors& tensors,
                               const RecordOptions& options) const {
  return detail::without_exceptions([&]() -> Result<void> {
    return state_->program->record(commands, detail::MergeCall(tensors).call(), options);
  });
}

}  // namespace vkattn
