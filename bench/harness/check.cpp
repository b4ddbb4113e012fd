// Compares a run's outputs with the float64 reference.
#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <limits>
#include <span>
#include <thread>
#include <utility>

#include "harness/guard.hpp"
#include "harness/host_view.hpp"
#include "harness/problem_run.hpp"
#include "harness/row_selection.hpp"
#include "harness/share.hpp"
#include "harness/tensor_memory.hpp"

namespace vkattn::harness {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

/// Reads elements of an output.
class OutputView {
 public:
  OutputView(const TensorShape& shape, const HostView& view)
      : shape_(shape), first_(view.tensor().data()), poison_(output_poison(shape.desc.type)) {}

  struct Element {
    double value = 0;
    bool written = false;
  };

  [[nodiscard]] Element element(const reference::RowIndex& row, std::int64_t dim) const {
    const Strides& s = *shape_.desc.strides;
    const std::size_t size = element_bytes(shape_.desc.type);
    const auto index =
        static_cast<std::size_t>(row.batch * s.batch + row.head * s.head + row.query * s.row + dim * s.dim);
    const std::byte* const at = first_ + index * size;
    Element result;
    result.written = std::memcmp(at, poison_.data(), size) != 0;
    result.value = loaded(at, shape_.desc.type);
    return result;
  }

 private:
  TensorShape shape_;
  const std::byte* first_;
  Pattern poison_;
};

struct OutputViews {
  OutputView output;
  OutputView lse;
  OutputView weights;
};

/// Compares rows. Each thread has a Comparison of its own.
class Comparison {
 public:
  Comparison(const AttentionDesc& desc, const reference::Inputs& inputs, const OutputViews& views,
             DataType probability_type, DataType arithmetic_type)
      : desc_(desc),
        inputs_(inputs),
        views_(views),
        probability_type_(probability_type),
        arithmetic_type_(arithmetic_type) {}

  void compare_row(const reference::RowIndex& index, std::size_t number) {
    const reference::Row row = reference::compute_row(desc_, inputs_, index);
    const reference::RowIndex stored = reference::stored_row(desc_, inputs_, index);
    ++report_.rows_checked;
    const auto is_not_zero = [](double value) { return value != 0; };
    if (std::any_of(row.output.begin(), row.output.end(), is_not_zero)) ++report_.rows_not_zero;
    for (std::int64_t dim = 0; dim < desc_.value_dim; ++dim) {
      const double expected = row.output[static_cast<std::size_t>(dim)];
      add({index, number, CheckedOutput::kOutput, dim}, expected, views_.output.element(stored, dim),
          reference::output_tolerance(desc_, row, dim, probability_type_, arithmetic_type_),
          desc_.output.type);
    }
    if (desc_.has_lse) {
      add({index, number, CheckedOutput::kLse, 0}, row.lse, views_.lse.element(stored, 0),
          reference::lse_tolerance(desc_, row, arithmetic_type_), DataType::kFloat32);
    }
    if (desc_.weights == WeightsStage::kNone) return;
    for (std::int64_t key = 0; key < desc_.kv_length; ++key) {
      add({index, number, CheckedOutput::kWeights, key}, row.weights[static_cast<std::size_t>(key)],
          views_.weights.element(index, key), reference::weight_tolerance(desc_, row, key, arithmetic_type_),
          DataType::kFloat32);
    }
  }

  /// Adds what another thread found. Of equal errors the one in the earlier row counts.
  void merge(const Comparison& other) {
    const CheckReport& from = other.report_;
    const bool worse = from.largest_share > report_.largest_share ||
                       (from.largest_share == report_.largest_share && other.worst_row_ < worst_row_);
    const std::int64_t rows = report_.rows_checked + from.rows_checked;
    const std::int64_t elements = report_.elements_checked + from.elements_checked;
    const std::int64_t not_zero = report_.rows_not_zero + from.rows_not_zero;
    const std::int64_t telling = report_.elements_telling + from.elements_telling;
    ElementCount nan_for_number = report_.nan_for_number, nan_expected = report_.nan_expected;
    ElementCount undefined = report_.undefined;
    undefined.add(from.undefined);
    nan_for_number.add(from.nan_for_number);
    nan_expected.add(from.nan_expected);
    if (worse) {
      report_ = from;
      worst_row_ = other.worst_row_;
    }
    report_.rows_checked = rows;
    report_.elements_checked = elements;
    report_.rows_not_zero = not_zero;
    report_.elements_telling = telling;
    report_.nan_for_number = nan_for_number;
    report_.nan_expected = nan_expected;
    report_.undefined = undefined;
  }

