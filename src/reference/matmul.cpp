// Matrix multiplication in float64: see matmul.hpp, and docs/semantics.md for the tolerance.
#include "reference/matmul.hpp"

#include <cmath>

#include "reference/storage.hpp"
#include "reference/storage_tolerance.hpp"

namespace vkattn::reference {

void MatmulReference::decode_columns(std::int64_t batch) {
  if (decoded_batch_ == batch) return;
  decoded_batch_ = batch;
  columns_.resize(static_cast<std::size_t>(desc_.columns));
  const MatrixStrides& strides = *desc_.b.strides;
  for (std::int64_t column = 0; column < desc_.columns; ++column) {
    decode({inputs_.b.bytes().data(), desc_.b.type, batch * strides.batch + column * strides.column,
            strides.row, desc_.inner},
           columns_[static_cast<std::size_t>(column)]);
  }
}

const MatmulRow& MatmulReference::row(std::int64_t batch, std::int64_t row) {
  decode_columns(batch);
  const MatrixStrides& strides = *desc_.a.strides;
  if (desc_.a_is_ones) {
    a_row_.assign(static_cast<std::size_t>(desc_.inner), 1.0);
  } else {
    decode({inputs_.a.bytes().data(), desc_.a.type, batch * strides.batch + row * strides.row, strides.column,
            desc_.inner},
           a_row_);
  }
  std::vector<double> bias, before;
  if (desc_.has_bias) decode({inputs_.bias.bytes().data(), desc_.bias_type, 0, 1, desc_.columns}, bias);
  if (desc_.accumulates) {
    const MatrixStrides& output = *desc_.output.strides;
    decode({inputs_.output.bytes().data(), desc_.output.type, batch * output.batch + row * output.row,
            output.column, desc_.columns},
           before);
  }
  row_.output.assign(static_cast<std::size_t>(desc_.columns), 0.0);
  row_.magnitude = row_.flushed = row_.output;
  for (std::size_t c = 0; c < columns_.size(); ++c) {
    ProductSum sum;
    for (std::size_t k = 0; k < a_row_.size(); ++k) sum.add(a_row_[k], columns_[c][k]);
    row_.flushed[c] = sum.flushed();
    for (const double term : {desc_.has_bias ? bias[c] : 0.0, desc_.accumulates ? before[c] : 0.0}) {
      sum.sum += term;
      sum.magnitude += std::abs(term);
    }
    row_.output[c] = sum.sum;
    row_.magnitude[c] = sum.magnitude;
  }
  return row_;
}

double MatmulReference::tolerance(std::int64_t column) const {
  const auto c = static_cast<std::size_t>(column);
  const auto inner = static_cast<double>(desc_.inner);
  if (overflows(row_.magnitude[c])) return kUndefined;
  return (16.0 + std::sqrt(inner)) * 0x1p-24 * row_.magnitude[c] +
         storage_tolerance(desc_.output.type, std::abs(row_.output[c])) + kLeastNormal * (1.0 + inner) +
         row_.flushed[c];
}

}  // namespace vkattn::reference
