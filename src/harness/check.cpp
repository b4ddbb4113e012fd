// The comparison of a run's outputs with the float64 reference, and of everything around them with the
// pattern that was there before.
#include <algorithm>
#include <atomic>
#include <bit>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <limits>
#include <thread>
#include <utility>

#include "harness/problem_run.hpp"
#include "harness/row_selection.hpp"
#include "harness/tensor_memory.hpp"

namespace vkattn::harness {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

/// A buffer's bytes on the host: the mapped memory itself, or a copy.
class HostView {
 public:
  static Result<HostView> of(const Runtime& runtime, const ProblemRun::Tensor& tensor) {
    HostView view;
    if (tensor.bytes == 0) return view;
    view.bytes_ = runtime.mapped(tensor.buffer);
    if (view.bytes_.empty()) {
      view.copy_.resize(static_cast<std::size_t>(tensor.buffer.size()));
      if (Status s = runtime.read(tensor.buffer, 0, view.copy_); !s.ok()) return s.error();
      view.bytes_ = view.copy_;  // a moved vector keeps its memory, so the span stays right
    }
    view.offset_ = static_cast<std::size_t>(tensor.offset);
    return view;
  }

  [[nodiscard]] std::span<const std::byte> bytes() const { return bytes_; }
  [[nodiscard]] const void* first() const { return bytes_.empty() ? nullptr : bytes_.data() + offset_; }

 private:
  std::vector<std::byte> copy_;
  std::span<const std::byte> bytes_;
  std::size_t offset_ = 0;
};

/// Reads elements of an output.
class OutputView {
 public:
  OutputView(const TensorShape& shape, const HostView& view)
      : shape_(shape),
        first_(static_cast<const std::byte*>(view.first())),
        poison_(output_poison(shape.desc.type)) {}

  struct Element {
    double value = 0;
    bool written = false;
  };

  [[nodiscard]] Element element(const reference::RowIndex& row, std::int64_t dim) const {
    const Strides& s = shape_.desc.strides;
    const std::size_t size = element_bytes(shape_.desc.type);
    const auto index =
        static_cast<std::size_t>(row.batch * s.batch + row.head * s.head + row.query * s.row + dim * s.dim);
    const std::byte* const at = first_ + index * size;
    Element result;
    result.written = std::memcmp(at, poison_.data(), size) != 0;
    std::uint32_t bits32 = 0;
    std::uint16_t bits16 = 0;
    if (size == 4) {
      std::memcpy(&bits32, at, size);
    } else {
      std::memcpy(&bits16, at, size);
    }
    switch (shape_.desc.type) {
      case DataType::kFloat32:
        result.value = static_cast<double>(std::bit_cast<float>(bits32));
        break;
      case DataType::kFloat16:
        result.value = static_cast<double>(half_to_float(bits16));
        break;
      case DataType::kBfloat16:
        result.value = static_cast<double>(bfloat16_to_float(bits16));
        break;
    }
    return result;
  }

 private:
  TensorShape shape_;
  const std::byte* first_;
  Pattern poison_;
};

/// The largest number that a storage type holds, with the half step that still rounds to it.
double overflow_threshold(DataType type) {
  return type == DataType::kFloat16 ? 65520.0 : type == DataType::kBfloat16 ? 0x1.ffp127 : 0x1.ffffffp127;
}

/// An error as a share of what is allowed.
double share_of(double expected, double got, double tolerance, DataType type) {
  if (std::isnan(expected) || std::isnan(got)) return std::isnan(expected) && std::isnan(got) ? 0 : kInfinity;
  if (expected == got) return 0;
  if (std::isinf(got) && std::isfinite(expected)) {
    const bool overflowed = std::abs(expected) + tolerance >= overflow_threshold(type);
    return overflowed && std::signbit(expected) == std::signbit(got) ? 0 : kInfinity;
  }
  if (std::isinf(expected) || std::isinf(got)) return kInfinity;
  const double error = std::abs(expected - got);
  return error <= tolerance ? (tolerance > 0 ? error / tolerance : 0)
         : tolerance > 0    ? error / tolerance
                            : kInfinity;
}

/// Compares rows; one for each thread.
class Comparison {
 public:
  Comparison(const AttentionDesc& desc, const reference::Inputs& inputs, const OutputView& output,
             const OutputView& lse, DataType probability_type)
      : desc_(desc), inputs_(inputs), output_(output), lse_(lse), probability_type_(probability_type) {}

