// Reading problem strings: one table of words, one error for whatever does not fit it.
#include <vkattn/problem.hpp>

#include <array>
#include <cmath>
#include <limits>
#include <optional>
#include <utility>

#include "plan/checked.hpp"
#include "plan/words.hpp"

namespace vkattn {
namespace {

using detail::NumberError;
using detail::read_number;

Error invalid(std::string message) {
  return Error{ErrorCode::kInvalidArgument, VK_SUCCESS, std::move(message)};
}

std::string quoted(std::string_view text) {
  constexpr std::size_t kLongest = 60;  // a hostile word shall not fill the screen
  if (text.size() > kLongest) return "'" + std::string(text.substr(0, kLongest)) + "…'";
  return "'" + std::string(text) + "'";
}

/// What a problem string can set, each at most once.
enum class Field {
  kBatch,
  kQueryHeads,
  kKvHeads,
  kQueryLength,
  kKvLength,
  kHeadDim,
  kValueDim,
  kQueryType,
  kKeyType,
  kValueType,
  kOutputType,
  kAllTypes,
  kCausal,
  kAlign,
  kScale,
  kLse,
  kKvLengths,
  kLayout,
  kPad,
  kShift,
  kAligned,
  kData,
  kMagnitude,
  kSeed,
  kCount,
};

constexpr std::array<std::string_view, 8> kSizeWords{"b", "h", "hq", "hkv", "q", "kv", "d", "dv"};
constexpr std::array<std::string_view, 5> kFlagWords{"f32", "f16", "bf16", "causal", "lse"};
constexpr std::array<std::string_view, 14> kKeys{"query",   "key",        "value",     "output", "align",
                                                 "scale",   "kv_lengths", "layout",    "pad",    "shift",
                                                 "aligned", "data",       "magnitude", "seed"};

std::optional<DataType> type_of(std::string_view word) {
  if (word == "f32") return DataType::kFloat32;
  if (word == "f16") return DataType::kFloat16;
  if (word == "bf16") return DataType::kBfloat16;
  return std::nullopt;
}

using detail::default_alignment;

/// Reads the words of one string into a Problem.
class Parser {
 public:
  Status read(std::string_view text);
  Result<Problem> finish();

 private:
  Status read_word(std::string_view word);
  Status read_flag(std::string_view word);
  Status read_size(std::string_view word, std::string_view letters, std::string_view digits);
  Status read_lengths(std::string_view word, std::size_t cross);
  Status read_setting(std::string_view word, std::string_view key, std::string_view value);
  Status read_type(std::string_view word, std::string_view key, std::string_view value);
  Status read_align(std::string_view word, std::string_view value);
  Status read_layout(std::string_view word, std::string_view value);
  Status read_data(std::string_view word, std::string_view value);
  Status read_scale(std::string_view word, std::string_view value);
  Status read_magnitude(std::string_view word, std::string_view value);
  Status read_kv_lengths(std::string_view word, std::string_view value);
  Status unknown(std::string_view word) const;
  Status once(Field field, std::string_view word);
  template <class T>
  Status number(std::string_view word, std::string_view digits, T& value) const;
  template <std::size_t N>
  Status no_such_value(std::string_view word, std::string_view value,
                       const std::array<std::string_view, N>& values) const;
  [[nodiscard]] bool has(Field field) const { return !set_by_[static_cast<std::size_t>(field)].empty(); }
  void resolve_defaults();
  Status check_together() const;
  Status check_packed() const;
  Status check_shift() const;

