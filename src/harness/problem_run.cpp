// Buffers of a problem: where tensors lie in them, what fills them, and one execution.
#include "harness/problem_run.hpp"

#include <algorithm>
#include <span>
#include <string_view>
#include <utility>

#include "harness/data.hpp"
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

  Status put(VkDeviceSize offset, const void* element, std::size_t bytes) {
    while (offset >= start_ + piece_.size()) {
      if (Status s = flush(); !s.ok()) return s;
    }
    // Pieces are a multiple of every element's size, so no element crosses their border.
    std::memcpy(piece_.data() + (offset - start_), element, bytes);
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

Status fill_tensor(const Runtime& runtime, const Problem& problem, TensorRole role, const TensorShape& shape,
                   const ProblemRun::Tensor& tensor) {
  if (tensor.bytes == 0) return {};
  PieceWriter writer(runtime, tensor.buffer, input_filler(shape.desc.type));
  TensorData data(problem, role);
  const std::size_t size = element_bytes(shape.desc.type);
  Status status;
  AddressOrder(shape).for_each([&](std::int64_t offset, const Position& position) {
    if (!status.ok()) return;
    const std::uint32_t bits = data.stored(position);
    const auto bits16 = static_cast<std::uint16_t>(bits);
    const void* const element = size == 4 ? static_cast<const void*>(&bits) : &bits16;
    status = writer.put(tensor.offset + static_cast<VkDeviceSize>(offset) * size, element, size);
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

}  // namespace

Result<ProblemRun> ProblemRun::create(const Runtime& runtime, const Problem& problem) {
  const AttentionDesc& desc = problem.desc;
  if (Status s = validate(desc); !s.ok()) return s.error();
  if (desc.has_kv_lengths && std::cmp_not_equal(problem.kv_lengths.size(), desc.batch)) {
    return Error{ErrorCode::kInvalidArgument, VK_SUCCESS,
                 "the problem has " + std::to_string(problem.kv_lengths.size()) +
                     " key lengths but batch is " + std::to_string(desc.batch)};
  }
  if (Status s = check_nested("query", query_shape(desc)); !s.ok()) return s.error();
  if (Status s = check_nested("key", key_shape(desc)); !s.ok()) return s.error();
  if (Status s = check_nested("value", value_shape(desc)); !s.ok()) return s.error();
  ProblemRun run(runtime, problem);
  const std::int64_t shift = problem.shift;
  if (Status s = place(runtime, query_shape(desc), shift, run.query_); !s.ok()) return s.error();
  if (Status s = place(runtime, key_shape(desc), shift, run.key_); !s.ok()) return s.error();
  if (Status s = place(runtime, value_shape(desc), shift, run.value_); !s.ok()) return s.error();
  if (Status s = place(runtime, output_shape(desc), shift, run.output_); !s.ok()) return s.error();
  if (desc.has_lse) {
    if (Status s = place(runtime, lse_shape(desc), shift, run.lse_); !s.ok()) return s.error();
  }
  if (desc.has_kv_lengths) {
    const auto bytes = static_cast<std::int64_t>(problem.kv_lengths.size() * sizeof(std::int32_t));
    if (Status s = place(runtime, bytes, shift * 4, run.kv_lengths_); !s.ok()) return s.error();
  }
  return run;
}

Status ProblemRun::fill_inputs() {
  const AttentionDesc& desc = problem_.desc;
  if (Status s = fill_tensor(*runtime_, problem_, TensorRole::kQuery, query_shape(desc), query_); !s.ok())
    return s;
  if (Status s = fill_tensor(*runtime_, problem_, TensorRole::kKey, key_shape(desc), key_); !s.ok()) return s;
  if (Status s = fill_tensor(*runtime_, problem_, TensorRole::kValue, value_shape(desc), value_); !s.ok())
    return s;
  if (kv_lengths_.bytes == 0) return {};
  // Around the lengths lie others that would show every key, NaN rows included.
  if (Status s = fill_pattern(*runtime_, kv_lengths_, pattern_of(0x7fffffffU)); !s.ok()) return s;
  return runtime_->write(kv_lengths_.buffer, kv_lengths_.offset,
                         std::as_bytes(std::span(problem_.kv_lengths)));
}

Status ProblemRun::poison_outputs() {
  if (Status s = fill_pattern(*runtime_, output_, output_poison(problem_.desc.output.type)); !s.ok())
    return s;
  return fill_pattern(*runtime_, lse_, output_poison(DataType::kFloat32));
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
  return {range_of(query_),  range_of(key_), range_of(value_),
          range_of(output_), range_of(lse_), range_of(kv_lengths_)};
}

}  // namespace vkattn::harness
