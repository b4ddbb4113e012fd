// Runs of matrix multiplications: see matmul_run.hpp.
#include "harness/matmul_run.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <utility>

#include "common/message.hpp"
#include "harness/guard.hpp"
#include "harness/host_view.hpp"
#include "harness/quantise.hpp"
#include "reference/matmul.hpp"
#include "reference/storage.hpp"

namespace vkattn::harness {
namespace {

constexpr BufferRange MatmulTensors::*kOutput = &MatmulTensors::output;
constexpr std::uint64_t kFirstStream = 64;  // beyond the streams of data.hpp that attention draws from

/// Gives each element or block of a tensor.
class Elements {
 public:
  Elements(const TensorShape& shape, std::uint64_t seed, std::uint64_t number)
      : shape_(shape), normal_(stream_of(seed, kFirstStream + number)) {}

  void give(const PutElement& put) {
    const TensorShape blocks = in_blocks(shape_);
    const DataType type = shape_.desc.type;
    const std::int64_t size = block_bytes(type);
    AddressOrder(blocks).for_each([&](std::int64_t offset, Position position) {
      position.dim *= block_elements(type);
      put(offset * size, encoded(position, type));
    });
  }

 private:
  float value(const Position& p) {
    const std::int64_t counter = (p.batch * shape_.rows + p.row) * shape_.dims + p.dim;
    return static_cast<float>(normal_.at(static_cast<std::uint64_t>(counter)));
  }

  std::span<const std::byte> encoded(Position position, DataType type) {
    const std::span<std::byte> bytes(bytes_.data(), block_bytes(type));
    if (block_elements(type) > 1) {
      for (float& element : values_) {
        element = value(position);
        ++position.dim;
      }
      quantise_block(type, values_, bytes, kLeastNormalScale);
      return bytes;
    }
    const std::uint32_t bits = stored_bits(value(position), type);
    const auto bits16 = static_cast<std::uint16_t>(bits);
    std::memcpy(bytes.data(), bytes.size() == 4 ? static_cast<const void*>(&bits) : &bits16, bytes.size());
    return bytes;
  }

  TensorShape shape_;
  NormalNumbers normal_;
  std::array<float, 32> values_{};
  std::array<std::byte, 34> bytes_{};
};

}  // namespace

Result<MatmulRun> MatmulRun::create(const Runtime& runtime, const MatmulProblem& problem) {
  if (Result<void> s = validate(problem.desc); !s.ok()) return s.error();
  MatmulRun run(runtime, problem);
  run.problem_.desc = problem.desc.resolved();
  if (Result<void> s = place_used(runtime, run.desc(), problem.shift, run.buffers_); !s.ok())
    return s.error();
  for (const detail::MatmulTensorRow& row : detail::tensor_table<MatmulTensors>()) {
    if (row.use.written || run.buffers_[row.range].bytes == 0) continue;
    if (Result<void> s = run.fill(row); !s.ok()) return s.error();
  }
  if (Result<void> s = run.poison_output(); !s.ok()) return s.error();
  return run;
}

Result<void> MatmulRun::fill(const detail::MatmulTensorRow& row) {
  const TensorShape shape = shape_of(row, desc());
  if (!AddressOrder(in_blocks(shape)).is_nested()) {
    return Error{
        ErrorCode::kUnsupported,
        {},
        "the elements of a tensor overlap by its strides, so that random data cannot be laid into it"};
  }
  Elements elements(shape, problem_.seed, detail::tensor_index(row.range));
  const Pattern around = row.use.written ? output_poison(shape.desc.type) : input_filler(shape.desc.type);
  return fill_with(*runtime_, buffers_[row.range], around,
                   [&](const PutElement& put) { elements.give(put); });
}

Result<void> MatmulRun::poison_output() {
  if (buffers_[kOutput].bytes == 0) return {};
  if (!desc().accumulates) {
    return fill_pattern(*runtime_, buffers_[kOutput], output_poison(desc().output.type));
  }
  if (Result<void> s = fill(detail::row_of(kOutput)); !s.ok()) return s;
  before_.resize(static_cast<std::size_t>(buffers_[kOutput].bytes));
  return runtime_->read(buffers_[kOutput].buffer, buffers_[kOutput].offset, before_);
}

Result<double> MatmulRun::execute(const Runnable& plan) {
  return plan.execute(*runtime_, tensors());
}

Result<CheckReport> MatmulRun::check(const RowSelection& selection) const {
  detail::PerTensor<HostView, MatmulTensors> views;
  for (const detail::MatmulTensorRow& each : detail::tensor_table<MatmulTensors>()) {
    auto view = HostView::of(*runtime_, buffers_[each.range]);
    if (!view.ok()) return view.error();
    views[each.range] = std::move(view).value();
  }
  CheckReport report;
  reference::MatmulReference reference(desc(),
                                       {views[&MatmulTensors::a].tensor(), views[&MatmulTensors::b].tensor(),
                                        views[&MatmulTensors::bias].tensor(), std::span(before_)});
  const MatrixStrides& strides = *desc().output.strides;
  const std::int64_t rows = desc().batch * desc().rows;
  const std::int64_t wanted = selection.max_rows < 0 ? rows : std::min(rows, selection.max_rows);
  const std::int64_t count = desc().columns == 0 ? 0 : wanted;
  std::vector<double> got;
  for (std::int64_t i = 0; i < count; ++i) {
    const std::int64_t at = count < 2 ? 0 : i * (rows - 1) / (count - 1);
    const std::int64_t batch = at / desc().rows, row = at % desc().rows;
    const reference::MatmulRow& expected = reference.row(batch, row);
    reference::decode({views[kOutput].tensor().data(), desc().output.type,
                       batch * strides.batch + row * strides.row, strides.column, desc().columns},
                      got);
    ++report.rows_checked;
    for (std::int64_t column = 0; column < desc().columns; ++column) {
      const auto c = static_cast<std::size_t>(column);
      report.add({{batch, 0, row}, CheckedOutput::kProduct, column}, expected.output[c], got[c],
                 reference.tolerance(column), desc().output.type);
    }
  }
  check_guards(
      "output", shape_of(detail::row_of(kOutput), desc()), buffers_[kOutput], views[kOutput].bytes(),
      [](const Position&) { return true; }, report);
  return report;
}

Result<std::vector<std::byte>> MatmulRun::output_bytes() const {
  std::vector<std::byte> bytes(static_cast<std::size_t>(buffers_[kOutput].buffer.size()));
  if (bytes.empty()) return bytes;
  if (Result<void> s = runtime_->read(buffers_[kOutput].buffer, 0, bytes); !s.ok()) return s.error();
  return bytes;
}

}  // namespace vkattn::harness
