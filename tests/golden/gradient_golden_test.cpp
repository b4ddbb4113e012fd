// Compares gradients that PyTorch computed in float64 (make_gradient_golden.py) with the reference and the
// kernels of the backward pass.
#include <vkattn/backward.hpp>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "backward/gradient_table.hpp"
#include "common/message.hpp"
#include "conformance/case_test.hpp"
#include "harness/share.hpp"
#include "problem/gradients.hpp"
#include "reference/gradients.hpp"
#include "support/cache_reference.hpp"

namespace vkattn::tests {
namespace {

using detail::GradientRow;
using Bytes = std::vector<std::byte>;

const CaseFolder& gradient_folder() {
  static const CaseFolder folder(VKATTN_GOLDEN_DIR "/gradients");
  return folder;
}

/// The case without what the operator does not have.
Case forward_of(const Case& test_case) {
  Case forward = test_case;
  const auto is_gradient = [](const CaseTensor& tensor) { return tensor.role.starts_with("grad_"); };
  std::erase_if(forward.inputs, is_gradient);
  std::erase_if(forward.outputs, is_gradient);
  return forward;
}

/// The numbers of a result in the order of its elements, in their storage type.
Bytes stored(const CaseTensor& tensor, DataType type) {
  const std::size_t size = element_bytes(type);
  Bytes bytes(tensor.elements() * size);
  for (std::size_t i = 0; i < tensor.elements(); ++i) {
    const std::uint32_t bits = encoded(type, static_cast<float>(tensor.number(i)));
    std::memcpy(bytes.data() + i * size, &bits, size);
  }
  return bytes;
}

/// A gradient: its tensor, the role of the case's result, and the reference's member.
struct NamedGradient {
  BufferRange BackwardTensors::*range;
  const char* role;
  reference::Gradient reference::Gradients::*member;
};
using B = BackwardTensors;
using R = reference::Gradients;
constexpr NamedGradient kGradients[] = {{&B::grad_query, "grad_Q", &R::query},
                                        {&B::grad_key, "grad_K", &R::key},
                                        {&B::grad_value, "grad_V", &R::value},
                                        {&B::grad_mask, "grad_attn_mask", &R::mask},
                                        {&B::grad_alibi_slopes, "grad_alibi_slopes", &R::alibi_slopes},
                                        {&B::grad_sinks, "grad_sinks", &R::sinks}};

class GradientGolden : public GpuTest, public testing::WithParamInterface<Case> {
 protected:
  GradientGolden() : problem_(as_problem(forward_of(GetParam()))) {
    desc_ = bench::with_all_gradients(problem_.desc).resolved();
    inputs_.forward = reference::Inputs{detail::host_tensors(
        [&](const detail::TensorRow& row) -> const Bytes& { return problem_.host[row.range]; })};
    inputs_.grad_output = HostInput(GetParam().input("grad_Y")->bytes);
    inputs_.grad_output_desc = *desc_.grad_output;
    inputs_.grad_mask = *desc_.grad_mask->strides;
  }

  [[nodiscard]] const BackwardDesc& desc() const { return desc_; }

  /// Two implementations of the same arithmetic in float64. The tolerance of float32 is scaled down to the
  /// roundoff of float64.
  void compare_reference() const {
    const R gradients = reference::compute_gradients(desc_.attention, inputs_);
    for (const NamedGradient& each : kGradients) {
      const CaseTensor* const expected = GetParam().output(each.role);
      if (expected == nullptr) continue;
      const reference::Gradient& got = gradients.*each.member;
      ASSERT_EQ(got.values.size(), expected->elements()) << each.role;
      for (std::size_t i = 0; i < got.values.size(); ++i) {
        const double tolerance = 0x1p-20 * reference::gradient_tolerance(got, i, DataType::kFloat32);
        ASSERT_NEAR(got.values[i], expected->number(i), tolerance) << "element " << i << " of " << each.role;
      }
    }
  }

