// Self-tests of gradients.
#include <algorithm>
#include <array>
#include <iterator>
#include <optional>

#include "backward/backward_kernel.hpp"
#include "backward/gradient_table.hpp"
#include "reference/gradients.hpp"
#include "self_test/small_numbers.hpp"
#include "self_test/small_problem.hpp"
#include "self_test/small_test.hpp"

namespace vkattn::detail {

namespace {

constexpr std::uint64_t kGradOutputSeed = 101;

static_assert(std::size(reference::kGradientMembers) + 2 == kGradientCount,
              "the reference has each gradient but those of the output and the lse, which are given");

// The results of a forward pass without errors, for batch 1 and BHSD.
void add_forward_results(const AttentionDesc& desc, TestBytes& tensors) {
  const auto bytes = [&](const TensorRow& row) -> auto& {
    return tensors[tensor_index(row.range)];
  };
  const reference::Inputs inputs{host_tensors(bytes)};
  std::vector<std::byte> output, lse;
  for (std::int64_t head = 0; head < desc.query_heads; ++head) {
    for (std::int64_t query = 0; query < desc.query_length; ++query) {
      const reference::Row row = reference::compute_row(desc, inputs, {0, head, query});
      append(lse, static_cast<float>(row.lse), DataType::kFloat32);
      for (const double number : row.output) append(output, static_cast<float>(number), desc.output.type);
    }
  }
  tensors[tensor_index(&AttentionTensors::output)] = std::move(output);
  tensors[tensor_index(&AttentionTensors::lse)] = std::move(lse);
}

std::string first_difference_of(const GradientRow& row, const BackwardDesc& desc,
                                const reference::Gradient& expected, std::span<const std::byte> bytes) {
  const TensorDesc storage = row.storage(desc);
  const Strides& strides = *storage.strides;
  const TensorExtents e = row.extents(desc);
  for (std::int64_t head = 0; head < e.heads; ++head) {
    for (std::int64_t at = 0; at < e.rows; ++at) {
      for (std::int64_t dim = 0; dim < e.dims; ++dim) {
        const auto place =
            static_cast<std::size_t>(head * strides.head + at * strides.row + dim * strides.dim);
        const std::size_t index = expected.index(0, head, at, dim);
        std::string wrong =
            difference(static_cast<double>(element(bytes, place, storage.type)), expected.values[index],
                       reference::gradient_tolerance(expected, index, storage.type), row.name, ", head ",
                       head, ", row ", at, ", dim ", dim);
        if (!wrong.empty()) return wrong;
      }
    }
  }
  return {};
}

class BackwardTest final : public SmallTestOf<BackwardPlan> {
 public:
  using SmallTestOf::SmallTestOf;

  // The forward pass's tensors, then the gradients.
  [[nodiscard]] TestBytes tensors() const override {
    const BackwardDesc& desc = plan().desc();
    PerTensor<std::vector<std::byte>> forward = small_tensors(desc.attention);
    TestBytes bytes;
    for (const TensorRow& row : tensor_table()) bytes.push_back(std::move(forward[row.range]));
    add_forward_results(desc.attention, bytes);
    for (const GradientRow& row : tensor_table<BackwardTensors>()) {
      const auto size = static_cast<std::int64_t>(row.bytes(desc));
      const DataType type = row.storage(desc).type;
      bytes.push_back(row.use.written ? unwritten(size)
                                      : random_tensor(size / element_bytes(type), type, kGradOutputSeed));
    }
    return bytes;
  }

  [[nodiscard]] Result<Bindings> make_bindings(std::span<const BufferRange> tensors,
                                               const BufferRange& workspace) const override {
    auto bound = tensors_at<BackwardTensors>(tensors.subspan<kTensorCount, kGradientCount>());
    bound.forward = tensors_at<AttentionTensors>(tensors.first<kTensorCount>());
    return plan().make_bindings(bound, workspace);
  }

  [[nodiscard]] std::string first_difference(TestBytes& tensors) const override {
    const BackwardDesc& desc = plan().desc();
    const auto place = [](BufferRange BackwardTensors::*range) { return kTensorCount + tensor_index(range); };
    reference::BackwardInputs inputs;
    inputs.forward = reference::Inputs{
        host_tensors([&](const TensorRow& row) -> auto& { return tensors[tensor_index(row.range)]; })};
    inputs.grad_output = HostInput(tensors[place(&BackwardTensors::grad_output)]);
    inputs.grad_output_desc = *desc.grad_output;
    inputs.grad_lse = HostInput(tensors[place(&BackwardTensors::grad_lse)]);
    inputs.grad_mask = *desc.grad_mask->strides;
    inputs.factor_type = plan().probability_type();
    inputs.least_largest_weight = least_largest_weight(plan().kernel_name());
    const reference::Gradients gradients = reference::compute_gradients(desc.attention, inputs);
    for (const GradientRow& row : tensor_table<BackwardTensors>()) {
      if (!row.use.written || !row.is_used(desc)) continue;
      std::string wrong = first_difference_of(row, desc, gradients.of(row.range), tensors[place(row.range)]);
      if (!wrong.empty()) return wrong;
    }
    return {};
  }
};

}  // namespace

BackwardDesc small_backward(const BackwardDesc& desc) {
  BackwardDesc small = desc;
  small.attention = small_problem(desc.attention);
  small.has_grad_alibi_slopes = false;
  if (!any_gradient(small)) small.has_grad_query = true;
  for (std::optional<TensorDesc>* const gradient :
       {&small.grad_output, &small.grad_query, &small.grad_key, &small.grad_value, &small.grad_mask}) {
    if (!*gradient) continue;
    (*gradient)->strides.reset();
    (*gradient)->alignment_bytes = std::min((*gradient)->alignment_bytes, kSmallAlignment);
  }
  return small.resolved();
}

Result<BackwardPlan> small_plan(const Device& device, const BackwardPlan& plan,
                                VkPipelineCache pipeline_cache) {
  PlanOptions options;
  options.kernel = plan.kernel_name();
  options.pipeline_cache = pipeline_cache;
  // Other block sizes follow from types and dims, which are the same. Kept gradients are in two chunks of
  // kKvLength keys.
  if (plan.tile() != TileSizes{}) options.tile = plan.tile();
  if (plan.keeps_gradients()) options.chunk_keys = kChunkStep;
  return BackwardPlan::create(device, small_backward(plan.desc()), options);
}

std::unique_ptr<SmallTest> small_test(BackwardPlan plan) {
  return std::make_unique<BackwardTest>(std::move(plan));
}

}  // namespace vkattn::detail
