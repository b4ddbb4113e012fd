// Buffers of a problem: where tensors lie in them, what fills them, and one execution.
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

/// Tensors whose elements overlap cannot be filled element by element.
Status check_nested(std::string_view name, const TensorShape& shape) {
  if (AddressOrder(shape).is_nested()) return {};
  return Error{ErrorCode::kUnsupported, VK_SUCCESS,
               "the elements of " + std::string(name) +
                   " overlap by its strides, so that random data cannot be laid into it"};
}

/// Lengths are one for each batch entry.
Status check_counts(const Problem& problem) {
  const AttentionDesc& desc = problem.desc;
  const bool of_keys = desc.has_kv_lengths || desc.has_cumulative_lengths;
  const bool of_queries = desc.has_query_lengths || desc.has_packed_queries();
  const auto check = [&](bool wanted, std::size_t count, const char* what) -> Status {
    if (!wanted || std::cmp_equal(count, desc.batch)) return {};
    return Error{ErrorCode::kInvalidArgument, VK_SUCCESS,
                 "the problem has " + std::to_string(count) + " " + what + " lengths but batch is " +
                     std::to_string(desc.batch)};
  };
  if (Status s = check(of_keys, problem.kv_lengths.size(), "key"); !s.ok()) return s;
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
  if (Status s = validate(desc); !s.ok()) return s.error();
  if (Status s = check_counts(problem); !s.ok()) return s.error();
  if (Status s = check_nested("query", query_shape(desc)); !s.ok()) return s.error();
  if (Status s = check_nested("key", key_shape(desc)); !s.ok()) return s.error();
  if (Status s = check_nested("value", value_shape(desc)); !s.ok()) return s.error();
  if (Status s = check_nested("mask", mask_shape(desc)); !s.ok()) return s.error();
  ProblemRun run(runtime, problem);
  if (Status s = run.place_tensors(); !s.ok()) return s.error();
  if (Status s = run.place_score_function(); !s.ok()) return s.error();
  return run;
}

/// Tables are bound to their last element, as indices are clamped to what is bound.
Status ProblemRun::place_score_function() {
  ProblemScore score = make_score(problem_);
  for (std::size_t i = 0; i < score.tables.size(); ++i) {
    const auto bytes = std::as_bytes(std::span(score.tables[i]));
    Tensor& table = score_tables_.emplace_back();
    if (Status s = place(*runtime_, static_cast<std::int64_t>(bytes.size()), 0, table); !s.ok()) return s;
    const auto fill = [&](const PutElement& put) { put(0, bytes); };
    if (Status s = fill_with(*runtime_, table, input_filler(DataType::kFloat32), fill); !s.ok()) return s;
    score_buffers_[i] = {table.buffer.handle(), table.offset, table.bytes};
  }
  score_hook_ = std::move(score.hook);
  return {};
}

Status ProblemRun::place_tensors() {
  const AttentionDesc& desc = problem_.desc;
  const std::int64_t shift = problem_.shift;
  const std::pair<Tensor*, TensorShape> shapes[] = {
      {&query_, query_shape(desc)},
      {&key_, key_shape(desc)},
      {&value_, value_shape(desc)},
      {&mask_, mask_shape(desc)},
      {&output_, output_shape(desc)},
      {&lse_, desc.has_lse ? lse_shape(desc) : TensorShape{}},
      {&weights_, desc.weights != WeightsStage::kNone ? weights_shape(desc) : TensorShape{}},
  };
  for (const auto& [tensor, shape] : shapes) {
    if (Status s = place(*runtime_, shape, shift, *tensor); !s.ok()) return s;
  }
  const auto heads_of = [&](const TensorDesc& tensor) {
    return tensor.type == DataType::kFloat8E4m3 ? desc.kv_heads : 0;
  };
  const std::int64_t sums = desc.batch + 1;
  const bool paged = desc.cache.mapping == KeyMapping::kPaged;
  const std::pair<Tensor*, std::int64_t> counts[] = {
      {&kv_lengths_, desc.has_kv_lengths ? desc.batch : 0},
      {&query_lengths_, desc.has_query_lengths ? desc.batch : 0},
      {&cumulative_query_lengths_, desc.has_packed_queries() ? sums : 0},
      {&cumulative_kv_lengths_, desc.has_cumulative_lengths ? sums : 0},
      {&page_table_, paged ? detail::saturating_multiply(desc.batch, desc.cache.page_table_stride) : 0},
      {&key_scales_, heads_of(desc.key)},
      {&value_scales_, heads_of(desc.value)},
      {&alibi_slopes_, desc.alibi == Alibi::kGiven ? desc.query_heads : 0},
      {&sinks_, desc.has_sinks ? desc.query_heads : 0},
  };
  for (const auto& [tensor, count] : counts) {
    if (Status s = place(*runtime_, detail::saturating_multiply(count, 4), shift * 4, *tensor); !s.ok()) {
      return s;
    }
  }
  return {};
}

