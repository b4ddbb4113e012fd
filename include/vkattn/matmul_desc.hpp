/// @file
/// What a matrix multiplication computes, and the block sizes of its kernels.
#pragma once

#include <vkattn/attention.hpp>
#include <vkattn/data_type.hpp>

#include <cstdint>
#include <optional>
#include <string>

namespace vkattn {

/// Distances in elements between neighbours of a batch of matrices. Never negative. Inputs may repeat with
/// stride 0; elements of the output must not overlap.
struct MatrixStrides {
  std::int64_t batch = 0;   ///< between matrices
  std::int64_t row = 0;     ///< between the rows of a matrix
  std::int64_t column = 1;  ///< between the elements of a row

  /// Whether the elements of a column lie side by side, and those of a row do not.
  [[nodiscard]] bool is_transposed() const { return row == 1 && column != 1; }
  bool operator==(const MatrixStrides&) const = default;  ///< equal in every member
};

/// Storage of a batch of matrices.
struct MatrixDesc {
  DataType type = DataType::kFloat32;  ///< kFloat32, kFloat16 or kBfloat16; of `b` also kQ8_0 or kQ4_0
  /// Not given: (batch, row, column) without padding. The block formats have blocks along `inner`: there b is
  /// (batch, column, row), which is how weights (out_features, in_features) are stored; their row stride is
  /// 1 and the others are multiples of 32.
  std::optional<MatrixStrides> strides{};
  /// As TensorDesc::alignment_bytes: promised alignment of the first element; 0: the element's size alone.
  std::uint32_t alignment_bytes = 16;

  bool operator==(const MatrixDesc&) const = default;  ///< equal in every member
};

/// output = a b + bias for each batch entry: a is (rows, inner), b (inner, columns), output (rows, columns);
/// elsewhere these sizes are M, K and N. Sums are float32. Transposed matrices are strides, so with
/// Y = X W + b of X (M, K) and W (K, N) the gradients are
///
///     dX = dY W^T    rows M, inner N, columns K; b is W with its strides exchanged
///     dW = X^T dY    rows K, inner M, columns N; a is X with its strides exchanged
///     db = 1^T dY    sum_columns(M, N)
struct MatmulDesc {
  using Plan = class MatmulPlan;  ///< what computes it

  std::int64_t batch = 1;         ///< products
  std::int64_t rows = kUnset;     ///< of a and output; must be given
  std::int64_t columns = kUnset;  ///< of b and output; must be given
  std::int64_t inner = kUnset;    ///< columns of a, rows of b; must be given. 0: the sums are 0
  MatrixDesc a{};                 ///< (batch, rows, inner)
  MatrixDesc b{};                 ///< (batch, inner, columns)
  MatrixDesc output{};            ///< (batch, rows, columns)
  /// A vector of `columns` elements side by side is added to each row.
  bool has_bias = false;
  DataType bias_type = DataType::kFloat32;  ///< kFloat32, kFloat16 or kBfloat16
  /// The previous content of output is added too, as float32.
  bool accumulates = false;
  /// `a` is all ones and has no tensor: each row of output has the sums of b's columns.
  bool a_is_ones = false;

  /// The sums of the columns of (rows, columns) matrices, such as the gradient of a bias: the output has one
  /// row.
  [[nodiscard]] static MatmulDesc sum_columns(std::int64_t rows, std::int64_t columns,
                                              DataType type = DataType::kFloat32);

  /// The same with all strides given, as MatmulPlan::desc() has them. Sizes that were not given stay so.
  [[nodiscard]] MatmulDesc resolved() const;

  bool operator==(const MatmulDesc&) const = default;  ///< equal in every member
};

/// Block sizes of a matrix multiplication; 0 for sizes that a kernel does not use, which it refuses.
struct MatmulTile {
  std::uint32_t threads = 0;  ///< of a workgroup
  std::uint32_t rows = 0;     ///< of an invocation; of the matrix kernel, of a subgroup
  std::uint32_t columns = 0;  ///< likewise
  /// Elements of `inner` visited in one step; vectors of 8 where lane_decode reads these. With rows 1 it then
  /// reads rows one by one, and this is the most vectors of a step: the largest that divides `inner` is
  /// taken.
  std::uint32_t inner = 0;
  std::uint32_t subgroups = 0;  ///< of a workgroup, for the matrix kernel in place of threads
  /// Of the matrix kernel, 0 or 2. 2: it stages operands in two places by turns, in twice the shared memory,
  /// and its subgroups wait for one another once a step, not twice.
  std::uint32_t stages = 0;

  bool operator==(const MatmulTile&) const = default;  ///< equal in every member
};

/// Operands that are copied before they are multiplied: as float32 with `inner` in rows, to the workspace.
/// For CPUs, which read quantised weights, elements at any address and large matrices that lie across slowly.
struct MatmulCopies {
  bool a = false;                                        ///< not where it is all ones
  bool b = false;                                        ///< quantised or not
  bool operator==(const MatmulCopies&) const = default;  ///< equal in both
};

/// "threads 256, rows 4, columns 4": what is not 0.
[[nodiscard]] std::string to_string(const MatmulTile& tile);

}  // namespace vkattn
