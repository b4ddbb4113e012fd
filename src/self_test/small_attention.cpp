// Self-tests of attention.
#include "kernels/split.hpp"
#include "self_test/small_problem.hpp"
#include "self_test/small_test.hpp"

namespace vkattn::detail {

namespace {

class AttentionTest final : public SmallTestOf<AttentionPlan> {
 public:
  using SmallTestOf::SmallTestOf;

  [[nodiscard]] TestBytes tensors() const override {
    PerTensor<std::vector<std::byte>> all = small_tensors(plan().desc());
    TestBytes bytes;
    for (const TensorRow& row : tensor_table()) bytes.push_back(std::move(all[row.range]));
    return bytes;
  }
  [[nodiscard]] Result<Bindings> make_bindings(std::span<const BufferRange> tensors,
                                               const BufferRange& workspace) const override {
    return plan().make_bindings(tensors_at<AttentionTensors>(tensors.first<kTensorCount>()), workspace);
  }
  [[nodiscard]] std::string first_difference(TestBytes& tensors) const override {
    const HostTensors host =
        host_tensors([&](const TensorRow& row) -> auto& { return tensors[tensor_index(row.range)]; });
    return detail::first_difference(plan().desc(), host, plan().probability_type(), plan().arithmetic_type());
  }
};

}  // namespace

Result<AttentionPlan> small_plan(const Device& device, const AttentionPlan& plan,
                                 VkPipelineCache pipeline_cache, TestPurpose purpose) {
  PlanOptions options;
  options.kernel = plan.kernel_name();
  options.tile = plan.tile();
  options.pipeline_cache = pipeline_cache;
  options.kv_splits = plan.kernel_name() == "lane_decode" ? 0 : 1;  // which reads no vectors with 1
  options.arithmetic_type = plan.arithmetic_type();
  // The specialization of decode depends on the number of rows, which is small.
  const TestRows rows = plan.kernel_name() == "decode" ? TestRows::kOfProblem : TestRows::kMany;
  const AttentionDesc desc = purpose == TestPurpose::kTime
                                 ? timed_problem(plan.desc(), compute_units(device.capabilities()), rows)
                                 : small_problem(plan.desc(), rows);
  return AttentionPlan::create(device, desc, options);
}

std::unique_ptr<SmallTest> small_test(AttentionPlan plan) {
  return std::make_unique<AttentionTest>(std::move(plan));
}

}  // namespace vkattn::detail