Status ProblemRun::fill_inputs() {
  const AttentionDesc& desc = problem_.desc;
  const SmallInputs small = make_small_inputs(problem_);
  const std::pair<TensorRole, const Tensor*> tensors[] = {
      {TensorRole::kQuery, &query_}, {TensorRole::kKey, &key_}, {TensorRole::kValue, &value_}};
  for (const auto& [role, tensor] : tensors) {
    const TensorDesc& storage = role == TensorRole::kQuery ? desc.query
                                : role == TensorRole::kKey ? desc.key
                                                           : desc.value;
    const auto fill = [&, role = role](const PutElement& put) { fill_tensor(problem_, role, small, put); };
    if (Status s = fill_with(*runtime_, *tensor, input_filler(storage.type), fill); !s.ok()) return s;
  }
  const auto fill = [&](const PutElement& put) { fill_mask(problem_, put); };
  if (Status s = fill_with(*runtime_, mask_, mask_filler(desc.mask.type), fill); !s.ok()) return s;
  if (Status s = fill_small_inputs(small); !s.ok() || problem_.appended == 0) return s;
  return append_keys(
      *runtime_, problem_, small,
      {query_, key_, value_, page_table_, key_scales_, value_scales_, cumulative_query_lengths_});
}

Status ProblemRun::fill_small_inputs(const SmallInputs& inputs) {
  // Around lengths lie others that would show every key, NaN rows included; around page numbers one of a page
  // that holds nothing but NaN, where there is one.
  const Pattern longest = pattern_of(0x7fffffffU);
  const Pattern spare = pattern_of(spare_page(problem_.desc, inputs));
  const Pattern nan = input_filler(DataType::kFloat32);
  struct Small {
    const Tensor& tensor;
    std::span<const std::byte> numbers;
    Pattern around;
  };
  const auto bytes = [](const auto& numbers) { return std::as_bytes(std::span(numbers)); };
  const Small all[] = {
      {kv_lengths_, bytes(inputs.kv_lengths), longest},
      {query_lengths_, bytes(inputs.query_lengths), longest},
      {cumulative_query_lengths_, bytes(inputs.cumulative_query_lengths), longest},
      {cumulative_kv_lengths_, bytes(inputs.cumulative_kv_lengths), longest},
      {page_table_, bytes(inputs.page_table), spare},
      {key_scales_, bytes(inputs.key_scales), nan},
      {value_scales_, bytes(inputs.value_scales), nan},
      {alibi_slopes_, bytes(inputs.alibi_slopes), nan},
      {sinks_, bytes(inputs.sinks), nan},
  };
  for (const Small& small : all) {
    const auto fill = [&](const PutElement& put) { put(0, small.numbers); };
    if (Status s = fill_with(*runtime_, small.tensor, small.around, fill); !s.ok()) return s;
  }
  return {};
}

Status ProblemRun::poison_outputs() {
  if (Status s = fill_pattern(*runtime_, output_, output_poison(problem_.desc.output.type)); !s.ok())
    return s;
  if (Status s = fill_pattern(*runtime_, lse_, output_poison(DataType::kFloat32)); !s.ok()) return s;
  return fill_pattern(*runtime_, weights_, output_poison(DataType::kFloat32));
}

Result<double> ProblemRun::execute(const AttentionPlan& plan) {
  Buffer workspace;
  BufferRange workspace_range;
  if (plan.workspace_bytes() > 0) {
    Result<Buffer> buffer = runtime_->create_buffer(plan.workspace_bytes());
    if (!buffer.ok()) return buffer.error();
    workspace = std::move(buffer).value();
    workspace_range = workspace.range();
  }
  probability_type_ = plan.probability_type();
  const Result<Bindings> bindings = plan.make_bindings(tensors(), workspace_range);
  if (!bindings.ok()) return bindings.error();
  return runtime_->execute(plan, *bindings);
}

AttentionTensors ProblemRun::tensors() const {
  AttentionTensors tensors;
  tensors.query = range_of(query_);
  tensors.key = range_of(key_);
  tensors.value = range_of(value_);
  tensors.output = range_of(output_);
  tensors.lse = range_of(lse_);
  tensors.kv_lengths = range_of(kv_lengths_);
  tensors.query_lengths = range_of(query_lengths_);
  tensors.cumulative_query_lengths = range_of(cumulative_query_lengths_);
  tensors.cumulative_kv_lengths = range_of(cumulative_kv_lengths_);
  tensors.page_table = range_of(page_table_);
  tensors.key_scales = range_of(key_scales_);
  tensors.value_scales = range_of(value_scales_);
  tensors.mask = range_of(mask_);
  tensors.alibi_slopes = range_of(alibi_slopes_);
  tensors.sinks = range_of(sinks_);
  tensors.weights = range_of(weights_);
  tensors.score_buffers = score_buffers_;
  tensors.block_mask = block_mask_;
  tensors.block_mask_complete = block_mask_complete_;
  tensors.dropout_seed = problem_.dropout_seed;
  tensors.dropout_offset = problem_.dropout_offset;
  return tensors;
}

}  // namespace vkattn::harness
