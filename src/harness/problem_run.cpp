// Buffers of a problem: where tensors lie in them, what fills them, and one execution.
#include "harness/problem_run.hpp"

#include <algorithm>
#include <span>
#include <string_view>
#include <utility>

#include "harness/fill.hpp"
#include "harness/score_problem.hpp"
#include "harness/tensor_memory.hpp"
#include "plan/checked.hpp"

namespace vkattn::harness {
namespace {

/// Bytes before and after each tensor: 64 elements of 4 bytes, and a multiple of every alignment that buffers
/// need.
constexpr std::int64_t kGuardBytes = 256;
constexpr std::size_t kPieceBytes = std::size_t{1} << 20U;

/// Fills a buffer from its first byte to its last in pieces: a repeating pattern with elements put into it at
/// growing offsets. Host memory stays at one piece, whatever the buffer's size.
class PieceWriter {
 public:
  PieceWriter(const Runtime& runtime, const Buffer& buffer, Pattern pattern)
      : runtime_(runtime), buffer_(buffer), pattern_(pattern) {
    piece_.resize(std::min(kPieceBytes, static_cast<std::size_t>(buffer.size())));
    begin_piece();
  }

  Status put(VkDeviceSize offset, std::span<const std::byte> element) {
    while (!element.empty()) {
      while (offset >= start_ + piece_.size()) {
        if (Status s = flush(); !s.ok()) return s;
      }
      // A block may cross the border of a piece.
      const auto at = static_cast<std::size_t>(offset - start_);
      const std::size_t bytes = std::min(element.size(), piece_.size() - at);
      std::memcpy(piece_.data() + at, element.data(), bytes);
      element = element.subspan(bytes);
      offset += bytes;
    }
    return {};
  }

  Status finish() {
    while (start_ < buffer_.size()) {
      if (Status s = flush(); !s.ok()) return s;
    }
    return {};
  }

 private:
  Status flush() {
    if (Status s = runtime_.write(buffer_, start_, piece_); !s.ok()) return s;
    start_ += piece_.size();
    begin_piece();
    return {};
  }

  void begin_piece() {
    const auto left = static_cast<std::size_t>(buffer_.size() - std::min(start_, buffer_.size()));
    piece_.resize(std::min(piece_.size(), left));
    for (std::size_t i = 0; i < piece_.size(); ++i) piece_[i] = pattern_[i % pattern_.size()];
  }

  const Runtime& runtime_;
  const Buffer& buffer_;
  Pattern pattern_;
  std::vector<std::byte> piece_;
  VkDeviceSize start_ = 0;
};

/// Gives a tensor of `bytes` its buffer; one without elements gets none.
Status place(const Runtime& runtime, std::int64_t bytes, std::int64_t shift_bytes,
             ProblemRun::Tensor& tensor) {
  if (bytes == 0) return {};
  const std::int64_t offset = kGuardBytes + shift_bytes;
  // Whole guards after the end, then up to a multiple of 256: kernels without 16-bit storage read 32-bit
  // words.
  const std::int64_t end = detail::saturating_add(detail::saturating_add(offset, bytes), 2 * kGuardBytes - 1);
  if (end == detail::kMaxInt64) {
    return Error{ErrorCode::kInvalidArgument, VK_SUCCESS,
                 "a tensor of " + std::to_string(bytes) + " bytes leaves no room for guard bands in 63 bits"};
  }
  const auto size = static_cast<VkDeviceSize>(end / kGuardBytes * kGuardBytes);
  Result<Buffer> buffer = runtime.create_buffer(size);
  if (!buffer.ok()) return buffer.error();
  tensor.buffer = std::move(buffer).value();
  tensor.offset = static_cast<VkDeviceSize>(offset);
  tensor.bytes = static_cast<VkDeviceSize>(bytes);
  tensor.bound_bytes = size - tensor.offset;
  return {};
}

Status place(const Runtime& runtime, const TensorShape& shape, std::int64_t shift,
             ProblemRun::Tensor& tensor) {
  const Result<std::int64_t> bytes = shape.bytes();
  if (!bytes.ok()) return bytes.error();
  return place(runtime, *bytes, shift * element_bytes(shape.desc.type), tensor);
}

/// Writes what `fill` gives, and the pattern everywhere else.
Status fill_with(const Runtime& runtime, const ProblemRun::Tensor& tensor, Pattern around,
                 const std::function<void(const PutElement&)>& fill) {
  if (tensor.bytes == 0) return {};
  PieceWriter writer(runtime, tensor.buffer, around);
  Status status;
  fill([&](std::int64_t byte, std::span<const std::byte> element) {
    if (status.ok()) status = writer.put(tensor.offset + static_cast<VkDeviceSize>(byte), element);
  });
  return status.ok() ? writer.finish() : status;
}

Status fill_pattern(const Runtime& runtime, const ProblemRun::Tensor& tensor, Pattern pattern) {
  if (tensor.bytes == 0) return {};
  return PieceWriter(runtime, tensor.buffer, pattern).finish();
}

BufferRange range_of(const ProblemRun::Tensor& tensor) {
  if (tensor.bytes == 0) return {};
  return {tensor.buffer.handle(), tensor.offset, tensor.bound_bytes};
}

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
  const bool packed = desc.has_cumulative_lengths;
  const auto check = [&](bool wanted, std::size_t count, const char* what) -> Status {
    if (!wanted || std::cmp_equal(count, desc.batch)) return {};
    return Error{ErrorCode::kInvalidArgument, VK_SUCCESS,
                 "the problem has " + std::to_string(count) + " " + what + " lengths but batch is " +
                     std::to_string(desc.batch)};
  };
  if (Status s = check(desc.has_kv_lengths || packed, problem.kv_lengths.size(), "key"); !s.ok()) return s;
  return check(desc.has_query_lengths || packed, problem.query_lengths.size(), "query");
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
  const std::int64_t sums = desc.has_cumulative_lengths ? desc.batch + 1 : 0;
  const bool paged = desc.cache.mapping == KeyMapping::kPaged;
  const std::pair<Tensor*, std::int64_t> counts[] = {
      {&kv_lengths_, desc.has_kv_lengths ? desc.batch : 0},
      {&query_lengths_, desc.has_query_lengths ? desc.batch : 0},
      {&cumulative_query_lengths_, sums},
      {&cumulative_kv_lengths_, sums},
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
  return fill_small_inputs(small);
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