  void compare_row(const reference::RowIndex& index, std::size_t number) {
    const reference::Row row = reference::compute_row(desc_, inputs_, index);
    ++report_.rows_checked;
    for (std::int64_t dim = 0; dim < desc_.value_dim; ++dim) {
      const double expected = row.output[static_cast<std::size_t>(dim)];
      add(index, number, dim, expected, output_.element(index, dim),
          reference::output_tolerance(desc_, row, dim, probability_type_), desc_.output.type);
    }
    if (desc_.has_lse) {
      add(index, number, -1, row.lse, lse_.element(index, 0), reference::lse_tolerance(desc_, row),
          DataType::kFloat32);
    }
  }

  /// Takes over what another thread found; of equal errors the one in the first row.
  void merge(const Comparison& other) {
    const CheckReport& from = other.report_;
    const bool worse = from.largest_share > report_.largest_share ||
                       (from.largest_share == report_.largest_share && other.worst_row_ < worst_row_);
    const std::int64_t rows = report_.rows_checked + from.rows_checked;
    const std::int64_t elements = report_.elements_checked + from.elements_checked;
    const std::int64_t telling = report_.elements_telling + from.elements_telling;
    if (worse) {
      report_ = from;
      worst_row_ = other.worst_row_;
    }
    report_.rows_checked = rows;
    report_.elements_checked = elements;
    report_.elements_telling = telling;
  }

  [[nodiscard]] const CheckReport& report() const { return report_; }

 private:
  void add(const reference::RowIndex& index, std::size_t number, std::int64_t dim, double expected,
           const OutputView::Element& got, double tolerance, DataType type) {
    ++report_.elements_checked;
    const bool telling = std::isnan(expected) || std::abs(expected) > tolerance;
    if (dim >= 0 && telling) ++report_.elements_telling;
    const double share = got.written ? share_of(expected, got.value, tolerance, type) : kInfinity;
    if (share <= report_.largest_share && worst_row_ != kNoRow) return;
    report_.largest_share = share;
    report_.largest_error = expected == got.value ? 0 : std::abs(expected - got.value);
    report_.where = index;
    report_.where_dim = dim;
    report_.expected = expected;
    report_.got = got.value;
    worst_row_ = number;
  }

  static constexpr std::size_t kNoRow = std::numeric_limits<std::size_t>::max();

  const AttentionDesc& desc_;
  const reference::Inputs& inputs_;
  const OutputView& output_;
  const OutputView& lse_;
  DataType probability_type_;
  CheckReport report_;
  std::size_t worst_row_ = kNoRow;
};

/// Compares all rows on all processors. The calling thread works too and reports progress.
CheckReport compare_rows(const std::vector<reference::RowIndex>& rows, const Comparison& prototype,
                         const Progress& progress) {
  const std::size_t processors = std::max(1U, std::thread::hardware_concurrency());
  const std::size_t count = std::max<std::size_t>(1, std::min(processors, rows.size() / 4));
  std::vector<Comparison> comparisons(count, prototype);
  std::atomic<std::size_t> next{0};
  const auto work = [&](std::size_t worker) {
    for (std::size_t i = next++; i < rows.size(); i = next++) {
      comparisons[worker].compare_row(rows[i], i);
      if (worker == 0 && progress) progress(static_cast<double>(i + 1) / static_cast<double>(rows.size()));
    }
  };
  std::vector<std::thread> threads;
  for (std::size_t worker = 1; worker < count; ++worker) threads.emplace_back(work, worker);
  work(0);
  for (std::thread& thread : threads) thread.join();
  for (std::size_t worker = 1; worker < count; ++worker) comparisons[0].merge(comparisons[worker]);
  return comparisons[0].report();
}

/// Walks an output buffer: bytes outside of elements must still hold the pattern, elements must not.
class GuardCheck {
 public:
  GuardCheck(const char* name, const TensorShape& shape, const ProblemRun::Tensor& tensor,
             const HostView& view)
      : name_(name),
        shape_(shape),
        tensor_(tensor),
        bytes_(view.bytes()),
        pattern_(output_poison(shape.desc.type)) {}

