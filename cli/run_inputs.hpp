// From .npy files to a Problem: what the axes of each array mean, and whether the arrays fit together.
#pragma once

#include <vkattn/problem.hpp>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "npy.hpp"

namespace vkattn::cli {

/// An input array with its part in the problem.
struct InputFile {
  std::string role;  ///< query, key or value
  npy::Reader reader;
  // Read by the layout from the array's shape.
  std::int64_t batch = 1;
  std::int64_t heads = 1;
  std::int64_t length = 0;
  std::int64_t dim = 0;

  [[nodiscard]] std::size_t rank() const { return reader.header().shape.size(); }
  /// "key 'K.npy' (2, 8, 512, 64)", for messages.
  [[nodiscard]] std::string text() const;
};

/// What the options say of the problem.
struct ProblemOptions {
  Layout layout = Layout::kBhsd;
  std::optional<DataType> type;  ///< else float16 where all inputs are, else float32
  std::optional<float> scale;
  bool causal = false;
  Align align = Align::kTopLeft;
  std::int64_t offset = 0;
  bool lse = false;
  std::string kv_lengths_path;
};

/// Opens a floating-point array of rank 2 to 4. Like all here: throws CommandError.
[[nodiscard]] InputFile open_input(const std::string& role, const std::string& path, Layout layout);

/// Checks the shapes against each other and makes the descriptor; arrays in Fortran order are bound by
/// strides.
[[nodiscard]] Problem make_problem(const InputFile& query, const InputFile& key, const InputFile& value,
                                   const ProblemOptions& options);

/// The shape of the output, with the rank and the order of axes of the query.
[[nodiscard]] std::vector<std::int64_t> output_shape(const Problem& problem, std::size_t rank);
/// (batch, heads, length), less what the query's rank leaves out; the order of axes does not depend on the
/// layout.
[[nodiscard]] std::vector<std::int64_t> lse_shape(const Problem& problem, std::size_t rank);

}  // namespace vkattn::cli
