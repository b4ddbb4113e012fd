// A problem on a device: buffers with random data, poisoned outputs and guard bands, execution, and the
// comparison with the float64 reference. The command line tool, the benchmark and the tests use it.
#pragma once

#include <vkattn/runtime.hpp>

#include <array>
#include <functional>
#include <string>
#include <vector>

#include "attention/tensor_table.hpp"
#include "harness/runnable.hpp"
#include "harness/small_inputs.hpp"
#include "harness/tensor_buffer.hpp"
#include "problem/problem.hpp"
#include "reference/reference.hpp"

namespace vkattn::harness {

/// The kind of output that a compared element belongs to.
enum class CheckedOutput { kOutput, kLse, kWeights, kGradient, kProduct };

/// One compared element.
struct CheckedElement {
  reference::RowIndex row;
  CheckedOutput output = CheckedOutput::kOutput;
  std::int64_t index = 0;        ///< the dim, or the key for an element of the weights
  std::string_view tensor = {};  ///< the name of a gradient; the text lives as long as the program

  /// For example "batch 0, head 1, query 2, dim 4". Other outputs end with "lse" or "weight of key 7". A
  /// gradient gives "batch 0, head 1, row 2, dim 4 of grad_key", a product "batch 0, row 3, column 4".
  [[nodiscard]] std::string to_string() const;
};

/// How many elements of one kind there are, and the first of them.
struct ElementCount {
  std::int64_t elements = 0;
  CheckedElement first;       ///< the first by row, then by the order of the row's outputs
  std::size_t first_row = 0;  ///< the number of that row among the compared rows

  void add(const CheckedElement& element, std::size_t row);
  void add(const ElementCount& other);
};

/// The outcome of a comparison with the reference.
struct CheckReport {
  std::int64_t rows_checked = 0;
  std::int64_t elements_checked = 0;    ///< undefined elements not counted
  std::int64_t rows_not_zero = 0;       ///< compared rows whose exact output is not all zeros
  std::int64_t elements_telling = 0;    ///< compared elements of the output for which a zero would fail
  std::int64_t elements_unwritten = 0;  ///< elements of all rows, compared or not, that still hold the poison
  double largest_error = 0;             ///< |o - ref| of the element with the largest share
  double largest_share = 0;  ///< error / tolerance: above 1 is a failure; infinity if NaN stands for a number
  reference::RowIndex where;  ///< the row of that element
  CheckedOutput where_output = CheckedOutput::kOutput;
  std::int64_t where_index = 0;        ///< the dim, or the key for an element of the weights
  std::string_view where_tensor = {};  ///< CheckedElement::tensor
  double expected = 0, got = 0;        ///< the values of that element
  ElementCount nan_for_number;         ///< NaN where the reference has a number
  ElementCount nan_expected;           ///< NaN in both
  ElementCount undefined;     ///< not compared: a float32 sum may overflow, so the result is undefined
  bool guard_intact = true;   ///< no byte outside of the outputs was written
  std::string guard_message;  ///< which byte was written, if one was
  [[nodiscard]] bool passed() const {
    return guard_intact && elements_unwritten == 0 && largest_share <= 1.0;
  }
  /// Adds a written element of a gradient or of a product.
  void add(const CheckedElement& element, double wanted, double found, double tolerance, DataType type);
  /// The element with the largest share.
  [[nodiscard]] CheckedElement worst() const { return {where, where_output, where_index, where_tensor}; }
  /// The place of the element in its row: "dim 4", "lse" or "weight of key 7".
  [[nodiscard]] std::string where_text() const;
  /// "expected 0.5, got 0.25" with at least `digits` digits, and more if the two numbers would look equal.
  [[nodiscard]] std::string values_text(int digits) const;
  /// How many NaN there are and where the first one is. Empty if there is none.
  [[nodiscard]] std::string nan_text() const;
  /// One line: the largest error, its share of the tolerance and its place, or what is broken.
  [[nodiscard]] std::string to_string() const;
};

/// Which rows to compare.
struct RowSelection {
  std::int64_t max_rows =
      -1;  ///< -1: all rows; otherwise first, last, rows around tile edges and random rows, up to this number
  std::uint64_t seed = 1;
};

/// Called from time to time with the share of the work that is done, 0 to 1.
using Progress = std::function<void(double)>;

/// The buffers of one problem. The descriptor inside the problem says where elements lie.
class ProblemRun {
 public:
  /// Allocates buffers for the problem on the device. Every tensor gets guard bands of at least 64 elements
  /// on both sides, inside the bound range if the layout allows it.
  [[nodiscard]] static Result<ProblemRun> create(const Runtime& runtime, const Problem& problem);