  void run(CheckReport& report) {
    if (tensor_.bytes == 0) return;
    const std::size_t size = element_bytes(shape_.desc.type);
    std::size_t at = 0;
    AddressOrder(shape_).for_each([&](std::int64_t offset, const Position&) {
      const std::size_t element =
          static_cast<std::size_t>(tensor_.offset) + static_cast<std::size_t>(offset) * size;
      check_gap(at, element);
      if (std::memcmp(bytes_.data() + element, pattern_.data(), size) == 0) ++report.elements_unwritten;
      at = element + size;
    });
    check_gap(at, bytes_.size());
    if (overwritten_ == 0) return;
    report.guard_intact = false;
    if (!report.guard_message.empty()) report.guard_message += "; ";
    report.guard_message += std::to_string(overwritten_) + " bytes outside of " + name_ +
                            " were written, the first at byte " + std::to_string(first_) + " of " +
                            std::to_string(bytes_.size()) + ", where " + name_ + " takes bytes " +
                            std::to_string(tensor_.offset) + " to " +
                            std::to_string(tensor_.offset + tensor_.bytes - 1);
  }

 private:
  void check_gap(std::size_t begin, std::size_t end) {
    for (std::size_t i = begin; i < end; ++i) {
      if (bytes_[i] == pattern_[i % pattern_.size()]) continue;
      if (overwritten_ == 0) first_ = i;
      ++overwritten_;
    }
  }

  const char* name_;
  TensorShape shape_;
  const ProblemRun::Tensor& tensor_;
  std::span<const std::byte> bytes_;
  Pattern pattern_;
  std::size_t overwritten_ = 0;
  std::size_t first_ = 0;
};

std::string text(double value) {
  char buffer[32];
  std::snprintf(buffer, sizeof(buffer), "%.6g", value);
  return buffer;
}

}  // namespace

std::string CheckReport::to_string() const {
  std::string line =
      std::to_string(rows_checked) + " rows, " + std::to_string(elements_checked) + " elements";
  if (elements_checked > 0) {
    line += ": largest error " + text(largest_error) + ", " + text(largest_share) +
            " of the tolerance, at batch " + std::to_string(where.batch) + ", head " +
            std::to_string(where.head) + ", query " + std::to_string(where.query) +
            (where_dim < 0 ? ", lse" : ", dim " + std::to_string(where_dim)) + ", expected " +
            text(expected) + ", got " + text(got);
  }
  if (elements_unwritten > 0)
    line += "; " + std::to_string(elements_unwritten) + " elements were never written";
  if (!guard_intact) line += "; " + guard_message;
  return line;
}

Result<CheckReport> ProblemRun::check(const RowSelection& selection, const Progress& progress) const {
  const AttentionDesc& desc = problem_.desc;
  Result<HostView> query = HostView::of(*runtime_, query_);
  if (!query.ok()) return query.error();
  Result<HostView> key = HostView::of(*runtime_, key_);
  if (!key.ok()) return key.error();
  Result<HostView> value = HostView::of(*runtime_, value_);
  if (!value.ok()) return value.error();
  Result<HostView> output = HostView::of(*runtime_, output_);
  if (!output.ok()) return output.error();
  Result<HostView> lse = HostView::of(*runtime_, lse_);
  if (!lse.ok()) return lse.error();

  const reference::Inputs inputs{query->first(), key->first(), value->first(), problem_.kv_lengths};
  const OutputView output_view(output_shape(desc), *output);
  const OutputView lse_view(lse_shape(desc), *lse);
  const Comparison prototype(desc, inputs, output_view, lse_view, probability_type_);
  CheckReport report = compare_rows(select_rows(desc, selection), prototype, progress);
  GuardCheck("output", output_shape(desc), output_, *output).run(report);
  GuardCheck("lse", lse_shape(desc), lse_, *lse).run(report);
  return report;
}

}  // namespace vkattn::harness
