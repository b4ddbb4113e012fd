// The ONNX operator Attention (opsets 23 and 24) in terms of the library, and what the golden results have
// beyond it.
//
//   inputs      Q, K, V         (batch, heads, length, dim) or (batch, length, heads x dim)
//               attn_mask       up to four dimensions, each of the problem's size or 1; bool: true may be
//               seen;
//                               else added. One with fewer keys than the problem hides the others.
//               past_key, past_value    (batch, heads, length, dim), before K and V: rows of a cache, to
//               which
//                                       the device appends K and V (AppendPlan)
//               nonpad_kv_seqlen        keys of each batch entry
//   attributes  q_num_heads and kv_num_heads (with three dimensions), scale, softcap, is_causal,
//               qk_matmul_output_mode (WeightsStage from kScores on)
//   outputs     Y, present_key and present_value (what the cache then holds), qk_matmul_output
//   golden      inputs alibi_slopes and sinks; output lse; attributes bottom_right, window_left, window_right
//               and standard_alibi
#pragma once

#include <vkattn/cache.hpp>
#include <vkattn/runtime.hpp>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "attention/tensor_table.hpp"
#include "conformance/case_file.hpp"
#include "reference/reference.hpp"

namespace vkattn::tests {

/// K or V of a case with a past or a present, which lie in a cache.
struct OperatorCache {
  std::vector<std::byte> before;  ///< the past in its rows, NaN in all others
  std::vector<std::byte> added;   ///< what is appended, as the case has it
};

/// The descriptor of a case and what its inputs hold, in the memory that the descriptor describes. Keys and
/// values in a cache are what it must hold in the end, with NaN where nothing was written.
struct OperatorProblem {
  AttentionDesc desc;
  detail::PerTensor<std::vector<std::byte>> host;
  std::optional<AppendDesc> append;  ///< how the device writes the cache; its positions begin behind the past
  detail::PerTensor<OperatorCache> caches;
};

/// Throws where the case has an input, output or attribute that is not in the list above.
[[nodiscard]] OperatorProblem as_problem(const Case& test_case);

/// What one run gave, under the operator's names. Elements are in the order of the case's own outputs.
struct OperatorResults {
  std::vector<CaseTensor> outputs;
  DataType probability_type = DataType::kFloat32;  ///< AttentionPlan::probability_type()

  [[nodiscard]] const CaseTensor* output(std::string_view role) const { return find(outputs, role); }
};

/// Runs the problem on a kernel, on outputs filled with NaN. A test that is refused it ends.
[[nodiscard]] OperatorResults run_on_kernel(const Runtime& runtime, const OperatorProblem& problem,
                                            const std::string& kernel);

/// Every row of the problem by the float64 reference: that of (batch, head, query) is number
/// (batch * query_heads + head) * query_length + query.
[[nodiscard]] std::vector<reference::Row> reference_rows(const OperatorProblem& problem);

/// Where the elements of a row of that number lie in Y.
struct OutputRow {
  std::size_t first = 0;
  std::size_t stride = 1;
};
[[nodiscard]] OutputRow output_row(const AttentionDesc& desc, std::size_t row);

/// The reference's results as those of a kernel.
[[nodiscard]] OperatorResults reference_results(const OperatorProblem& problem,
                                                const std::vector<reference::Row>& rows);

}  // namespace vkattn::tests