  Problem problem_;
  std::array<std::string_view, static_cast<std::size_t>(Field::kCount)> set_by_;
  std::optional<DataType> all_types_;
};

Status Parser::once(Field field, std::string_view word) {
  std::string_view& earlier = set_by_[static_cast<std::size_t>(field)];
  if (!earlier.empty()) {
    return invalid(quoted(word) + " sets again what " + quoted(earlier) + " has set; give one of them");
  }
  earlier = word;
  return {};
}

template <class T>
Status Parser::number(std::string_view word, std::string_view digits, T& value) const {
  switch (read_number(digits, value)) {
    case NumberError::kOutOfRange:
      return invalid("the number in " + quoted(word) + " does not fit " + std::to_string(sizeof(T) * 8) +
                     " bits");
    case NumberError::kMalformed:
      return invalid("the word " + quoted(word) + " needs a number where it says " + quoted(digits));
    case NumberError::kNone:
      break;
  }
  return {};
}

template <std::size_t N>
Status Parser::no_such_value(std::string_view word, std::string_view value,
                             const std::array<std::string_view, N>& values) const {
  std::string message = "the word " + quoted(word) + " must name one of";
  for (std::size_t i = 0; i < N; ++i) message += (i == 0 ? " " : ", ") + std::string(values[i]);
  if (const auto meant = detail::closest_word(value, values)) {
    message += "; did you mean " + quoted(*meant) + "?";
  }
  return invalid(std::move(message));
}

Status Parser::unknown(std::string_view word) const {
  std::string message = "unknown word " + quoted(word) + " in the problem";
  const std::size_t equals = word.find('=');
  if (equals != std::string_view::npos) {
    const std::string_view key = word.substr(0, equals);
    if (const auto meant = detail::closest_word(key, kKeys)) {
      message += "; did you mean '" + std::string(*meant) + "=…'?";
    }
    return invalid(std::move(message));
  }
  const std::size_t digit = word.find_first_of("0123456789");
  if (const auto flag = detail::closest_word(word, kFlagWords)) {
    message += "; did you mean " + quoted(*flag) + "?";
  } else if (const auto key = detail::closest_word(word, kKeys)) {
    message += "; did you mean '" + std::string(*key) + "=…'?";
  } else if (digit != std::string_view::npos && digit > 0) {
    if (const auto size = detail::closest_word(word.substr(0, digit), kSizeWords)) {
      message += "; did you mean '" + std::string(*size) + std::string(word.substr(digit, 20)) + "'?";
    }
  }
  return invalid(std::move(message));
}

Status Parser::read_flag(std::string_view word) {
  if (const auto type = type_of(word)) {
    all_types_ = type;
    return once(Field::kAllTypes, word);
  }
  if (word == "causal") {
    problem_.desc.causal = true;
    return once(Field::kCausal, word);
  }
  if (word == "lse") {
    problem_.desc.has_lse = true;
    return once(Field::kLse, word);
  }
  return unknown(word);
}

Status Parser::read_size(std::string_view word, std::string_view letters, std::string_view digits) {
  AttentionDesc& desc = problem_.desc;
  std::int64_t size = 0;
  if (Status s = number(word, digits, size); !s.ok()) return s;
  const auto set = [&](Field field, std::int64_t& target) {
    target = size;
    return once(field, word);
  };
  if (letters == "b") return set(Field::kBatch, desc.batch);
  if (letters == "hq") return set(Field::kQueryHeads, desc.query_heads);
  if (letters == "hkv") return set(Field::kKvHeads, desc.kv_heads);
  if (letters == "q") return set(Field::kQueryLength, desc.query_length);
  if (letters == "kv") return set(Field::kKvLength, desc.kv_length);
  if (letters == "d") return set(Field::kHeadDim, desc.head_dim);
  if (letters == "dv") return set(Field::kValueDim, desc.value_dim);
  if (Status s = set(Field::kQueryHeads, desc.query_heads); !s.ok()) return s;  // h: both
  return set(Field::kKvHeads, desc.kv_heads);
}

Status Parser::read_lengths(std::string_view word, std::size_t cross) {
  if (Status s = number(word, word.substr(0, cross), problem_.desc.query_length); !s.ok()) return s;
  if (Status s = number(word, word.substr(cross + 1), problem_.desc.kv_length); !s.ok()) return s;
  if (Status s = once(Field::kQueryLength, word); !s.ok()) return s;
  return once(Field::kKvLength, word);
}

Status Parser::read_type(std::string_view word, std::string_view key, std::string_view value) {
  const auto type = type_of(value);
  if (!type.has_value()) {
    return no_such_value(word, value, std::array<std::string_view, 3>{"f32", "f16", "bf16"});
  }
  if (key == "query") {
    problem_.desc.query.type = *type;
    return once(Field::kQueryType, word);
  }
  if (key == "key") {
    problem_.desc.key.type = *type;
    return once(Field::kKeyType, word);
  }
  if (key == "value") {
    problem_.desc.value.type = *type;
    return once(Field::kValueType, word);
  }
  problem_.desc.output.type = *type;
  return once(Field::kOutputType, word);
}

Status Parser::read_align(std::string_view word, std::string_view value) {
  AttentionDesc& desc = problem_.desc;
  if (value == "top-left") {
    desc.align = Align::kTopLeft;
  } else if (value == "bottom-right") {
    desc.align = Align::kBottomRight;
  } else {
    desc.align = Align::kOffset;
    const NumberError error = read_number(value, desc.offset);
    if (error == NumberError::kOutOfRange) return number(word, value, desc.offset);
    if (error == NumberError::kMalformed) {
      return no_such_value(word, value,
                           std::array<std::string_view, 3>{"top-left", "bottom-right", "a number"});
    }
  }
  return once(Field::kAlign, word);
}

Status Parser::read_layout(std::string_view word, std::string_view value) {
  if (value == "bhsd") {
    problem_.layout = Layout::kBhsd;
  } else if (value == "bshd") {
    problem_.layout = Layout::kBshd;
  } else if (value == "packed") {
    problem_.layout = Layout::kPackedQkv;
  } else {
    return no_such_value(word, value, std::array<std::string_view, 3>{"bhsd", "bshd", "packed"});
  }
  return once(Field::kLayout, word);
}

Status Parser::read_data(std::string_view word, std::string_view value) {
  if (value == "normal") {
    problem_.data = DataKind::kNormal;
  } else if (value == "uniform") {
    problem_.data = DataKind::kUniform;
  } else if (value == "dominant") {
    problem_.data = DataKind::kDominant;
  } else if (value == "equal") {
    problem_.data = DataKind::kEqual;
  } else {
    return no_such_value(word, value,
                         std::array<std::string_view, 4>{"normal", "uniform", "dominant", "equal"});
  }
  return once(Field::kData, word);
}

Status Parser::read_scale(std::string_view word, std::string_view value) {
  float scale = 0;
  if (Status s = number(word, value, scale); !s.ok()) return s;
  problem_.desc.scale = scale;
  return once(Field::kScale, word);
}

Status Parser::read_magnitude(std::string_view word, std::string_view value) {
  if (Status s = number(word, value, problem_.magnitude); !s.ok()) return s;
  if (!std::isfinite(problem_.magnitude) || problem_.magnitude <= 0) {
    return invalid("the magnitude in " + quoted(word) + " must be finite and above 0");
  }
  return once(Field::kMagnitude, word);
}

Status Parser::read_kv_lengths(std::string_view word, std::string_view value) {
  problem_.desc.has_kv_lengths = true;
  std::string_view piece;
  if (value.empty()) value = {};  // no entries, for a batch of none
  while (detail::next_piece(value, ',', piece)) {
    std::int32_t length = 0;
    if (Status s = number(word, piece, length); !s.ok()) return s;
    problem_.kv_lengths.push_back(length);
  }
  return once(Field::kKvLengths, word);
}

Status Parser::read_setting(std::string_view word, std::string_view key, std::string_view value) {
  if (key == "query" || key == "key" || key == "value" || key == "output") return read_type(word, key, value);
  if (key == "align") return read_align(word, value);
  if (key == "scale") return read_scale(word, value);
  if (key == "kv_lengths") return read_kv_lengths(word, value);
  if (key == "layout") return read_layout(word, value);
  if (key == "data") return read_data(word, value);
  if (key == "magnitude") return read_magnitude(word, value);
  const auto set = [&](Field field, auto& target) {
    if (Status s = number(word, value, target); !s.ok()) return s;
    return once(field, word);
  };
  if (key == "pad") return set(Field::kPad, problem_.row_padding);
  if (key == "shift") return set(Field::kShift, problem_.shift);
  if (key == "seed") return set(Field::kSeed, problem_.seed);
  if (key == "aligned") return set(Field::kAligned, problem_.desc.query.alignment_bytes);
  return unknown(word);
}

Status Parser::read_word(std::string_view word) {
  const std::size_t equals = word.find('=');
  if (equals != std::string_view::npos)
    return read_setting(word, word.substr(0, equals), word.substr(equals + 1));
  const std::size_t digit = word.find_first_of("-0123456789");
  const std::string_view letters = word.substr(0, digit);
  if (digit != std::string_view::npos) {
    for (const std::string_view size : kSizeWords) {
      if (letters == size) return read_size(word, letters, word.substr(digit));
    }
    const std::size_t cross = word.find('x');
    if (digit == 0 && cross != std::string_view::npos) return read_lengths(word, cross);
  }
  return read_flag(word);
}

Status Parser::read(std::string_view text) {
  constexpr std::string_view kSpaces = " \t\r\n";
  std::size_t begin = text.find_first_not_of(kSpaces);
  while (begin != std::string_view::npos) {
    const std::size_t end = text.find_first_of(kSpaces, begin);
    if (Status s = read_word(text.substr(begin, end - begin)); !s.ok()) return s;
    begin = text.find_first_not_of(kSpaces, end);
  }
  return {};
}

void Parser::resolve_defaults() {
  AttentionDesc& desc = problem_.desc;
  if (!has(Field::kKvHeads)) desc.kv_heads = desc.query_heads;
  if (!has(Field::kQueryHeads)) desc.query_heads = desc.kv_heads;
  if (!has(Field::kValueDim)) desc.value_dim = desc.head_dim;
  const DataType type = all_types_.value_or(DataType::kFloat32);
  if (!has(Field::kQueryType)) desc.query.type = type;
  if (!has(Field::kKeyType)) desc.key.type = type;
  if (!has(Field::kValueType)) desc.value.type = type;
  if (!has(Field::kOutputType)) desc.output.type = type;
  // Buffers begin aligned, so the first elements are, unless they are shifted.
  if (!has(Field::kAligned)) desc.query.alignment_bytes = default_alignment(problem_);
  const std::uint32_t alignment = desc.query.alignment_bytes;
  desc.key.alignment_bytes = alignment;
  desc.value.alignment_bytes = alignment;
  desc.output.alignment_bytes = alignment;
}

Status Parser::check_packed() const {
  const AttentionDesc& desc = problem_.desc;
  if (problem_.layout != Layout::kPackedQkv) return {};
  if (desc.query_length != desc.kv_length) {
    return invalid(
        "layout=packed keeps queries and keys in one tensor, so their lengths must be equal, but they are " +
        std::to_string(desc.query_length) + " and " + std::to_string(desc.kv_length));
  }
  if (desc.head_dim != desc.value_dim) {
    return invalid(
        "layout=packed keeps keys and values in one tensor, so d and dv must be equal, but they are " +
        std::to_string(desc.head_dim) + " and " + std::to_string(desc.value_dim));
  }
  if (desc.query.type != desc.key.type || desc.query.type != desc.value.type) {
    return invalid(
        "layout=packed keeps query, key and value in one tensor, so they need one type, but have " +
        std::string(name(desc.query.type)) + ", " + std::string(name(desc.key.type)) + " and " +
        std::string(name(desc.value.type)));
  }
  return {};
}

/// Buffers begin aligned to whatever is asked for, so the shift alone decides about the first element.
Status Parser::check_shift() const {
  const AttentionDesc& desc = problem_.desc;
  constexpr std::int64_t kMost = std::int64_t{1} << 30;
  if (problem_.shift < 0 || problem_.shift > kMost || problem_.row_padding < 0 ||
      problem_.row_padding > kMost) {
    return invalid("pad is " + std::to_string(problem_.row_padding) + " and shift is " +
                   std::to_string(problem_.shift) + " but each must be from 0 to " + std::to_string(kMost));
  }
  for (const TensorDesc* tensor : {&desc.query, &desc.key, &desc.value, &desc.output}) {
    const std::int64_t bytes = problem_.shift * element_bytes(tensor->type);
    if (tensor->alignment_bytes == 0 || bytes % tensor->alignment_bytes == 0) continue;
    return invalid("shift=" + std::to_string(problem_.shift) + " puts the first " +
                   std::string(name(tensor->type)) + " element at byte " + std::to_string(bytes) +
                   ", which is no multiple of aligned=" + std::to_string(tensor->alignment_bytes));
  }
  return {};
}

Status Parser::check_together() const {
  const AttentionDesc& desc = problem_.desc;
  if (!has(Field::kQueryLength))
    return invalid("the problem names no query length; add a word such as q512 or 512x512");
  if (!has(Field::kKvLength))
    return invalid("the problem names no key length; add a word such as kv512 or 512x512");
  if (!has(Field::kHeadDim)) return invalid("the problem names no head dimension; add a word such as d64");
  if (has(Field::kAlign) && !desc.causal) {
    return invalid(quoted(set_by_[static_cast<std::size_t>(Field::kAlign)]) +
                   " says where the causal mask lies, but the problem is not causal; add the word causal");
  }
  if (desc.has_kv_lengths && std::cmp_not_equal(problem_.kv_lengths.size(), desc.batch)) {
    return invalid("kv_lengths names " + std::to_string(problem_.kv_lengths.size()) +
                   " lengths but batch is " + std::to_string(desc.batch) + "; give one for each batch entry");
  }
  return {};
}

/// Strides of a layout whose rows are followed by free elements.
void add_row_padding(Strides& strides, Layout layout, std::int64_t heads, std::int64_t rows,
                     std::int64_t padding) {
  using detail::saturating_multiply;
  strides.row = detail::saturating_add(strides.row, padding);
  if (layout == Layout::kBhsd) {
    strides.head = saturating_multiply(rows, strides.row);
    strides.batch = saturating_multiply(heads, strides.head);
  } else {
    strides.batch = saturating_multiply(rows, strides.row);
  }
}

Result<Problem> Parser::finish() {
  resolve_defaults();
  if (Status s = check_together(); !s.ok()) return s.error();
  AttentionDesc& desc = problem_.desc;
  desc.set_layout(problem_.layout);
  if (Status s = validate(desc); !s.ok()) return s.error();
  if (Status s = check_packed(); !s.ok()) return s.error();
  if (Status s = check_shift(); !s.ok()) return s.error();
  if (problem_.row_padding > 0) {
    const std::int64_t pad = problem_.row_padding;
    add_row_padding(desc.query.strides, problem_.layout, desc.query_heads, desc.query_length, pad);
    add_row_padding(desc.key.strides, problem_.layout, desc.kv_heads, desc.kv_length, pad);
    add_row_padding(desc.value.strides, problem_.layout, desc.kv_heads, desc.kv_length, pad);
    add_row_padding(desc.output.strides, problem_.layout, desc.query_heads, desc.query_length, pad);
    if (Status s = validate(desc); !s.ok()) return s.error();
  }
  return std::move(problem_);
}

}  // namespace

Result<Problem> parse_problem(std::string_view text) {
  Parser parser;
  if (Status s = parser.read(text); !s.ok()) return s.error();
  return parser.finish();
}

}  // namespace vkattn
