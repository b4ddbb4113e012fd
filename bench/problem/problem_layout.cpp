// Everything that follows from several words of a problem string together: defaults, sizes, strides, and
// rules that no single word breaks.
#include <algorithm>
#include <utility>

#include "common/checked.hpp"
#include "problem/gradients.hpp"
#include "problem/problem_parser.hpp"
#include "problem/word_values.hpp"

namespace vkattn::bench {

namespace {

using detail::saturating_add;
using detail::saturating_multiply;

/// Adds free elements after each row to the strides of a layout.
void add_row_padding(Strides& strides, Layout layout, const TensorExtents& extents, std::int64_t padding) {
  strides.row = saturating_add(strides.row, padding);
  if (layout == Layout::kBhsd) {
    strides.head = saturating_multiply(extents.rows, strides.row);
    strides.batch = saturating_multiply(extents.heads, strides.head);
  } else {
    strides.batch = saturating_multiply(extents.rows, strides.row);
  }
}

/// Dense strides, with stride 0 along each dimension that the mask does not vary along. A row of bits takes
/// whole words, even if it has a single bit.
Strides mask_strides(const AttentionDesc& desc, const MaskDims& dims) {
  const TensorExtents extents = mask_extents(desc);
  Strides strides{0, 0, 0, 0};
  const bool bits = desc.mask.type == MaskType::kBits;
  std::int64_t reach = bits && !dims.key ? 32 : 1;
  const auto place = [&](bool varies, std::int64_t extent, std::int64_t& stride) {
    if (!varies) return;
    stride = reach;
    reach = saturating_multiply(reach, extent);
  };
  place(dims.key, bits ? saturating_add(extents.dims, 31) / 32 * 32 : extents.dims, strides.dim);
  place(dims.query, extents.rows, strides.row);
  place(dims.head, extents.heads, strides.head);
  place(dims.batch, extents.batch, strides.batch);
  return strides;
}

std::int64_t sum_of(const std::vector<std::int32_t>& lengths) {
  std::int64_t sum = 0;
  for (const std::int32_t length : lengths) sum = saturating_add(sum, std::max(length, 0));
  return sum;
}

}  // namespace

void Problem::lay_out() {
  if (operation == Operation::kMatmul) return lay_out_matmul();
  if (desc.has_packed_queries()) desc.total_query_length = sum_of(query_lengths);
  if (desc.has_packed_keys()) desc.total_kv_length = sum_of(kv_lengths);
  CacheLayout& cache = desc.cache;
  if (cache.mapping == KeyMapping::kPaged && cache.page_size > 0) {
    cache.page_table_stride =
        desc.kv_length / cache.page_size + (desc.kv_length % cache.page_size > 0 ? 1 : 0);
    cache.page_count = saturating_add(saturating_multiply(desc.batch, cache.page_table_stride), kSparePages);
  }
  desc.set_layout(desc.layout);
  desc = desc.resolved();
  desc.mask.strides = desc.mask.type == MaskType::kNone ? Strides{} : mask_strides(desc, mask_dims);
  if (row_padding <= 0) return;
  const TensorExtents queries = query_extents(desc, 1);
  const TensorExtents keys = key_extents(desc, 1);
  add_row_padding(*desc.query.strides, desc.layout, queries, row_padding);
  add_row_padding(*desc.key.strides, desc.layout, keys, row_padding);
  add_row_padding(*desc.value.strides, desc.layout, keys, row_padding);
  add_row_padding(*desc.output.strides, desc.layout, queries, row_padding);
}

void ProblemParser::resolve_types() {
  AttentionDesc& desc = problem_.desc;
  auto type = DataType::kFloat32;
  for (const Name<DataType>& name : kFloatNames) {
    if (name.text == word_of("type")) type = name.value;
  }
  if (!has("query")) desc.query.type = type;
  if (!has("key")) desc.key.type = type;
  if (!has("value")) desc.value.type = type;
  if (!has("output")) desc.output.type = type;
}

void ProblemParser::resolve_defaults() {
  AttentionDesc& desc = problem_.desc;
  if (!has("hkv")) desc.kv_heads = desc.query_heads;
  if (!has("hq")) desc.query_heads = desc.kv_heads;
  if (!has("dv")) desc.value_dim = desc.head_dim;
  resolve_types();
  // Buffers begin aligned. So the first elements are aligned too, unless they are shifted.
  if (!has("aligned")) desc.query.alignment_bytes = default_alignment(problem_);
  const std::uint32_t alignment = desc.query.alignment_bytes;
  desc.key.alignment_bytes = alignment;
  desc.value.alignment_bytes = alignment;
  desc.output.alignment_bytes = alignment;
  if (problem_.operation == Operation::kBackward) desc.has_lse = true;
  // A packed tensor has cumulative lengths in place of these.
  if (has("kv_lengths") && !desc.has_packed_keys()) desc.kv_lengths = Lengths::kPerEntry;
  if (has("query_lengths") && !desc.has_packed_queries()) desc.query_lengths = Lengths::kPerEntry;
}

Result<void> ProblemParser::check_packed() const {
  const AttentionDesc& desc = problem_.desc;
  if (problem_.desc.layout != Layout::kPackedQkv) return {};
  if (desc.has_packed_queries() && !desc.has_packed_keys()) {
    return problem_error("layout=packed keeps queries and keys in one tensor, but " +
                         quoted(word_of("sequences")) + " packs the queries alone");
  }
  if (desc.cache.mapping != KeyMapping::kContiguous) {
    return problem_error("layout=packed keeps queries and keys in one tensor, but " +
                         quoted(word_of("mapping")) + " gives the keys a memory of their own");
  }
  const std::int64_t queries = query_extents(desc, 1).rows;
  const std::int64_t keys = key_extents(desc, 1).rows;
  if (queries != keys) {
    return problem_error(
        "layout=packed keeps queries and keys in one tensor, so their lengths must be equal, but they are " +
        std::to_string(queries) + " and " + std::to_string(keys));
  }
  if (desc.head_dim != desc.value_dim) {
    return problem_error(
        "layout=packed keeps keys and values in one tensor, so d and dv must be equal, but they are " +
        std::to_string(desc.head_dim) + " and " + std::to_string(desc.value_dim));
  }
  if (desc.query.type != desc.key.type || desc.query.type != desc.value.type) {
    return problem_error(
        "layout=packed keeps query, key and value in one tensor, so they need one type, but have " +
        std::string(name(desc.query.type)) + ", " + std::string(name(desc.key.type)) + " and " +
        std::string(name(desc.value.type)));
  }
  return {};
}

/// Checks that the shift keeps the promised alignment. Buffers begin aligned to every alignment that a
/// problem may promise, so only the shift decides about the first element.
Result<void> ProblemParser::check_shift() const {
  struct Stored {
    DataType type;
    std::uint32_t alignment_bytes;
  };
  std::vector<Stored> stored;
  const AttentionDesc& desc = problem_.desc;
  const MatmulDesc& matmul = problem_.matmul;
  const bool is_matmul = problem_.operation == Operation::kMatmul;
  for (const TensorDesc* tensor : {&desc.query, &desc.key, &desc.value, &desc.output}) {
    if (!is_matmul) stored.push_back({tensor->type, tensor->alignment_bytes});
  }
  for (const MatrixDesc* matrix : {&matmul.a, &matmul.b, &matmul.output}) {
    if (is_matmul) stored.push_back({matrix->type, matrix->alignment_bytes});
  }
  constexpr std::int64_t kMost = std::int64_t{1} << 30;
  if (problem_.shift < 0 || problem_.shift > kMost || problem_.row_padding < 0 ||
      problem_.row_padding > kMost) {
    return problem_error("pad is " + std::to_string(problem_.row_padding) + " and shift is " +
                         std::to_string(problem_.shift) + " but each must be from 0 to " +
                         std::to_string(kMost));
  }
  for (const Stored& tensor : stored) {
    const std::int64_t bytes = problem_.shift * element_bytes(tensor.type);
    if (tensor.alignment_bytes == 0 || bytes % tensor.alignment_bytes == 0) continue;
    return problem_error("shift=" + std::to_string(problem_.shift) + " puts the first " +
                         std::string(name(tensor.type)) + " element at byte " + std::to_string(bytes) +
                         ", which is no multiple of aligned=" + std::to_string(tensor.alignment_bytes));
  }
  return {};
}

Result<void> ProblemParser::check_lengths() const {
  const AttentionDesc& desc = problem_.desc;
  if (desc.has_packed_keys() && (!has("query_lengths") || !has("kv_lengths"))) {
    return problem_error(
        "the word sequences packs batch entries of different lengths, so it needs query_lengths=… and "
        "kv_lengths=… with one length for each");
  }
  if (desc.has_packed_queries() && !has("query_lengths")) {
    return problem_error(
        "the word sequences=queries packs the queries of batch entries, so it needs query_lengths=… with one "
        "length for each");
  }
  for (const std::string key : {"kv_lengths", "query_lengths"}) {
    if (!has(key)) continue;
    const bool of_keys = key == "kv_lengths";
    const std::vector<std::int32_t>& lengths = of_keys ? problem_.kv_lengths : problem_.query_lengths;
    if (std::cmp_not_equal(lengths.size(), desc.batch)) {
      return problem_error(key + " names " + std::to_string(lengths.size()) + " lengths but batch is " +
                           std::to_string(desc.batch) + "; give one for each batch entry");
    }
    const auto least = std::min_element(lengths.begin(), lengths.end());
    const bool packed = of_keys ? desc.has_packed_keys() : desc.has_packed_queries();
    if (packed && least != lengths.end() && *least < 0) {
      return problem_error(key + " names " + std::to_string(*least) +
                           " but the length of a packed sequence must not be negative");
    }
  }
  return {};
}

/// Refuses a word that only adds to another word, if that other word is missing.
Result<void> ProblemParser::check_features() const {
  const AttentionDesc& desc = problem_.desc;
  const bool has_distances = desc.alibi != Alibi::kNone && desc.alibi != Alibi::kTimesMask;
  if (has("align") && !desc.causal && desc.window == SlidingWindow{} && !has_distances) {
    return problem_error(quoted(word_of("align")) +
                         " says where query 0 lies among the keys, but nothing in the problem depends on it; "
                         "add the word causal, window=… or alibi");
  }
  for (const char* const thing : {"hidden", "block"}) {
    if (!has(thing) || desc.mask.type != MaskType::kNone) continue;
    return problem_error(quoted(word_of(thing)) +
                         " says what a mask hides, but the problem has none; add a word such as mask=bytes");
  }
  if (has("zeros") && !adds_mask(problem_)) {
    return problem_error(quoted(word_of("zeros")) +
                         " says where a mask adds 0, but the problem adds none; add mask=f32 or mask=f16");
  }
  for (const char* const thing : {"dropout_seed", "dropout_offset"}) {
    if (!has(thing) || desc.dropout != 0) continue;
    return problem_error(quoted(word_of(thing)) +
                         " is for dropout, but the problem has none; add a word such as dropout=0.1");
  }
  return {};
}

/// Checks what an append needs. The append's own rules are checked when it is planned.
Result<void> ProblemParser::check_append() const {
  const AttentionDesc& desc = problem_.desc;
  if (problem_.appended < 0 || problem_.appended > desc.kv_length) {
    return problem_error("the number of keys in " + quoted(word_of("append")) + " must be from 0 to " +
                         std::to_string(desc.kv_length) + ", the key length");
  }
  if (problem_.appended > 0 && desc.has_packed_keys()) {
    return problem_error(quoted(word_of("append")) +
                         " writes keys into a cache, but packed sequences have none; leave out sequences");
  }
  if (!has("rotary")) return {};
  if (problem_.appended != desc.query_length) {
    return problem_error(quoted(word_of("rotary")) +
                         " turns the queries and the keys that come with them, so it needs append=" +
                         std::to_string(desc.query_length) + ", the query length");
  }
  if (desc.head_dim % 2 != 0) {
    return problem_error(quoted(word_of("rotary")) + " turns pairs of dims, but d is " +
                         std::to_string(desc.head_dim) + ", which is odd");
  }
  return {};
}

/// Refuses what has no gradients. The library itself names types and caches that have none.
Result<void> ProblemParser::check_backward() const {
  if (problem_.operation != Operation::kBackward) return {};
  if (has("score")) {
    return problem_error(
        quoted(word_of("score")) +
        " has no gradients, as the library does not know the derivative of a score function; leave "
        "it or the word backward out");
  }
  if (has("weights")) {
    return problem_error(quoted(word_of("weights")) +
                         " asks for an output of the forward pass; leave it or the word backward out");
  }
  return validate(with_all_gradients(problem_.desc));
}

Result<void> ProblemParser::check_together() const {
  if (!has("q")) {
    return problem_error("the problem names no query length; add a word such as q512 or 512x512");
  }
  if (!has("kv")) {
    return problem_error("the problem names no key length; add a word such as kv512 or 512x512");
  }
  if (!has("d")) {
    return problem_error("the problem names no head dimension; add a word such as d64");
  }
  if (Result<void> s = check_features(); !s.ok()) return s;
  if (Result<void> s = check_append(); !s.ok()) return s;
  return check_lengths();
}

Result<Problem> ProblemParser::finish() {
  if (Result<void> s = check_subject(); !s.ok()) return s.error();
  if (problem_.operation == Operation::kMatmul) {
    if (Result<void> s = finish_matmul(); !s.ok()) return s.error();
    return std::move(problem_);
  }
  problem_.matmul = {};
  resolve_defaults();
  if (Result<void> s = check_together(); !s.ok()) return s.error();
  if (Result<void> s = check_shift(); !s.ok()) return s.error();
  problem_.lay_out();
  if (Result<void> s = validate(problem_.desc); !s.ok()) return s.error();
  if (Result<void> s = check_packed(); !s.ok()) return s.error();
  if (Result<void> s = check_backward(); !s.ok()) return s.error();
  return std::move(problem_);
}

}  // namespace vkattn::bench
