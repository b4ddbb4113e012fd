// The ONNX operator Attention (opsets 23 and 24) as problems of the library, and the additions of the golden
// results.
//
// Inputs:
//   Q, K, V               have (batch, heads, length, dim) or (batch, length, heads x dim).
//   attn_mask             has up to four dimensions, each of the problem's size or 1. A bool mask shows a key
//                         with true. Any other mask is added. A mask with fewer keys hides the others.
//   past_key, past_value  have (batch, heads, length, dim) and come before K and V. They are rows of a
//                         cache, to which the device appends K and V (AppendPlan).
//   nonpad_kv_seqlen      is the number of keys of each batch entry.
//
// Attributes: q_num_heads and kv_num_heads (with three dimensions), scale, softcap, is_causal and
// qk_matmul_output_mode (WeightsStage from kScores on).
//
// Outputs: Y, present_key and present_value (the contents of the cache afterwards), qk_matmul_output.
//
// The golden results add the inputs alibi_slopes and sinks, the output lse, and the attributes bottom_right,
// window_left, window_right and standard_alibi.
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
  std::vector<std::byte> added;   ///< the appended rows, as the case has them
};

/// The descriptor of a case, and the contents of its inputs in the memory that the descriptor describes. Keys
/// and values in a cache are those at the end, with NaN in rows that nothing was written to.
struct OperatorProblem {
  AttentionDesc desc;
  detail::PerTensor<std::vector<std::byte>> host;
  std::optional<AppendDesc> append;  ///< how the device writes the cache; its positions start after the past
  detail::PerTensor<OperatorCache> caches;
};

/// Throws if the case has an input, output or attribute that is not in the list above.
[[nodiscard]] OperatorProblem as_problem(const Case& test_case);

/// The results of one run, with the operator's names. Elements are in the order of the case's own outputs.
struct OperatorResults {
  std::vector<CaseTensor> outputs;
  DataType probability_type = DataType::kFloat32;  ///< AttentionPlan::probability_type()

  [[nodiscard]] const CaseTensor* output(std::string_view role) const { return find(outputs, role); }
};

/// Runs the problem on a kernel, with outputs filled with NaN. If the kernel refuses the problem, the test
/// ends.
[[nodiscard]] OperatorResults run_on_kernel(const Runtime& runtime, const OperatorProblem& problem,
                                            const std::string& kernel);

/// Every row of the problem by the float64 reference. The row of (batch, head, query) has the number (batch *
/// query_heads + head) * query_length + query.
[[nodiscard]] std::vector<reference::Row> reference_rows(const OperatorProblem& problem);

/// The place in Y of the elements of a row.
struct OutputRow {
  std::size_t first = 0;
  std::size_t stride = 1;
};
[[nodiscard]] OutputRow output_row(const AttentionDesc& desc, std::size_t row);

/// The reference's results in the form of a kernel's results.
[[nodiscard]] OperatorResults reference_results(const OperatorProblem& problem,
                                                const std::vector<reference::Row>& rows);

}  // namespace vkattn::tests
