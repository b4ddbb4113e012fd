// The buffers of a problem: the places of tensors in them, the data that fill them, and one execution.
#include "harness/problem_run.hpp"

#include <algorithm>
#include <span>
#include <string_view>
#include <utility>

#include "common/checked.hpp"
#include "harness/append_problem.hpp"
#include "harness/fill.hpp"
#include "harness/score_problem.hpp"
#include "harness/tensor_memory.hpp"

namespace vkattn::harness {
namespace {

/// Refuses a tensor whose elements overlap: it cannot be filled element by element.
Result<void> check_nested(std::string_view name, const TensorShape& shape) {
  if (AddressOrder(shape).is_nested()) return {};
  return Error{ErrorCode::kUnsupported,
               {},
               "the elements of " + std::string(name) +
                   " overlap by its strides, so that random data cannot be laid into it"};
}

/// Checks that a list of lengths has one length for each batch entry.
Result<void> check_counts(const Problem& problem) {
  const AttentionDesc& desc = problem.desc;
  const bool of_keys = desc.kv_lengths != Lengths::kUniform;
  const bool of_queries = desc.query_lengths != Lengths::kUniform;
  const auto check = [&](bool wanted, std::size_t count, const char* what) -> Result<void> {
    if (!wanted || std::cmp_equal(count, desc.batch)) return {};
    return Error{ErrorCode::kInvalidArgument,
                 {},
                 "the problem has " + std::to_string(count) + " " + what + " lengths but batch is " +
                     std::to_string(desc.batch)};
  };
  if (Result<void> s = check(of_keys, problem.kv_lengths.size(), "key"); !s.ok()) return s;
  return check(of_queries, problem.query_lengths.size(), "query");
}

/// A page that no entry of the table names.
std::uint32_t spare_page(const AttentionDesc& desc, const SmallInputs& inputs) {
  std::vector<bool> used(static_cast<std::size_t>(desc.cache.page_count), false);
  for (const std::int32_t page : inputs.page_table) used[static_cast<std::size_t>(page)] = true;
  const auto spare = std::find(used.begin(), used.end(), false);
  return spare == used.end() ? 0 : static_cast<std::uint32_t>(spare - used.begin());
}

}  // namespace

Result<ProblemRun> ProblemRun::create(const Runtime& runtime, const Problem& problem) {
  const AttentionDesc& desc = problem.desc;
  if (Result<void> s = validate(desc); !s.ok()) return s.error();
  if (Result<void> s = check_counts(problem); !s.ok()) return s.error();
  for (const detail::TensorRow& row : detail::tensor_table()) {
    if (row.use.written || !row.is_used(desc)) continue;
    if (Result<void> s = check_nested(row.name, tensor_shape(row.range, desc)); !s.ok()) return s.error();
  }
  ProblemRun run(runtime, problem);
  if (Result<void> s = place_used(runtime, desc, problem.shift, run.tensors_); !s.ok()) return s.error();
  if (Result<void> s = run.place_score_function(); !s.ok()) return s.error();
  return run;
}

/// Each table's binding ends with its last element, because the shader clamps indices to the bound range.
Result<void> ProblemRun::place_score_function() {
  ProblemScore score = make_score(problem_);
  for (std::size_t i = 0; i < score.tables.size(); ++i) {
    const auto bytes = std::as_bytes(std::span(score.tables[i]));
    Tensor& table = score_tables_.emplace_back();
    if (Result<void> s = place(*runtime_, static_cast<std::int64_t>(bytes.size()), 0, table); !s.ok())
      return s;
    const auto fill = [&](const PutElement& put) { put(0, bytes); };
    if (Result<void> s = fill_with(*runtime_, table, input_filler(DataType::kFloat32), fill); !s.ok())
      return s;
    score_buffers_[i] = {table.buffer.handle(), table.offset, table.bytes};
  }
  score_hook_ = std::move(score.hook);
  return {};
}

Result<void> ProblemRun::fill_inputs() {
  const AttentionDesc& desc = problem_.desc;
  const SmallInputs small = make_small_inputs(problem_);
  const std::pair<TensorRole, const Tensor*> tensors[] = {
      {TensorRole::kQuery, &query()}, {TensorRole::kKey, &key()}, {TensorRole::kValue, &value()}};
  for (const auto& [role, tensor] : tensors) {
    const TensorDesc& storage = role == TensorRole::kQuery ? desc.query
                                : role == TensorRole::kKey ? desc.key
                                                           : desc.value;
    const auto fill = [&, role = role](const PutElement& put) { fill_tensor(problem_, role, small, put); };
    if (Result<void> s = fill_with(*runtime_, *tensor, input_filler(storage.type), fill); !s.ok()) return s;
  }
  const auto fill = [&](const PutElement& put) { fill_mask(problem_, put); };
  if (Result<void> s =
          fill_with(*runtime_, tensor(&AttentionTensors::mask), mask_filler(desc.mask.type), fill);
      !s.ok())
    return s;
  if (Result<void> s = fill_small_inputs(small); !s.ok() || problem_.appended == 0) return s;
  return append_keys(*runtime_, problem_, small, tensors_);
}

Result<void> ProblemRun::fill_small_inputs(const SmallInputs& inputs) {
  // The numbers around lengths would show every key, rows of NaN too. The numbers around page numbers name a
  // page that holds only NaN, if there is one.
  const Pattern longest = pattern_of(0x7fffffffU);
  const Pattern spare = pattern_of(spare_page(problem_.desc, inputs));
  const Pattern nan = input_filler(DataType::kFloat32);
  using Tensors = AttentionTensors;
  struct Small {
    BufferRange Tensors::*tensor;
    std::span<const std::byte> numbers;
    Pattern around;
  };
  const auto bytes = [](const auto& numbers) { return std::as_bytes(std::span(numbers)); };
  const Small all[] = {
      {&Tensors::kv_lengths, bytes(inputs.kv_lengths), longest},
      {&Tensors::query_lengths, bytes(inputs.query_lengths), longest},
      {&Tensors::cumulative_query_lengths, bytes(inputs.cumulative_query_lengths), longest},
      {&Tensors::cumulative_kv_lengths, bytes(inputs.cumulative_kv_lengths), longest},
      {&Tensors::page_table, bytes(inputs.page_table), spare},
      {&Tensors::key_scales, bytes(inputs.key_scales), nan},
      {&Tensors::value_scales, bytes(inputs.value_scales), nan},
  };
  const auto write = [&](const Small& small) {
    const auto fill = [&](const PutElement& put) { put(0, small.numbers); };
    return fill_with(*runtime_, tensor(small.tensor), small.around, fill);
  };
  for (const Small& small : all) {
    if (Result<void> s = write(small); !s.ok()) return s;
  }
  for (const detail::TensorRow& row : detail::tensor_table()) {
    if (row.cut != detail::TensorCut::kQueryHeads) continue;
    if (Result<void> s = write({row.range, bytes(inputs.per_head[row.range]), nan}); !s.ok()) return s;
  }
  return {};
}

Result<void> ProblemRun::poison_outputs() {
  for (const detail::TensorRow& row : detail::tensor_table()) {
    if (!row.use.written) continue;
    const Pattern poison = output_poison(row.storage(problem_.desc).type);
    if (Result<void> s = fill_pattern(*runtime_, tensors_[row.range], poison); !s.ok()) return s;
  }
  return {};
}

Result<double> ProblemRun::execute(const Runnable& plan) {
  probability_type_ = plan.probability_type();
  arithmetic_type_ = plan.arithmetic_type();
  return plan.execute(*runtime_, tensors());
}

AttentionTensors ProblemRun::tensors() const {
  AttentionTensors tensors = ranges_of(tensors_);
  tensors.score_buffers = score_buffers_;
  tensors.block_mask = block_mask_;
  tensors.block_mask_complete = block_mask_complete_;
  tensors.dropout_seed = problem_.dropout_seed;
  tensors.dropout_offset = problem_.dropout_offset;
  return tensors;
}

}  // namespace vkattn::harness
