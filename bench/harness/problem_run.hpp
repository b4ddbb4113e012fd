// A problem brought to life on a device: buffers with random data, poisoned outputs and guard bands,
// execution, and the comparison with the float64 reference. Used by the command line tool, the benchmark and
// the tests.
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

/// What an element that was compared belongs to.
enum class CheckedOutput { kOutput, kLse, kWeights, kGradient, kProduct };

/// An element that was compared.
struct CheckedElement {
  reference::RowIndex row;
  CheckedOutput output = CheckedOutput::kOutput;
  std::int64_t index = 0;        ///< its dim, or of the weights the key
  std::string_view tensor = {};  ///< of a gradient its name, which lives as long as the program

  /// "batch 0, head 1, query 2, dim 4"; at the end "lse" or "weight of key 7" of other outputs; of gradients
  /// "batch 0, head 1, row 2, dim 4 of grad_key"; of products "batch 0, row 3, column 4".
  [[nodiscard]] std::string to_string() const;
};

/// Elements of one kind: how many, and the first of them.
struct ElementCount {
  std::int64_t elements = 0;
  CheckedElement first;       ///< by row, then in the order of its outputs
  std::size_t first_row = 0;  ///< the row's number among those compared

  void add(const CheckedElement& element, std::size_t row);
  void add(const ElementCount& other);
};

/// The outcome of a comparison with the reference.
struct CheckReport {
  std::int64_t rows_checked = 0;
  std::int64_t elements_checked = 0;    ///< without those that are undefined
  std::int64_t rows_not_zero = 0;       ///< of those compared, whose exact output is not all zeros
  std::int64_t elements_telling = 0;    ///< of the output, those where a zero would have failed
  std::int64_t elements_unwritten = 0;  ///< of all rows, checked or not: what still holds the poison
  double largest_error = 0;             ///< |o - ref| of the element with the largest share
  double largest_share = 0;   ///< of its tolerance: above 1 is a failure; NaN against a number is infinity
  reference::RowIndex where;  ///< of that element
  CheckedOutput where_output = CheckedOutput::kOutput;
  std::int64_t where_index = 0;        ///< its dim, or of the weights the key
  std::string_view where_tensor = {};  ///< CheckedElement::tensor
  double expected = 0, got = 0;        ///< at that element
  ElementCount nan_for_number;         ///< NaN where the reference has a number
  ElementCount nan_expected;           ///< NaN in both
  ElementCount undefined;     ///< not compared: a float32 sum may overflow, so that nothing is defined
  bool guard_intact = true;   ///< no byte outside of the outputs was written
  std::string guard_message;  ///< where not
  [[nodiscard]] bool passed() const {
    return guard_intact && elements_unwritten == 0 && largest_share <= 1.0;
  }
  /// Takes an element into account that was written, of a gradient or a product.
  void add(const CheckedElement& element, double wanted, double found, double tolerance, DataType type);
  /// The element with the largest share.
  [[nodiscard]] CheckedElement worst() const { return {where, where_output, where_index, where_tensor}; }
  /// Where in the row it is: "dim 4", "lse" or "weight of key 7".
  [[nodiscard]] std::string where_text() const;
  /// "expected 0.5, got 0.25", with at least that many digits: as many as it takes to tell the two apart.
  [[nodiscard]] std::string values_text(int digits) const;
  /// How many NaN there are and where the first is; empty where there is none.
  [[nodiscard]] std::string nan_text() const;
  /// One line: the largest error, its share of the tolerance and where, or what is broken.
  [[nodiscard]] std::string to_string() const;
};

/// Which rows to compare.
struct RowSelection {
  std::int64_t max_rows =
      -1;  ///< -1: all; else first, last, around tile edges, and random ones up to this many
  std::uint64_t seed = 1;
};

/// Called from time to time with the share of the work done, 0 to 1.
using Progress = std::function<void(double)>;

/// Buffers of one problem. The descriptor inside the problem says where elements lie.
class ProblemRun {
 public:
  /// Allocates buffers for the problem on the device. All tensors get guard bands of at least 64 elements on
  /// either side, inside the bound range where the layout allows it.
  [[nodiscard]] static Result<ProblemRun> create(const Runtime& runtime, const Problem& problem);

  ProblemRun(ProblemRun&&) noexcept = default;
  ProblemRun& operator=(ProblemRun&&) noexcept = default;

  /// Fills Q, K and V with the problem's random data (never zeros) and writes every other input. Memory that
  /// holds nothing of the problem is poisoned: NaN, numbers that would show keys, spare pages. Keys that the
  /// problem appends come there by the device.
  [[nodiscard]] Result<void> fill_inputs();
  /// Fills output, lse and weights, with everything around them, with a pattern no kernel writes.
  [[nodiscard]] Result<void> poison_outputs();
  /// Makes bindings, executes the plan once and waits; nanoseconds of the execution.
  [[nodiscard]] Result<double> execute(const Runnable& plan);
  /// Compares with the reference of what the device's inputs hold, and checks the guard bands.
  [[nodiscard]] Result<CheckReport> check(const RowSelection& selection = {},
                                          const Progress& progress = {}) const;

  /// Calls visit with what the reference reads of the device's inputs, as tests may have changed them.
  [[nodiscard]] Result<void> visit_inputs(const std::function<void(const reference::Inputs&)>& visit) const;

  /// AttentionPlan::probability_type() of a plan that the caller records himself: check() allows for it.
  void set_probability_type(DataType type) { probability_type_ = type; }
  [[nodiscard]] DataType probability_type() const { return probability_type_; }
  /// AttentionPlan::arithmetic_type(), likewise.
  void set_arithmetic_type(DataType type) { arithmetic_type_ = type; }

  /// The buffers of a score function, which must outlive the run, and what it does to scores in the
  /// reference: of one that the problem does not bring along.
  void set_score_function(const std::array<BufferRange, kMaxScoreBuffers>& buffers,
                          reference::ScoreHook hook) {
    score_buffers_ = buffers;
    score_hook_ = std::move(hook);
  }

  /// AttentionTensors::block_mask and block_mask_complete.
  void set_block_mask(const BufferRange& range, bool complete) {
    block_mask_ = range;
    block_mask_complete_ = complete;
  }

  [[nodiscard]] const Problem& problem() const { return problem_; }
  [[nodiscard]] AttentionTensors tensors() const;

  /// For programs that fill or read it themselves.
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
  std::vector<Tensor> score_tables_;  ///< of the problem's own function
  std::array<BufferRange, kMaxScoreBuffers> score_buffers_{};
  reference::ScoreHook score_hook_;
  BufferRange block_mask_;
  bool block_mask_complete_ = false;
};

}  // namespace vkattn::harness
