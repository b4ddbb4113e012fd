// See any_backward.hpp.
#include "gpu/any_backward.hpp"

#include <algorithm>
#include <cstdint>
#include <cstdio>

#include "support/main.hpp"
#include "support/text.hpp"

namespace vkattn::tests {

using harness::BackwardRun;

void expect_right_gradients(const BackwardRun& run, const std::string& plan) {
  static std::int64_t gradients = 0, elements = 0, comparisons = 0;
  static double largest_share = 0;
  const auto check = must(run.check());
  EXPECT_TRUE(check.passed()) << check.to_string() << "\n" << plan;
  gradients += std::ranges::count_if(
      detail::tensor_table<BackwardTensors>(),
      [&](const detail::GradientRow& row) { return row.use.written && row.is_used(run.desc()); });
  elements += check.elements_checked;
  largest_share = std::max(largest_share, check.largest_share);
  char share[16];
  std::snprintf(share, sizeof share, "%.2f", largest_share);
  closing_line() = std::to_string(gradients) + " gradients of " + std::to_string(++comparisons) +
                   " problems compared, " + std::to_string(elements) + " elements, at most " + share +
                   " of the tolerance";
}

std::string AnyBackwardTest::reason_to_skip() const {
  return on_matrices() ? reason_against(with_gradients(desc_of("8x8 d8 f16"))) : "";
}

std::string AnyBackwardTest::reason_against(const BackwardDesc& desc) {
  std::string reason = tests::reason_against(capabilities(), kernel(), desc);
  if (!reason.empty() || !is_staged()) return reason;
  PlanOptions how = options();
  how.deferred_compilation = true;
  const auto plan = BackwardPlan::create(runtime().device(), desc, how);
  return plan ? "" : plan.error().message;
}

BackwardDesc AnyBackwardTest::with_gradients(const AttentionDesc& attention) {
  BackwardDesc desc = harness::with_all_gradients(attention);
  desc.has_grad_lse = attention.has_lse;
  if (on_matrices())
    desc.grad_output = TensorDesc{attention.query.type, {}, attention.output.alignment_bytes};
  if (kernel() != "matrix2") return desc;
  desc.has_grad_mask = false;
  desc.has_grad_alibi_slopes = false;
  return desc;
}

Problem AnyBackwardTest::parsed(std::string_view text) {
  const bool has_type =
      text.find(" f16") != text.npos || text.find("query=") != text.npos || text.find("bf16") != text.npos;
  return tests::parsed(std::string(text) + (on_matrices() && !has_type ? " f16" : ""));
}

PlanOptions AnyBackwardTest::options(std::uint32_t chunk_keys) {
  PlanOptions options{.kernel = kernel(), .chunk_keys = chunk_keys};
  if (is_staged()) options.tile = TileSizes{.subgroups = 2, .rows = 16, .keys = 16};
  return options;
}

std::vector<std::uint32_t> AnyBackwardTest::chunk_sizes(std::uint32_t chunk_keys) {
  if (std::string_view(GetParam()) != "matrix2" || chunk_keys == 0) return {chunk_keys};
  return {chunk_keys, 0};
}

void AnyBackwardTest::expect_gradients(const Problem& problem, const BackwardDesc& desc,
                                       const PlanOptions& how, const Device& device) {
  SCOPED_TRACE(to_string(problem));
  const UnrolledLoops unrolled(are_long(LoopsOf::kGradients, desc.attention));
  auto run = must(BackwardRun::create(runtime(), problem, desc));
  PlanOptions with_cache = how;
  with_cache.pipeline_cache = runtime().pipeline_cache();
  for (const std::uint32_t chunk_keys : chunk_sizes(how.chunk_keys)) {
    with_cache.chunk_keys = chunk_keys;
    const auto plan = must(BackwardPlan::create(device, desc, with_cache));
    must(run.execute(plan));
    expect_right_gradients(run, plan.describe());
  }
}

void AnyBackwardTest::expect_gradients(std::string_view text, std::uint32_t chunk_keys) {
  const Problem problem = parsed(text);
  const BackwardDesc desc = with_gradients(problem.desc);
  if (is_beyond_matrices(desc)) return;
  expect_gradients(problem, desc, options(chunk_keys));
}

bool AnyBackwardTest::is_beyond_matrices(const std::string& reason) {
  return on_matrices() && (has(reason, "bytes of shared memory") || has(reason, "heads of up to") ||
                           has(reason, "tensor addressing needs rows"));
}

}  // namespace vkattn::tests
