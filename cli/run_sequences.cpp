// Packed sequences in `vkattn run`: their places in arrays without a batch axis.
#include <cstddef>
#include <string>
#include <vector>

#include "error.hpp"
#include "npy_lengths.hpp"
#include "run_inputs.hpp"

namespace vkattn::cli {
namespace {

constexpr const char* kQueryOption = "--cumulative-query-lengths";
constexpr const char* kKeyOption = "--cumulative-kv-lengths";

void require_packed(const InputFile& input, const std::string& option) {
  if (input.rank() < 4) return;
  fail_usage(input.text() + " has rank 4, but packed sequences have no batch axis; " + option +
             " needs rank 3, (heads, rows, dim) or with --layout bshd (rows, heads, dim), or 2 (one head)");
}

/// Reads a file's cumulative lengths. They must end at the array's end.
std::vector<std::int32_t> read_ends(const std::string& path, const std::string& option,
                                    const InputFile& input, Layout layout) {
  require_packed(input, option);
  std::vector<std::int32_t> ends = take(npy::read_cumulative_lengths(path, option));
  if (ends.back() == input.length) return ends;
  std::string hint;
  if (input.rank() == 3 && ends.back() == input.heads) {
    const bool bshd = layout == Layout::kBshd;
    hint = std::string(", as --layout ") + (bshd ? "bshd" : "bhsd") + " reads it; --layout " +
           (bshd ? "bhsd takes (heads, rows, dim)" : "bshd takes (rows, heads, dim)");
  }
  fail_usage(path + ": " + option + " ends at " + std::to_string(ends.back()) + ", but " + input.text() +
             " has " + std::to_string(input.length) + " rows" + hint);
}

std::string sequences_text(const std::string& option, const std::string& path, std::int64_t count) {
  return option + " " + path + " has " + std::to_string(count) + (count == 1 ? " sequence" : " sequences");
}

}  // namespace

void open_sequences(const RunOptions& options, RunInputs& inputs) {
  const auto read = [&](const std::string& path, const char* option, const InputFile& input) {
    return path.empty() ? std::vector<std::int32_t>()
                        : read_ends(path, option, input, options.problem.desc.layout);
  };
  inputs.cumulative_query_lengths = read(options.cumulative_query_lengths, kQueryOption, inputs.query);
  inputs.cumulative_kv_lengths = read(options.cumulative_kv_lengths, kKeyOption, inputs.key);
}

void set_sequences(const RunOptions& options, RunInputs& inputs) {
  if (inputs.cumulative_query_lengths.empty()) return;
  Problem& problem = inputs.problem;
  AttentionDesc& desc = problem.desc;
  problem.query_lengths = npy::lengths_of(inputs.cumulative_query_lengths);
  desc.batch = static_cast<std::int64_t>(problem.query_lengths.size());
  desc.total_query_length = inputs.query.length;
  desc.query_length = npy::longest(problem.query_lengths);
  const std::string sequences = sequences_text(kQueryOption, options.cumulative_query_lengths, desc.batch);
  desc.query_lengths = Lengths::kPacked;
  if (inputs.cumulative_kv_lengths.empty()) {
    if (inputs.key.batch == desc.batch || repeats(inputs.key, desc) || !options.page_table.empty()) return;
    fail_usage(sequences + " but " + inputs.key.text() + " has batch size " +
               std::to_string(inputs.key.batch) + "; where keys are packed too, give " + kKeyOption);
  }
  desc.kv_lengths = Lengths::kPacked;
  problem.kv_lengths = npy::lengths_of(inputs.cumulative_kv_lengths);
  const auto count = static_cast<std::int64_t>(problem.kv_lengths.size());
  if (count != desc.batch) {
    fail_usage(sequences + " but " + sequences_text(kKeyOption, options.cumulative_kv_lengths, count));
  }
  desc.total_kv_length = inputs.key.length;
  desc.kv_length = npy::longest(problem.kv_lengths);
}

}  // namespace vkattn::cli