  ProblemRun(ProblemRun&&) noexcept = default;
  ProblemRun& operator=(ProblemRun&&) noexcept = default;

  /// Fills Q, K and V with the problem's random data (never zeros) and writes every other input. Memory that
  /// belongs to no element is poisoned: with NaN, with numbers that would show keys, with numbers of spare
  /// pages. Keys that the problem appends are written by the device.
  [[nodiscard]] Result<void> fill_inputs();
  /// Fills output, lse and weights, and everything around them, with a pattern that no kernel writes.
  [[nodiscard]] Result<void> poison_outputs();
  /// Executes the plan once (Runnable::execute). Returns the nanoseconds of the execution.
  [[nodiscard]] Result<double> execute(const Runnable& plan);
  /// Compares with the reference, which reads the device's inputs. Checks the guard bands.
  [[nodiscard]] Result<CheckReport> check(const RowSelection& selection = {},
                                          const Progress& progress = {}) const;

  /// Calls visit with the inputs that the reference reads from the device. A test may have changed them.
  [[nodiscard]] Result<void> visit_inputs(const std::function<void(const reference::Inputs&)>& visit) const;

  /// Sets AttentionPlan::probability_type() of a plan that the caller records. check() allows for it.
  void set_probability_type(DataType type) { probability_type_ = type; }
  [[nodiscard]] DataType probability_type() const { return probability_type_; }
  /// Sets AttentionPlan::arithmetic_type() of a plan that the caller records.
  void set_arithmetic_type(DataType type) { arithmetic_type_ = type; }

  /// Sets a score function that the problem string does not name: its buffers, which must outlive the run,
  /// and its equivalent for the reference.
  void set_score_function(const std::array<BufferRange, kMaxScoreBuffers>& buffers,
                          reference::ScoreHook hook) {
    score_buffers_ = buffers;
    score_hook_ = std::move(hook);
  }

  /// Sets AttentionTensors::block_mask and block_mask_complete.
  void set_block_mask(const BufferRange& range, bool complete) {
    block_mask_ = range;
    block_mask_complete_ = complete;
  }

  [[nodiscard]] const Problem& problem() const { return problem_; }
  [[nodiscard]] AttentionTensors tensors() const;

  /// Places of tensors, for callers that fill or read them.
  using Tensor = TensorBuffer;
  [[nodiscard]] const Tensor& tensor(BufferRange AttentionTensors::*which) const { return tensors_[which]; }
  [[nodiscard]] const Tensor& query() const { return tensor(&AttentionTensors::query); }
  [[nodiscard]] const Tensor& key() const { return tensor(&AttentionTensors::key); }
  [[nodiscard]] const Tensor& value() const { return tensor(&AttentionTensors::value); }
  [[nodiscard]] const Tensor& output() const { return tensor(&AttentionTensors::output); }
  [[nodiscard]] const Tensor& lse() const { return tensor(&AttentionTensors::lse); }

 private:
  ProblemRun(const Runtime& runtime, Problem problem) : runtime_(&runtime), problem_(std::move(problem)) {}
  [[nodiscard]] Result<void> place_score_function();
  [[nodiscard]] Result<void> fill_small_inputs(const SmallInputs& inputs);

  const Runtime* runtime_;
  Problem problem_;
  DataType probability_type_ = DataType::kFloat32;  ///< of the plan executed last
  DataType arithmetic_type_ = DataType::kFloat32;
  detail::PerTensor<Tensor> tensors_;
  std::vector<Tensor> score_tables_;  ///< of the problem's own score function
  std::array<BufferRange, kMaxScoreBuffers> score_buffers_{};
  reference::ScoreHook score_hook_;
  BufferRange block_mask_;
  bool block_mask_complete_ = false;
};

}  // namespace vkattn::harness
