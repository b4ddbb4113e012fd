// float64 matrix multiplication on the CPU: the oracle for its kernels. Shares no code with them.
#pragma once

#include <vkattn/host_tensors.hpp>
#include <vkattn/matmul.hpp>

#include <cstdint>
#include <vector>

namespace vkattn::reference {

/// The tensors of a matrix multiplication in host memory. `output` is what it held before, where the
/// descriptor accumulates.
struct MatmulInputs {
  HostInput a{}, b{}, bias{}, output{};
};

/// One row of the output.
struct MatmulRow {
  std::vector<double> output;
  std::vector<double> magnitude;  ///< the sums of the magnitudes that each element is the sum of
  std::vector<double> flushed;    ///< what a device that flushes may lose of its products
};

/// The products of a valid and resolved descriptor, row by row. The inputs must outlive it.
class MatmulReference {
 public:
  MatmulReference(const MatmulDesc& desc, const MatmulInputs& inputs) : desc_(desc), inputs_(inputs) {}

  /// Rows of one product after the other: b is decoded once for each.
  [[nodiscard]] const MatmulRow& row(std::int64_t batch, std::int64_t row);

  /// The largest |o - ref| allowed for an element of the row that was computed last; kUndefined where float32
  /// may not hold it.
  [[nodiscard]] double tolerance(std::int64_t column) const;

 private:
  void decode_columns(std::int64_t batch);

  MatmulDesc desc_;
  MatmulInputs inputs_;
  std::int64_t decoded_batch_ = -1;
  std::vector<std::vector<double>> columns_;  ///< of b
  std::vector<double> a_row_;
  MatmulRow row_;
};

}  // namespace vkattn::reference