  [[nodiscard]] const CheckReport& report() const { return report_; }

 private:
  /// The element that is compared.
  struct Element {
    reference::RowIndex row;
    std::size_t number;  ///< the number of the row among the compared rows
    CheckedOutput output;
    std::int64_t index;  ///< dim or key
  };

  void add(const Element& element, double expected, const OutputView::Element& got, double tolerance,
           DataType type) {
    const CheckedElement place{element.row, element.output, element.index};
    if (tolerance < 0 && got.written) {
      report_.undefined.add(place, element.number);
      return;
    }
    ++report_.elements_checked;
    const bool telling = std::isnan(expected) || std::abs(expected) > tolerance;
    if (element.output == CheckedOutput::kOutput && telling) ++report_.elements_telling;
    if (got.written && std::isnan(got.value)) {
      ElementCount& kind = std::isnan(expected) ? report_.nan_expected : report_.nan_for_number;
      kind.add(place, element.number);
    }
    const double share = got.written ? share_of(expected, got.value, tolerance, type) : kInfinity;
    if (share <= report_.largest_share && worst_row_ != kNoRow) return;
    report_.largest_share = share;
    report_.largest_error = expected == got.value ? 0 : std::abs(expected - got.value);
    report_.where = element.row;
    report_.where_output = element.output;
    report_.where_index = element.index;
    report_.expected = expected;
    report_.got = got.value;
    worst_row_ = element.number;
  }

  static constexpr std::size_t kNoRow = std::numeric_limits<std::size_t>::max();

  const AttentionDesc& desc_;
  const reference::Inputs& inputs_;
  const OutputViews& views_;
  DataType probability_type_;
  DataType arithmetic_type_;
  CheckReport report_;
  std::size_t worst_row_ = kNoRow;
};

/// Compares all rows on all processors. The calling thread compares rows too and reports progress.
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

std::string text(double value, int digits = 6) {
  char buffer[32];
  std::snprintf(buffer, sizeof(buffer), "%.*g", digits, value);
  return buffer;
}

}  // namespace

std::string CheckedElement::to_string() const {
  const std::string place = "batch " + std::to_string(row.batch) + ", head " + std::to_string(row.head) +
                            (output == CheckedOutput::kGradient ? ", row " : ", query ") +
                            std::to_string(row.query) + ", ";
  switch (output) {
    case CheckedOutput::kProduct:
      return "batch " + std::to_string(row.batch) + ", row " + std::to_string(row.query) + ", column " +
             std::to_string(index);
    case CheckedOutput::kGradient:
      return place + "dim " + std::to_string(index) + " of " + std::string(tensor);
    case CheckedOutput::kOutput:
      return place + "dim " + std::to_string(index);
    case CheckedOutput::kLse:
      return place + "lse";
    case CheckedOutput::kWeights:
      break;
  }
  return place + "weight of key " + std::to_string(index);
}

void ElementCount::add(const CheckedElement& element, std::size_t row) {
  add(ElementCount{1, element, row});
}

void ElementCount::add(const ElementCount& other) {
  if (other.elements != 0 && (elements == 0 || other.first_row < first_row)) {
    first = other.first;
    first_row = other.first_row;
  }
  elements += other.elements;
}

void CheckReport::add(const CheckedElement& element, double wanted, double found, double tolerance,
                      DataType type) {
  if (tolerance < 0) {
    undefined.add(element, 0);
    return;
  }
  ++elements_checked;
  if (std::abs(wanted) > tolerance) ++elements_telling;
  const double share = share_of(wanted, found, tolerance, type);
  if (elements_checked > 1 && share <= largest_share) return;
  largest_share = share;
  largest_error = wanted == found ? 0 : std::abs(wanted - found);
  where = element.row;
  where_output = element.output;
  where_index = element.index;
  where_tensor = element.tensor;
  expected = wanted;
  got = found;
}

