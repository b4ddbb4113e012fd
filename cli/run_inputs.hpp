// Makes a Problem from .npy files: gives each axis its meaning, and checks that the arrays fit together.
#pragma once

#include <vkattn/attention_tensors.hpp>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "npy.hpp"
#include "problem/problem.hpp"
#include "reference/reference.hpp"

namespace vkattn::cli {

using bench::Problem;

/// An input array and its part in the problem.
struct InputFile {
  std::string role;  ///< query, key, value, past key or past value
  npy::Reader reader;
  // The layout gives these sizes from the array's shape.
  std::int64_t batch = 1;
  std::int64_t heads = 1;
  std::int64_t length = 0;
  std::int64_t dim = 0;

  [[nodiscard]] std::size_t rank() const { return reader.header().shape.size(); }
  /// "key 'K.npy' (2, 8, 512, 64)", for messages.
  [[nodiscard]] std::string text() const;
};

/// A mask. Its memory is that of the file, with elements added for keys that the file is too short for.
struct MaskFile {
  npy::Reader reader;
  /// `run` elements of the file and then `missing` elements that hide alternate. If none are missing, `run`
  /// is the whole file.
  std::int64_t run = 0;
  std::int64_t missing = 0;
};

/// A file with one number for each query head.
struct PerHeadFile {
  std::string option, path;
  BufferRange AttentionTensors::*tensor;
};

/// The contents of a PerHeadFile.
struct PerHeadNumbers {
  BufferRange AttentionTensors::*tensor;
  std::vector<float> numbers;
};

/// The files that are read. A path is empty if its option is not given.
struct RunFiles {
  std::string query, key, value, past_key, past_value, mask, kv_lengths, query_lengths;
  std::string cumulative_query_lengths, cumulative_kv_lengths;
  std::string ring_lengths, page_table, query_positions, key_positions, rotary_frequencies;
  std::string grad_output, grad_lse;  ///< for the backward pass
};

/// What the options say about the problem, and the files that they name. A path is empty if its option is not
/// given.
struct RunOptions : RunFiles {
  std::vector<PerHeadFile> per_head;
  std::optional<DataType> type;  ///< default: float16 if all inputs are float16, otherwise float32
  std::optional<DataType> key_type, value_type;  ///< default: `type`
  Problem problem;                               ///< everything that files do not say
  RotaryDesc rotary = {};                        ///< 0 dims means all dims
  bool is_align_left_out =
      false;  ///< an option depends on the positions of queries, but --align is not given
};

/// Queries or keys that are turned by their positions. An append of one row for each row turns them in place.
struct TurnedRows {
  BufferRange AttentionTensors::*tensor;
  AppendDesc desc;                      ///< appends the rows of one batch entry
  std::int64_t entry_stride;            ///< elements from one batch entry to the next
  std::vector<std::int32_t> positions;  ///< one for each row of each entry
};

/// The opened files of a run, and the problem that they make.
struct RunInputs {
  InputFile query, key, value;
  std::optional<InputFile> past_key, past_value, grad_output, grad_lse;
  std::optional<MaskFile> mask;
  std::vector<PerHeadNumbers> per_head;
  std::vector<std::int32_t> cumulative_query_lengths, cumulative_kv_lengths;  ///< empty if not packed
  std::vector<TurnedRows> turned;                                             ///< by --rotary
  std::vector<float> frequencies;                                             ///< from --rotary-frequencies
  std::vector<std::int32_t> page_table;                                       ///< empty if there are no pages
  Problem problem;
  std::vector<std::string> warnings;  ///< about arguments that may be meant differently
};

/// Ends the command, because `because` needs the file's array row by row.
[[noreturn]] void refuse_fortran_order(const std::string& file, const std::string& because);

/// The run's lengths in the form that the reference takes. They still belong to the run.
[[nodiscard]] reference::Inputs lengths_of(const RunInputs& inputs);

/// Opens the files, checks their shapes against each other and makes the descriptor. Arrays in Fortran order
/// are bound with strides. Like everything here it throws CommandError.
[[nodiscard]] RunInputs open_run_inputs(const RunOptions& options);

/// Opens a mask and describes its memory in the problem. The mask's shape must broadcast to the scores by
/// NumPy's rules.
[[nodiscard]] MaskFile open_mask(const std::string& path, Problem& problem);

/// Reads the places of packed sequences from the options that are given. Packed arrays have no batch axis,
/// and the last sequence ends at the array's end.
void open_sequences(const RunOptions& options, RunInputs& inputs);
/// Gives the problem one batch entry for each sequence, and the length of the longest sequence.
void set_sequences(const RunOptions& options, RunInputs& inputs);

/// Puts keys and values into a ring or into pages, if the options say so, and sets their lengths. Keys in
/// batch entries must have the problem's batch size, or a single entry for all.
void set_cache(const RunOptions& options, RunInputs& inputs);
/// Reads the positions and frequencies of --rotary. Without a file of positions they are those that attention
/// sees: key j of a batch entry is at j, and query i at i + offset.
void open_rotary(const RunOptions& options, RunInputs& inputs);
/// Reads the page table. Pages that hold keys in use must exist.
void open_page_table(const RunOptions& options, RunInputs& inputs);

/// The shape of the output. It has the query's rank and order of axes.
[[nodiscard]] std::vector<std::int64_t> output_shape(const Problem& problem, std::size_t rank);
/// (batch, heads, length), without the axes that the query's rank leaves out. The order of axes does not
/// depend on the layout.
[[nodiscard]] std::vector<std::int64_t> lse_shape(const Problem& problem, std::size_t rank);
/// The lse's shape followed by the key length. For packed queries (batch, heads, longest query length, key
/// length).
[[nodiscard]] std::vector<std::int64_t> weights_shape(const Problem& problem, std::size_t rank);
/// The shape of all keys or values. It has the rank, batch and order of axes of the key file.
[[nodiscard]] std::vector<std::int64_t> present_shape(const RunInputs& inputs, bool of_value);
/// Whether the keys or values of one batch entry serve several entries of queries.
[[nodiscard]] bool repeats(const InputFile& input, const AttentionDesc& desc);

}  // namespace vkattn::cli
