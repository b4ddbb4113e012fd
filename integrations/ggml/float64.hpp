// The output of a graph of ggml beside vkattn's float64 reference.
#pragma once

#include <cstdint>
#include <vector>

#include "graph.hpp"
#include "reference/reference.hpp"

namespace vkattn::ggml {

/// The largest error of some elements, and its share of what docs/semantics.md allows.
struct Error {
  double error = 0;
  double share = 0;  ///< infinity where a number is no number
};

/// The numbers of a graph in float32, as a problem without anything of ggml.
class Float64 {
 public:
  Float64(const Shape& shape, const Graph& graph);

  /// Compares a row of an output, (batch, query, head, dim) as ggml has it.
  [[nodiscard]] Error compare(const std::vector<float>& output, const reference::RowIndex& row) const;
  /// Compares all rows.
  [[nodiscard]] Error compare(const std::vector<float>& output) const;
  /// Compares the first, the middle and the last query of the first and the last head.
  [[nodiscard]] Error compare_some(const std::vector<float>& output) const;

 private:
  AttentionDesc desc_;
  std::vector<float> query_, key_, value_, bias_, sinks_;
  reference::Inputs inputs_;
};

}  // namespace vkattn::ggml
