// Reads and writes words whose values are not plain numbers or names. Each function has the type that a row
// of the table needs; see word_table.hpp.
#pragma once

#include <vector>

#include "problem/word_table.hpp"

namespace vkattn::bench {

/// Does nothing: for words that are read at the end of the string, and for words that other words are written
/// in place of.
Result<void> read_nothing(const Given& given, Problem& problem);
Text write_nothing(const Problem& problem);

[[nodiscard]] bool is_masked(const Problem& problem);
/// Whether the mask is one of numbers, which are added.
[[nodiscard]] bool adds_mask(const Problem& problem);
[[nodiscard]] bool drops(const Problem& problem);

// What is computed.
template <Operation operation>
Result<void> read_operation(const Given& /*given*/, Problem& problem) {
  problem.operation = operation;
  return {};
}
template <Operation operation>
Text write_operation(const Problem& problem) {
  return problem.operation == operation ? Text("") : Text();
}
/// Gradients need the lse, so their problems need not name it.
Text write_lse(const Problem& problem);

// Sizes.
Result<void> read_batch(const Given& given, Problem& problem);
Text write_batch(const Problem& problem);
Result<void> read_heads(const Given& given, Problem& problem);
Text write_heads(const Problem& problem);
template <auto heads>
Text write_heads_apart(const Problem& problem) {
  const AttentionDesc& desc = problem.desc;
  return desc.query_heads == desc.kv_heads ? Text() : number_text(desc.*heads);
}
Result<void> read_cross(const Given& given, Problem& problem);
Text write_cross(const Problem& problem);
Text write_head_dim(const Problem& problem);
Text write_value_dim(const Problem& problem);

// Types: one word names the most frequent floating-point type, and the other tensors have words of their own.
[[nodiscard]] DataType common_type(const Problem& problem);
template <DataType type>
Text write_common_type(const Problem& problem) {
  return common_type(problem) == type ? Text("") : Text();
}
[[nodiscard]] Text type_text(const Problem& problem, DataType type);
template <auto tensor, const auto& names>
Result<void> read_type(const Given& given, Problem& problem) {
  return read_name(given, names, (problem.desc.*tensor).type);
}
template <auto tensor>
Text write_type(const Problem& problem) {
  return type_text(problem, (problem.desc.*tensor).type);
}
Result<void> read_output_type(const Given& given, Problem& problem);
Text write_output_type(const Problem& problem);
Result<void> read_cache_type(const Given& given, Problem& problem);
/// Writes one word if K and V have the same type, otherwise a word for each.
template <bool together, auto tensor>
Text write_cache_type(const Problem& problem) {
  const AttentionDesc& desc = problem.desc;
  return (desc.key.type == desc.value.type) == together ? write_type<tensor>(problem) : Text();
}

// Scores.
Result<void> read_window(const Given& given, Problem& problem);
Text write_window(const Problem& problem);
Result<void> read_standard_alibi(const Given& given, Problem& problem);
Text write_standard_alibi(const Problem& problem);
Text write_given_alibi(const Problem& problem);
Result<void> read_times_mask(const Given& given, Problem& problem);
Result<void> read_align(const Given& given, Problem& problem);
Text write_align(const Problem& problem);
Result<void> read_scale(const Given& given, Problem& problem);
Text write_scale(const Problem& problem);
Result<void> read_mask(const Given& given, Problem& problem);
Text write_mask(const Problem& problem);
Result<void> read_hidden(const Given& given, Problem& problem);
Result<void> read_zeros(const Given& given, Problem& problem);
Result<void> read_block(const Given& given, Problem& problem);

// Lengths and caches.
Result<void> read_packed(const Given& given, Problem& problem);
Text write_packed(const Problem& problem);
Result<void> read_packed_queries(const Given& given, Problem& problem);
Text write_packed_queries(const Problem& problem);
Result<void> read_length_list(const Given& given, std::vector<std::int32_t>& lengths);
template <auto lengths>
Result<void> read_lengths(const Given& given, Problem& problem) {
  return read_length_list(given, problem.*lengths);
}
Text write_query_lengths(const Problem& problem);
Text write_kv_lengths(const Problem& problem);
template <KeyMapping mapping, auto size>
Result<void> read_cache(const Given& given, Problem& problem) {
  problem.desc.cache.mapping = mapping;
  return read_piece(given, given.value, problem.desc.cache.*size);
}
template <KeyMapping mapping, auto size>
Text write_cache(const Problem& problem) {
  const CacheLayout& cache = problem.desc.cache;
  return cache.mapping == mapping ? Text(number_text(cache.*size)) : Text();
}

// Matrix multiplications.
Result<void> read_sizes(const Given& given, Problem& problem);
Text write_sizes(const Problem& problem);
Result<void> read_a_type(const Given& given, Problem& problem);
Text write_a_type(const Problem& problem);
Result<void> read_b_type(const Given& given, Problem& problem);
Text write_b_type(const Problem& problem);
Result<void> read_bias(const Given& given, Problem& problem);
Text write_bias(const Problem& problem);
Result<void> read_bias_type(const Given& given, Problem& problem);
Text write_bias_type(const Problem& problem);
Result<void> read_accumulates(const Given& given, Problem& problem);
Text write_accumulates(const Problem& problem);

// Memory and data.
Result<void> read_aligned(const Given& given, Problem& problem);
Text write_aligned(const Problem& problem);
Result<void> read_magnitude(const Given& given, Problem& problem);

}  // namespace vkattn::bench
