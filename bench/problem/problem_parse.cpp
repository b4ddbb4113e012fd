// Reading problem strings: words, sizes and flags, and one error for whatever is none of them.
#include <limits>
#include <utility>
#include <vector>

#include "problem/problem_parser.hpp"

namespace vkattn {

namespace detail {

namespace {

constexpr std::array<std::string_view, 8> kSizeWords{"b", "h", "hq", "hkv", "q", "kv", "d", "dv"};
constexpr std::array<std::string_view, 8> kFlagWords{"f32", "f16",   "bf16",  "causal",
                                                     "lse", "alibi", "sinks", "sequences"};

}  // namespace

Error problem_error(std::string message) {
  return Error{ErrorCode::kInvalidArgument, VK_SUCCESS, std::move(message)};
}

std::string quoted(std::string_view text) {
  constexpr std::size_t kLongest = 60;  // a hostile word shall not fill the screen
  if (text.size() > kLongest) return "'" + std::string(text.substr(0, kLongest)) + "…'";
  return "'" + std::string(text) + "'";
}

Status ProblemParser::once(Field field, std::string_view word) {
  std::string_view& earlier = set_by_[static_cast<std::size_t>(field)];
  if (!earlier.empty()) {
    return problem_error(quoted(word) + " sets again what " + quoted(earlier) + " has set; give one of them");
  }
  earlier = word;
  return {};
}

Status ProblemParser::unknown(std::string_view word) const {
  std::vector<std::string_view> keys;
  for (const SettingReader& setting : settings()) keys.push_back(setting.key);
  std::string message = "unknown word " + quoted(word) + " in the problem";
  const std::size_t equals = word.find('=');
  if (equals != std::string_view::npos) {
    const std::string_view key = word.substr(0, equals);
    if (const auto meant = closest_word(key, keys)) {
      message += "; did you mean '" + std::string(*meant) + "=…'?";
    }
    return problem_error(std::move(message));
  }
  const std::size_t digit = word.find_first_of("0123456789");
  if (const auto flag = closest_word(word, kFlagWords)) {
    message += "; did you mean " + quoted(*flag) + "?";
  } else if (const auto key = closest_word(word, keys)) {
    message += "; did you mean '" + std::string(*key) + "=…'?";
  } else if (digit != std::string_view::npos && digit > 0) {
    if (const auto size = closest_word(word.substr(0, digit), kSizeWords)) {
      message += "; did you mean '" + std::string(*size) + std::string(word.substr(digit, 20)) + "'?";
    }
  }
  return problem_error(std::move(message));
}

Status ProblemParser::read_flag(std::string_view word) {
  AttentionDesc& desc = problem_.desc;
  for (const DataType type : {DataType::kFloat32, DataType::kFloat16, DataType::kBfloat16}) {
    if (word != name(type)) continue;
    all_types_ = type;
    return once(Field::kAllTypes, word);
  }
  const auto set = [&](Field field, bool& target) {
    target = true;
    return once(field, word);
  };
  if (word == "causal") return set(Field::kCausal, desc.causal);
  if (word == "lse") return set(Field::kLse, desc.has_lse);
  if (word == "sinks") return set(Field::kSinks, desc.has_sinks);
  if (word == "sequences") return set(Field::kSequences, desc.has_cumulative_lengths);
  if (word == "alibi") {
    desc.alibi = Alibi::kStandard;
    return once(Field::kAlibi, word);
  }
  return unknown(word);
}

Status ProblemParser::read_size(std::string_view word, std::string_view letters, std::string_view digits) {
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

Status ProblemParser::read_cross(std::string_view word, std::size_t cross) {
  if (Status s = number(word, word.substr(0, cross), problem_.desc.query_length); !s.ok()) return s;
  if (Status s = number(word, word.substr(cross + 1), problem_.desc.kv_length); !s.ok()) return s;
  if (Status s = once(Field::kQueryLength, word); !s.ok()) return s;
  return once(Field::kKvLength, word);
}

Status ProblemParser::read_word(std::string_view word) {
  const std::size_t equals = word.find('=');
  if (equals != std::string_view::npos) {
    const Setting setting{word, word.substr(0, equals), word.substr(equals + 1)};
    for (const SettingReader& reader : settings()) {
      if (reader.key == setting.key) return (this->*reader.read)(setting);
    }
    return unknown(word);
  }
  const std::size_t digit = word.find_first_of("-0123456789");
  const std::string_view letters = word.substr(0, digit);
  if (digit != std::string_view::npos) {
    for (const std::string_view size : kSizeWords) {
      if (letters == size) return read_size(word, letters, word.substr(digit));
    }
    const std::size_t cross = word.find('x');
    if (digit == 0 && cross != std::string_view::npos) return read_cross(word, cross);
  }
  return read_flag(word);
}

Status ProblemParser::read(std::string_view text) {
  constexpr std::string_view kSpaces = " \t\r\n";
  std::size_t begin = text.find_first_not_of(kSpaces);
  while (begin != std::string_view::npos) {
    const std::size_t end = text.find_first_of(kSpaces, begin);
    if (Status s = read_word(text.substr(begin, end - begin)); !s.ok()) return s;
    begin = text.find_first_not_of(kSpaces, end);
  }
  return {};
}

}  // namespace detail

Result<Problem> parse_problem(std::string_view text) {
  detail::ProblemParser parser;
  if (Status s = parser.read(text); !s.ok()) return s.error();
  return parser.finish();
}

}  // namespace vkattn
