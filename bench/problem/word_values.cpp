// Reads and writes words whose values are not plain numbers or names.
#include "problem/word_values.hpp"

#include <array>
#include <cmath>
#include <utility>

namespace vkattn::bench {

Result<void> read_nothing(const Given& /*given*/, Problem& /*problem*/) {
  return {};
}

Text write_nothing(const Problem& /*problem*/) {
  return {};
}

bool is_masked(const Problem& problem) {
  return problem.desc.mask.type != MaskType::kNone;
}

bool adds_mask(const Problem& problem) {
  return problem.desc.mask.type == MaskType::kFloat32 || problem.desc.mask.type == MaskType::kFloat16;
}

bool drops(const Problem& problem) {
  return problem.desc.dropout != 0;
}

Text write_lse(const Problem& problem) {
  return problem.desc.has_lse && problem.operation != Operation::kBackward ? Text("") : Text();
}

Result<void> read_batch(const Given& given, Problem& problem) {
  if (Result<void> s = read_piece(given, given.value, problem.desc.batch); !s.ok()) return s;
  problem.matmul.batch = problem.desc.batch;
  return {};
}

Text write_batch(const Problem& problem) {
  const std::int64_t batch =
      problem.operation == Operation::kMatmul ? problem.matmul.batch : problem.desc.batch;
  return batch == 1 ? Text() : Text(number_text(batch));
}

Result<void> read_heads(const Given& given, Problem& problem) {
  if (Result<void> s = read_piece(given, given.value, problem.desc.query_heads); !s.ok()) return s;
  problem.desc.kv_heads = problem.desc.query_heads;
  return {};
}

Text write_heads(const Problem& problem) {
  const AttentionDesc& desc = problem.desc;
  if (desc.query_heads != desc.kv_heads || desc.query_heads == 1) return {};
  return number_text(desc.query_heads);
}

Result<void> read_cross(const Given& given, Problem& problem) {
  const std::size_t cross = given.value.find('x');
  const std::string_view queries = given.value.substr(0, cross), keys = given.value.substr(cross + 1);
  if (Result<void> s = read_piece(given, queries, problem.desc.query_length); !s.ok()) return s;
  return read_piece(given, keys, problem.desc.kv_length);
}

Text write_cross(const Problem& problem) {
  return number_text(problem.desc.query_length) + "x" + number_text(problem.desc.kv_length);
}

Text write_head_dim(const Problem& problem) {
  return number_text(problem.desc.head_dim);
}

Text write_value_dim(const Problem& problem) {
  const AttentionDesc& desc = problem.desc;
  return desc.value_dim == desc.head_dim ? Text() : number_text(desc.value_dim);
}

DataType common_type(const Problem& problem) {
  std::array<int, std::size(kTypeNames)> counts{};
  const auto count = [&](DataType type) { ++counts[static_cast<std::size_t>(type)]; };
  if (problem.operation == Operation::kMatmul) {
    const MatmulDesc& matmul = problem.matmul;
    if (!matmul.a_is_ones) count(matmul.a.type);
    for (const MatrixDesc* const matrix : {&matmul.b, &matmul.output}) count(matrix->type);
  } else {
    const AttentionDesc& desc = problem.desc;
    for (const TensorDesc* const tensor : {&desc.query, &desc.key, &desc.value, &desc.output})
      count(tensor->type);
  }
  auto common = DataType::kFloat32;
  for (const Name<DataType>& name : kFloatNames) {
    // float32 needs no word of its own, so another type must be more frequent to be the common type.
    if (counts[static_cast<std::size_t>(name.value)] > counts[static_cast<std::size_t>(common)]) {
      common = name.value;
    }
  }
  return common;
}

Text type_text(const Problem& problem, DataType type) {
  return type == common_type(problem) ? Text() : Text(name(type));
}

Result<void> read_output_type(const Given& given, Problem& problem) {
  if (Result<void> s = read_name(given, kFloatNames, problem.desc.output.type); !s.ok()) return s;
  problem.matmul.output.type = problem.desc.output.type;
  return {};
}

Text write_output_type(const Problem& problem) {
  const bool is_matmul = problem.operation == Operation::kMatmul;
  return type_text(problem, is_matmul ? problem.matmul.output.type : problem.desc.output.type);
}

Result<void> read_cache_type(const Given& given, Problem& problem) {
  if (Result<void> s = read_name(given, kTypeNames, problem.desc.key.type); !s.ok()) return s;
  problem.desc.value.type = problem.desc.key.type;
  return {};
}

Result<void> read_window(const Given& given, Problem& problem) {
  const std::size_t comma = given.value.find(',');
  SlidingWindow& window = problem.desc.window;
  if (given.value == number_text(kUnlimited)) {
    window = {};
    return {};
  }
  if (comma == std::string_view::npos) {
    const char* const example = given.is_option ? "512,0 (-1 for no bound)" : "window=512,0; -1 is unlimited";
    return refusal(given, std::string("needs two counts of keys, left and right, such as ") + example);
  }
  if (Result<void> s = read_piece(given, given.value.substr(0, comma), window.left); !s.ok()) return s;
  return read_piece(given, given.value.substr(comma + 1), window.right);
}

Text write_window(const Problem& problem) {
  const SlidingWindow& window = problem.desc.window;
  return window == SlidingWindow{} ? Text() : number_text(window.left) + "," + number_text(window.right);
}

Result<void> read_standard_alibi(const Given& /*given*/, Problem& problem) {
  problem.desc.alibi = Alibi::kStandard;
  return {};
}

Text write_standard_alibi(const Problem& problem) {
  return problem.desc.alibi == Alibi::kStandard ? Text("") : Text();
}

Text write_given_alibi(const Problem& problem) {
  const Alibi alibi = problem.desc.alibi;
  return has_given_slopes(alibi) ? Text(name_of(kAlibiNames, alibi)) : Text();
}

Result<void> read_times_mask(const Given& given, Problem& problem) {
  if (!has_given_slopes(problem.desc.alibi))
    return refusal(given, "says what slopes multiply, so it needs --alibi-slopes");
  problem.desc.alibi = Alibi::kTimesMask;
  return {};
}

Result<void> read_align(const Given& given, Problem& problem) {
  AttentionDesc& desc = problem.desc;
  if (read_number(given.value, desc.offset) != NumberError::kMalformed) {
    desc.align = Align::kOffset;
    return read_piece(given, given.value, desc.offset);
  }
  if (read_name(given, kAlignNames, desc.align).ok()) return {};
  std::vector<std::string_view> choices;
  for (const Name<Align>& name : kAlignNames) choices.push_back(name.text);
  choices.emplace_back("a number");
  return no_such_name(given, choices);
}

Text write_align(const Problem& problem) {
  const AttentionDesc& desc = problem.desc;
  if (desc.align == AttentionDesc{}.align) return {};
  return desc.align == Align::kOffset ? number_text(desc.offset)
                                      : std::string(name_of(kAlignNames, desc.align));
}

Result<void> read_scale(const Given& given, Problem& problem) {
  return read_piece(given, given.value, problem.desc.scale.emplace());
}

Text write_scale(const Problem& problem) {
  return problem.desc.scale.has_value() ? Text(number_text(*problem.desc.scale)) : Text();
}

namespace {

constexpr std::string_view kMaskLetters = "bhqk";

/// Whether the mask varies along each dimension, in the order of their letters.
template <class Dims>
auto mask_letters(Dims& dims) {
  return std::array{&dims.batch, &dims.head, &dims.query, &dims.key};
}

constexpr std::string_view kDigits = "0123456789";

/// The digits behind h are the heads that the mask has. One head repeats, as without the h.
Result<void> read_mask_heads(const Given& given, std::string_view letters, Problem& problem) {
  const std::size_t first = letters.find_first_of(kDigits);
  if (first == std::string_view::npos) return {};
  const std::size_t end = letters.find_first_not_of(kDigits, first);
  std::int64_t& heads = problem.desc.mask.heads;
  if (Result<void> s = read_piece(given, letters.substr(first, end - first), heads); !s.ok()) return s;
  problem.mask_dims.head = heads != 1;
  if (heads == 1) heads = kUnset;
  return {};
}

Result<void> read_mask_dims(const Given& given, std::string_view type, std::string_view letters,
                            MaskDims& dims) {
  const auto varies = mask_letters(dims);
  std::size_t next = 0;
  for (bool* const dim : varies) *dim = false;
  for (const char letter : letters) {
    if (next == kMaskLetters.find('h') + 1 && kDigits.find(letter) != std::string_view::npos) continue;
    const std::size_t place = kMaskLetters.find(letter, next);
    if (place == std::string_view::npos) {
      return refusal(
          given,
          "must name after the colon the dimensions that the mask varies along, letters of b, h, q "
          "and k in this order, such as mask=" +
              std::string(type) + ":hqk, or h2 for a mask of 2 heads");
    }
    *varies[place] = true;
    next = place + 1;
  }
  return {};
}

}  // namespace

Result<void> read_mask(const Given& given, Problem& problem) {
  const std::size_t colon = given.value.find(':');
  const std::string_view type = given.value.substr(0, colon);
  if (colon != std::string_view::npos) {
    const std::string_view letters = given.value.substr(colon + 1);
    if (Result<void> s = read_mask_dims(given, type, letters, problem.mask_dims); !s.ok()) return s;
    if (Result<void> s = read_mask_heads(given, letters, problem); !s.ok()) return s;
  }
  return read_name({given.typed, type, given.is_option}, kMaskNames, problem.desc.mask.type);
}

Text write_mask(const Problem& problem) {
  if (!is_masked(problem)) return {};
  std::string text(name_of(kMaskNames, problem.desc.mask.type));
  if (problem.mask_dims == MaskDims{}) return text;
  text += ':';
  const auto varies = mask_letters(problem.mask_dims);
  for (std::size_t i = 0; i < varies.size(); ++i) {
    if (!*varies[i]) continue;
    text += kMaskLetters[i];
    if (kMaskLetters[i] == 'h' && problem.desc.mask.heads != kUnset)
      text += number_text(problem.desc.mask.heads);
  }
  return text;
}

Result<void> read_share(const Given& given, double& share) {
  if (Result<void> s = read_piece(given, given.value, share); !s.ok()) return s;
  if (share >= 0 && share <= 1) return {};
  return problem_error("the share in " + quoted(given.typed) + " must be from 0 to 1");
}

Result<void> read_hidden(const Given& given, Problem& problem) {
  return read_share(given, problem.hidden_share);
}

Result<void> read_zeros(const Given& given, Problem& problem) {
  return read_share(given, problem.zero_share);
}

Result<void> read_block(const Given& given, Problem& problem) {
  if (Result<void> s = read_piece(given, given.value, problem.hidden_block); !s.ok()) return s;
  if (problem.hidden_block >= 1) return {};
  return problem_error("the number of positions in " + quoted(given.typed) + " must be at least 1");
}

Result<void> read_packed(const Given& /*given*/, Problem& problem) {
  problem.desc.query_lengths = problem.desc.kv_lengths = Lengths::kPacked;
  return {};
}

Text write_packed(const Problem& problem) {
  return problem.desc.has_packed_keys() ? Text("") : Text();
}

Result<void> read_packed_queries(const Given& given, Problem& problem) {
  static constexpr Name<Lengths> kPacked[] = {{"queries", Lengths::kPacked}};
  return read_name(given, kPacked, problem.desc.query_lengths);
}

Text write_packed_queries(const Problem& problem) {
  return problem.desc.has_packed_queries() && !problem.desc.has_packed_keys() ? Text("queries") : Text();
}

Result<void> read_length_list(const Given& given, std::vector<std::int32_t>& lengths) {
  std::string_view text = given.value;
  std::string_view piece;
  if (text.empty()) text = {};  // an empty list, for a batch of 0
  while (next_piece(text, ',', piece)) {
    if (Result<void> s = read_piece(given, piece, lengths.emplace_back()); !s.ok()) return s;
  }
  return {};
}

namespace {

std::string length_list(const std::vector<std::int32_t>& lengths) {
  std::string text;
  for (std::size_t i = 0; i < lengths.size(); ++i) text += (i == 0 ? "" : ",") + number_text(lengths[i]);
  return text;
}

}  // namespace

Text write_query_lengths(const Problem& problem) {
  if (problem.desc.query_lengths == Lengths::kUniform) return {};
  return length_list(problem.query_lengths);
}

Text write_kv_lengths(const Problem& problem) {
  if (problem.desc.kv_lengths == Lengths::kUniform) return {};
  return length_list(problem.kv_lengths);
}

std::uint32_t default_alignment(const Problem& problem) {
  return problem.shift == 0 ? 16 : 0;
}

/// Sets the promise for Q, K, V and O. ProblemParser::resolve_defaults() copies it from Q to the others.
Result<void> read_aligned(const Given& given, Problem& problem) {
  return read_piece(given, given.value, problem.desc.query.alignment_bytes);
}

Text write_aligned(const Problem& problem) {
  const bool is_matmul = problem.operation == Operation::kMatmul;
  const std::uint32_t alignment =
      is_matmul ? problem.matmul.output.alignment_bytes : problem.desc.query.alignment_bytes;
  return alignment == default_alignment(problem) ? Text() : number_text(alignment);
}

Result<void> read_magnitude(const Given& given, Problem& problem) {
  if (Result<void> s = read_piece(given, given.value, problem.magnitude); !s.ok()) return s;
  if (std::isfinite(problem.magnitude) && problem.magnitude > 0) return {};
  return problem_error("the magnitude in " + quoted(given.typed) + " must be finite and above 0");
}

}  // namespace vkattn::bench