  void compare_kernel(const std::string& kernel) {
    const auto plan = must(runtime().make_plan(desc_, {.kernel = kernel}));
    std::vector<std::pair<const NamedGradient*, Bytes>> results;
    const BackwardTensors tensors = upload(results);
    const auto workspace = must(runtime().create_workspace(plan));
    const auto bindings = must(plan.make_bindings(tensors, workspace.range()));
    ASSERT_TRUE(runtime().execute([&](VkCommandBuffer commands) { plan.record(commands, bindings); }).ok());
    inputs_.factor_type = plan.probability_type();
    const R tolerances = reference::compute_gradients(desc_.attention, inputs_);
    for (std::size_t n = 0; n < results.size(); ++n) {
      auto& [gradient, bytes] = results[n];
      ASSERT_TRUE(runtime().read(buffers_[n], 0, bytes).ok());
      compare_bytes(*gradient, bytes, tolerances.*gradient->member);
    }
  }

 private:
  /// Uploads the forward results of PyTorch, and poisoned gradients, which come first among the buffers.
  [[nodiscard]] BackwardTensors upload(std::vector<std::pair<const NamedGradient*, Bytes>>& results) {
    buffers_.clear();
    BackwardTensors tensors;
    for (const NamedGradient& each : kGradients) {
      const GradientRow& row = detail::row_of(each.range);
      if (!row.is_used(desc_)) continue;
      results.emplace_back(&each, Bytes(static_cast<std::size_t>(row.bytes(desc_)), std::byte{0xff}));
      tensors.*each.range = place(results.back().second);
    }
    tensors.grad_output = place(GetParam().input("grad_Y")->bytes);
    for (const detail::TensorRow& row : detail::tensor_table()) {
      if (row.is_used(desc_.attention) && !row.use.written)
        tensors.forward.*row.range = place(problem_.host[row.range]);
    }
    tensors.forward.output = place(stored(*GetParam().output("Y"), desc_.attention.output.type));
    tensors.forward.lse = place(stored(*GetParam().output("lse"), DataType::kFloat32));
    return tensors;
  }
  [[nodiscard]] BufferRange place(Bytes content) {
    content.resize((content.size() + 15) / 16 * 16, std::byte{0xff});  // kernels may read whole words
    buffers_.push_back(runtime().create_buffer(content.size()).value());
    EXPECT_TRUE(runtime().write(buffers_.back(), 0, content).ok());
    return buffers_.back().range();
  }
  void compare_bytes(const NamedGradient& gradient, const Bytes& bytes,
                     const reference::Gradient& tolerances) const {
    const CaseTensor& expected = *GetParam().output(gradient.role);
    const DataType type = detail::row_of(gradient.range).storage(desc_).type;
    const std::size_t size = element_bytes(type);
    ASSERT_EQ(bytes.size(), expected.elements() * size) << gradient.role;
    double worst = 0;
    for (std::size_t i = 0; i < expected.elements(); ++i) {
      const double got = harness::loaded(bytes.data() + i * size, type);
      const double tolerance = reference::gradient_tolerance(tolerances, i, type);
      worst = std::max(worst, harness::share_of(expected.number(i), got, tolerance, type));
    }
    EXPECT_LE(worst, 1) << gradient.role;
  }

  OperatorProblem problem_;
  BackwardDesc desc_;
  reference::BackwardInputs inputs_;
  std::vector<Buffer> buffers_;
};

/// Runs each case on one of the kernels that take it, the next case on the next kernel. Tests against the
/// reference cover the features of all kernels.
TEST_P(GradientGolden, PyTorch) {
  compare_reference();
  std::vector<std::string> kernels;
  for (const KernelSupport& support : kernel_support(desc(), capabilities())) {
    if (support.reason.empty()) kernels.emplace_back(support.kernel);
  }
  ASSERT_GE(kernels.size(), 2U) << "lane and tile take everything";
  const std::vector<Case>& all = gradient_folder().cases;
  const auto number =
      std::ranges::find(all, GetParam().name, [](const Case& each) { return each.name; }) - all.begin();
  const std::string& kernel = kernels[static_cast<std::size_t>(number) % kernels.size()];
  SCOPED_TRACE("kernel " + kernel);
  compare_kernel(kernel);
}

INSTANTIATE_TEST_SUITE_P(Cases, GradientGolden, testing::ValuesIn(part_of<Case>(gradient_folder().cases)),
                         case_test_name);

TEST(GradientGoldenFolder, HasCases) {
  EXPECT_EQ(gradient_folder().error, "");
}

}  // namespace
}  // namespace vkattn::tests