std::string CheckReport::where_text() const {
  const std::string text = worst().to_string();
  return text.substr(text.rfind(", ") + 2);
}

std::string CheckReport::values_text(int digits) const {
  constexpr int kAllDigits = std::numeric_limits<double>::max_digits10;
  const bool differ = expected < got || expected > got;  // every NaN has the same text
  while (differ && digits < kAllDigits && text(expected, digits) == text(got, digits)) ++digits;
  return "expected " + text(expected, digits) + ", got " + text(got, digits);
}

std::string CheckReport::nan_text() const {
  std::string result;
  const auto add = [&](const ElementCount& count, const char* what) {
    if (count.elements == 0) return;
    result += (result.empty() ? "" : "; ") + std::to_string(count.elements) +
              (count.elements == 1 ? " element is " : " elements are ") + what + ", the first at " +
              count.first.to_string();
  };
  add(nan_for_number, "NaN where the reference has a number");
  add(nan_expected, "NaN as in the reference");
  add(undefined, "undefined, as sums may exceed float32, and not compared");
  return result;
}

std::string CheckReport::to_string() const {
  std::string line =
      std::to_string(rows_checked) + " rows, " + std::to_string(elements_checked) + " elements";
  if (elements_checked > 0) {
    line += ": largest error " + text(largest_error) + ", " + text(largest_share) + " of the tolerance, at " +
            worst().to_string() + ", " + values_text(6);
  }
  if (const std::string nan = nan_text(); !nan.empty()) line += "; " + nan;
  if (elements_unwritten > 0)
    line += "; " + std::to_string(elements_unwritten) + " elements were never written";
  if (!guard_intact) line += "; " + guard_message;
  return line;
}

namespace {

/// Reads tensors of the table into views: the written ones if `written`, otherwise the others.
Result<void> read_views(const Runtime& runtime, const detail::PerTensor<TensorBuffer>& tensors, bool written,
                        detail::PerTensor<HostView>& views) {
  for (const detail::TensorRow& row : detail::tensor_table()) {
    if (row.use.written != written) continue;
    Result<HostView> read = HostView::of(runtime, tensors[row.range]);
    if (!read.ok()) return read.error();
    views[row.range] = std::move(read).value();
  }
  return {};
}

}  // namespace

Result<void> ProblemRun::visit_inputs(const std::function<void(const reference::Inputs&)>& visit) const {
  detail::PerTensor<HostView> views;
  if (Result<void> status = read_views(*runtime_, tensors_, false, views); !status.ok()) return status;
  reference::Inputs inputs{
      detail::host_tensors([&](const detail::TensorRow& row) { return views[row.range].tensor(); })};
  inputs.dropout_seed = problem_.dropout_seed;
  inputs.dropout_offset = problem_.dropout_offset;
  inputs.score_hook = score_hook_;
  visit(inputs);
  return {};
}

Result<CheckReport> ProblemRun::check(const RowSelection& selection, const Progress& progress) const {
  const AttentionDesc& desc = problem_.desc;
  detail::PerTensor<HostView> views;
  if (Result<void> status = read_views(*runtime_, tensors_, true, views); !status.ok()) return status.error();
  const HostView& output = views[&AttentionTensors::output];
  const HostView& lse = views[&AttentionTensors::lse];
  const HostView& weights = views[&AttentionTensors::weights];
  CheckReport report;
  const Result<void> status = visit_inputs([&](const reference::Inputs& inputs) {
    const OutputViews outputs{OutputView(output_shape(desc), output), OutputView(lse_shape(desc), lse),
                              OutputView(weights_shape(desc), weights)};
    const Comparison prototype(desc, inputs, outputs, probability_type_, arithmetic_type_);
    report = compare_rows(select_rows(desc, inputs, selection), prototype, progress);
    const WrittenRows written(desc, inputs);
    for (const detail::TensorRow& row : detail::tensor_table()) {
      if (!row.use.written) continue;
      const auto is_stored = [&](const Position& position) {
        return row.cut == detail::TensorCut::kScores ? written.weights(position) : written.stored(position);
      };
      check_guards(row.name, tensor_shape(row.range, desc), tensor(row.range), views[row.range].bytes(),
                   is_stored, report);
    }
  });
  if (!status.ok()) return status.error();
  return report;
}

}  // namespace vkattn::harness
