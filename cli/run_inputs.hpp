// From .npy files to a Problem: what the axes of each array mean, and whether the arrays fit together.
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

/// An input array with its part in the problem.
struct InputFile {
  std::string role;  ///< query, key, value, past key or past value
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

/// A mask, whose memory is that of the file but for keys that it is too short for.
struct MaskFile {
  npy::Reader reader;
  /// So many elements of the file, then so many that hide: over and over. All of the file where none are
  /// missing.
  std::int64_t run = 0;
  std::int64_t missing = 0;
};

/// A file with a number for each query head.
struct PerHeadFile {
  std::string option, path;
  BufferRange AttentionTensors::*tensor;
};

/// What was in it.
struct PerHeadNumbers {
  BufferRange AttentionTensors::*tensor;
  std::vector<float> numbers;
};

/// The files that are read, empty where not given.
struct RunFiles {
  std::string query, key, value, past_key, past_value, mask, kv_lengths, query_lengths;
  std::string cumulative_query_lengths, cumulative_kv_lengths;
  std::string ring_lengths, page_table, query_positions, key_positions, rotary_frequencies;
  std::string grad_output;  ///< of the backward pass
};

/// What the options say of the problem, and the files they name, empty where not given.
struct RunOptions : RunFiles {
  std::vector<PerHeadFile> per_head;
  std::optional<DataType> type;                  ///< else float16 where all inputs are, else float32
  std::optional<DataType> key_type, value_type;  ///< else as `type`
  Problem problem;                               ///< what files do not say
  RotaryDesc rotary = {};                        ///< with 0 dims: of all
  bool is_align_left_out = false;                ///< where positions of queries count
};

/// Queries or keys that are turned by their positions: an append of one row for each, in place.
struct TurnedRows {
  BufferRange AttentionTensors::*tensor;
  AppendDesc desc;                      ///< of the rows of one batch entry
  std::int64_t entry_stride;            ///< elements between two batch entries
  std::vector<std::int32_t> positions;  ///< of each row of each entry
};

/// The files of a run, opened, and the problem that they make.
struct RunInputs {
  InputFile query, key, value;
  std::optional<InputFile> past_key, past_value, grad_output;
  std::optional<MaskFile> mask;
  std::vector<PerHeadNumbers> per_head;
  std::vector<std::int32_t> cumulative_query_lengths, cumulative_kv_lengths;  ///< empty where not packed
  std::vector<TurnedRows> turned;                                             ///< by --rotary
  std::vector<float> frequencies;                                             ///< of --rotary-frequencies
  std::vector<std::int32_t> page_table;                                       ///< empty where there are none
  Problem problem;
  std::vector<std::string> warnings;  ///< of what may be meant otherwise
};

/// Ends the command: what `because` names needs the file's array row by row.
[[noreturn]] void refuse_fortran_order(const std::string& file, const std::string& because);

/// The lengths of the run as the reference takes them, which stay the run's own.
[[nodiscard]] reference::Inputs lengths_of(const RunInputs& inputs);

/// Opens the files, checks their shapes against each other and makes the descriptor; arrays in Fortran order
/// are bound by strides. Like all here: throws CommandError.
[[nodiscard]] RunInputs open_run_inputs(const RunOptions& options);

/// Opens a mask, whose shape has to broadcast to the scores of the problem as NumPy does it, and describes
/// its memory in the problem.
[[nodiscard]] MaskFile open_mask(const std::string& path, Problem& problem);

/// Reads where packed sequences lie, of those options that are given. Arrays that are packed have no batch
/// axis, and the last sequence ends where they do.
void open_sequences(const RunOptions& options, RunInputs& inputs);
/// Makes the problem one of as many batch entries, as long as the longest.
void set_sequences(const RunOptions& options, RunInputs& inputs);

/// Makes keys and values those of a ring or of pages, where the options say so, with their lengths. Keys that
/// are batch entries have to be those of the problem, or one for all of them.
void set_cache(const RunOptions& options, RunInputs& inputs);
/// Reads the positions and frequencies of --rotary. Where no file says so, positions are those that attention
/// sees: key j of a batch entry is at j, and query i at i + offset.
void open_rotary(const RunOptions& options, RunInputs& inputs);
/// Reads the page table, of which the pages that hold keys in use have to exist.
void open_page_table(const RunOptions& options, RunInputs& inputs);

/// The shape of the output, with the rank and the order of axes of the query.
[[nodiscard]] std::vector<std::int64_t> output_shape(const Problem& problem, std::size_t rank);
/// (batch, heads, length), less what the query's rank leaves out; the order of axes does not depend on the
/// layout.
[[nodiscard]] std::vector<std::int64_t> lse_shape(const Problem& problem, std::size_t rank);
/// The same with the key length behind; of packed queries (batch, heads, longest query length, key length).
[[nodiscard]] std::vector<std::int64_t> weights_shape(const Problem& problem, std::size_t rank);
/// The shape of a key or value of the whole length, with the rank, batch and order of axes of the key.
[[nodiscard]] std::vector<std::int64_t> present_shape(const RunInputs& inputs, bool of_value);
/// That keys or values of one batch entry are those of several entries of queries.
[[nodiscard]] bool repeats(const InputFile& input, const AttentionDesc& desc);

}  // namespace vkattn::cli
