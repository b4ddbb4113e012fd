// The words of a problem string that have the form key=value: one table, one reader for each kind of value.
#include <cmath>
#include <utility>
#include <vector>

#include "problem/problem_parser.hpp"

namespace vkattn::detail {

Status ProblemParser::no_such_value(const Setting& setting, std::span<const std::string_view> values) const {
  std::string message = "the word " + quoted(setting.word) + " must name one of";
  for (std::size_t i = 0; i < values.size(); ++i) message += (i == 0 ? " " : ", ") + std::string(values[i]);
  if (const auto meant = closest_word(setting.value, values)) {
    message += "; did you mean " + quoted(*meant) + "?";
  }
  return problem_error(std::move(message));
}

template <class T, std::size_t N>
Status ProblemParser::choose(Field field, const Setting& setting, T& target,
                             const std::array<std::pair<std::string_view, T>, N>& choices) {
  std::vector<std::string_view> names;
  for (const auto& [name, value] : choices) {
    names.push_back(name);
    if (name != setting.value) continue;
    target = value;
    return once(field, setting.word);
  }
  return no_such_value(setting, names);
}

/// A number that goes into a member of the problem or its descriptor as it is.
template <Field field, auto target>
Status ProblemParser::read_plain(const Setting& setting) {
  const auto set = [&](auto& number_of) {
    if (Status s = number(setting.word, setting.value, number_of); !s.ok()) return s;
    return once(field, setting.word);
  };
  if constexpr (requires { problem_.*target; }) {
    return set(problem_.*target);
  } else {
    return set(problem_.desc.*target);
  }
}

Status ProblemParser::read_type(const Setting& setting) {
  using Choice = std::pair<std::string_view, DataType>;
  constexpr std::array<Choice, 3> kFloats{Choice{"f32", DataType::kFloat32},
                                          Choice{"f16", DataType::kFloat16},
                                          Choice{"bf16", DataType::kBfloat16}};
  constexpr std::array<Choice, 6> kAll{kFloats[0],
                                       kFloats[1],
                                       kFloats[2],
                                       Choice{"q8_0", DataType::kQ8_0},
                                       Choice{"q4_0", DataType::kQ4_0},
                                       Choice{"e4m3", DataType::kFloat8E4m3}};
  AttentionDesc& desc = problem_.desc;
  if (setting.key == "query") return choose(Field::kQueryType, setting, desc.query.type, kFloats);
  if (setting.key == "output") return choose(Field::kOutputType, setting, desc.output.type, kFloats);
  if (setting.key == "key") return choose(Field::kKeyType, setting, desc.key.type, kAll);
  return choose(Field::kValueType, setting, desc.value.type, kAll);
}

Status ProblemParser::read_cache_type(const Setting& setting) {
  if (Status s = read_type({setting.word, "key", setting.value}); !s.ok()) return s;
  return read_type({setting.word, "value", setting.value});
}

Status ProblemParser::read_window(const Setting& setting) {
  const std::size_t comma = setting.value.find(',');
  if (comma == std::string_view::npos) {
    return problem_error("the word " + quoted(setting.word) +
                         " needs two counts of keys, left and right, such as window=512,0; -1 is unlimited");
  }
  SlidingWindow& window = problem_.desc.window;
  if (Status s = number(setting.word, setting.value.substr(0, comma), window.left); !s.ok()) return s;
  if (Status s = number(setting.word, setting.value.substr(comma + 1), window.right); !s.ok()) return s;
  return once(Field::kWindow, setting.word);
}

Status ProblemParser::read_align(const Setting& setting) {
  AttentionDesc& desc = problem_.desc;
  if (setting.value == "top-left") {
    desc.align = Align::kTopLeft;
  } else if (setting.value == "bottom-right") {
    desc.align = Align::kBottomRight;
  } else {
    desc.align = Align::kOffset;
    const NumberError error = read_number(setting.value, desc.offset);
    if (error == NumberError::kOutOfRange) return number(setting.word, setting.value, desc.offset);
    if (error == NumberError::kMalformed) {
      constexpr std::array<std::string_view, 3> kValues{"top-left", "bottom-right", "a number"};
      return no_such_value(setting, kValues);
    }
  }
  return once(Field::kAlign, setting.word);
}

Status ProblemParser::read_scale(const Setting& setting) {
  float scale = 0;
  if (Status s = number(setting.word, setting.value, scale); !s.ok()) return s;
  problem_.desc.scale = scale;
  return once(Field::kScale, setting.word);
}

Status ProblemParser::read_mask_dims(const Setting& setting, std::string_view letters) {
  constexpr std::string_view kOrder = "bhqk";
  MaskDims& dims = problem_.mask_dims;
  bool* const varies[] = {&dims.batch, &dims.head, &dims.query, &dims.key};
  std::size_t next = 0;
  for (bool* const dim : varies) *dim = false;
  for (const char letter : letters) {
    const std::size_t place = kOrder.find(letter, next);
    if (place == std::string_view::npos) {
      return problem_error("the word " + quoted(setting.word) +
                           " must name after the colon the dimensions that the mask varies along, letters of "
                           "b, h, q and k in this order, such as mask=" +
                           std::string(setting.value.substr(0, setting.value.find(':'))) + ":hqk");
    }
    *varies[place] = true;
    next = place + 1;
  }
  return {};
}

Status ProblemParser::read_mask(const Setting& setting) {
  using Choice = std::pair<std::string_view, MaskType>;
  constexpr std::array<Choice, 4> kTypes{Choice{"f32", MaskType::kFloat32}, Choice{"f16", MaskType::kFloat16},
                                         Choice{"bytes", MaskType::kBytes}, Choice{"bits", MaskType::kBits}};
  const std::size_t colon = setting.value.find(':');
  if (colon != std::string_view::npos) {
    if (Status s = read_mask_dims(setting, setting.value.substr(colon + 1)); !s.ok()) return s;
  }
  return choose(Field::kMask, {setting.word, setting.key, setting.value.substr(0, colon)},
                problem_.desc.mask.type, kTypes);
}

Status ProblemParser::read_hidden(const Setting& setting) {
  if (Status s = number(setting.word, setting.value, problem_.hidden_share); !s.ok()) return s;
  if (!(problem_.hidden_share >= 0) || problem_.hidden_share > 1) {
    return problem_error("the share in " + quoted(setting.word) + " must be from 0 to 1");
  }
  return once(Field::kHidden, setting.word);
}

Status ProblemParser::read_block(const Setting& setting) {
  if (Status s = number(setting.word, setting.value, problem_.hidden_block); !s.ok()) return s;
  if (problem_.hidden_block < 1) {
    return problem_error("the number of positions in " + quoted(setting.word) + " must be at least 1");
  }
  return once(Field::kBlock, setting.word);
}

Status ProblemParser::read_alibi(const Setting& setting) {
  using Choice = std::pair<std::string_view, Alibi>;
  constexpr std::array<Choice, 2> kSlopes{Choice{"standard", Alibi::kStandard},
                                          Choice{"given", Alibi::kGiven}};
  return choose(Field::kAlibi, setting, problem_.desc.alibi, kSlopes);
}

Status ProblemParser::read_lengths(const Setting& setting) {
  const bool of_keys = setting.key == "kv_lengths";
  std::vector<std::int32_t>& lengths = of_keys ? problem_.kv_lengths : problem_.query_lengths;
  std::string_view text = setting.value;
  std::string_view piece;
  if (text.empty()) text = {};  // no entries, for a batch of none
  while (next_piece(text, ',', piece)) {
    std::int32_t length = 0;
    if (Status s = number(setting.word, piece, length); !s.ok()) return s;
    lengths.push_back(length);
  }
  return once(of_keys ? Field::kKvLengths : Field::kQueryLengths, setting.word);
}

Status ProblemParser::read_ring(const Setting& setting) {
  problem_.desc.cache.mapping = KeyMapping::kRing;
  if (Status s = number(setting.word, setting.value, problem_.desc.cache.ring_length); !s.ok()) return s;
  return once(Field::kMapping, setting.word);
}

/// The word sequences alone is a flag: read_flag().
Status ProblemParser::read_sequences(const Setting& setting) {
  using Choice = std::pair<std::string_view, bool>;
  constexpr std::array<Choice, 1> kPacked{Choice{"queries", true}};
  return choose(Field::kSequences, setting, problem_.desc.has_cumulative_query_lengths, kPacked);
}

Status ProblemParser::read_page(const Setting& setting) {
  problem_.desc.cache.mapping = KeyMapping::kPaged;
  if (Status s = number(setting.word, setting.value, problem_.desc.cache.page_size); !s.ok()) return s;
  return once(Field::kMapping, setting.word);
}

Status ProblemParser::read_weights(const Setting& setting) {
  using Choice = std::pair<std::string_view, WeightsStage>;
  constexpr std::array<Choice, 4> kStages{
      Choice{"scores", WeightsStage::kScores}, Choice{"softcap", WeightsStage::kSoftcap},
      Choice{"masked", WeightsStage::kMasked}, Choice{"probabilities", WeightsStage::kProbabilities}};
  return choose(Field::kWeights, setting, problem_.desc.weights, kStages);
}

Status ProblemParser::read_score(const Setting& setting) {
  using Choice = std::pair<std::string_view, ScoreKind>;
  constexpr std::array<Choice, 4> kKinds{
      Choice{"alibi", ScoreKind::kAlibi}, Choice{"prefix", ScoreKind::kPrefix},
      Choice{"documents", ScoreKind::kDocuments}, Choice{"bias", ScoreKind::kBias}};
  return choose(Field::kScore, setting, problem_.score, kKinds);
}

Status ProblemParser::read_rotary(const Setting& setting) {
  using Choice = std::pair<std::string_view, RotaryStyle>;
  constexpr std::array<Choice, 2> kStyles{Choice{"interleaved", RotaryStyle::kInterleaved},
                                          Choice{"half-split", RotaryStyle::kHalfSplit}};
  return choose(Field::kRotary, setting, problem_.rotary, kStyles);
}

Status ProblemParser::read_layout(const Setting& setting) {
  using Choice = std::pair<std::string_view, Layout>;
  constexpr std::array<Choice, 3> kLayouts{Choice{"bhsd", Layout::kBhsd}, Choice{"bshd", Layout::kBshd},
                                           Choice{"packed", Layout::kPackedQkv}};
  return choose(Field::kLayout, setting, problem_.layout, kLayouts);
}

Status ProblemParser::read_data(const Setting& setting) {
  using Choice = std::pair<std::string_view, DataKind>;
  constexpr std::array<Choice, 4> kKinds{
      Choice{"normal", DataKind::kNormal}, Choice{"uniform", DataKind::kUniform},
      Choice{"dominant", DataKind::kDominant}, Choice{"equal", DataKind::kEqual}};
  return choose(Field::kData, setting, problem_.data, kKinds);
}

Status ProblemParser::read_magnitude(const Setting& setting) {
  if (Status s = number(setting.word, setting.value, problem_.magnitude); !s.ok()) return s;
  if (!std::isfinite(problem_.magnitude) || problem_.magnitude <= 0) {
    return problem_error("the magnitude in " + quoted(setting.word) + " must be finite and above 0");
  }
  return once(Field::kMagnitude, setting.word);
}

/// One promise for Q, K, V and O: resolve_defaults() copies it.
Status ProblemParser::read_aligned(const Setting& setting) {
  if (Status s = number(setting.word, setting.value, problem_.desc.query.alignment_bytes); !s.ok()) return s;
  return once(Field::kAligned, setting.word);
}

std::span<const ProblemParser::SettingReader> ProblemParser::settings() {
  using Self = ProblemParser;
  static constexpr SettingReader kSettings[] = {
      {"query", &Self::read_type},
      {"key", &Self::read_type},
      {"value", &Self::read_type},
      {"output", &Self::read_type},
      {"cache", &Self::read_cache_type},
      {"window", &Self::read_window},
      {"align", &Self::read_align},
      {"scale", &Self::read_scale},
      {"softcap", &Self::read_plain<Field::kSoftcap, &AttentionDesc::softcap>},
      {"mask", &Self::read_mask},
      {"hidden", &Self::read_hidden},
      {"block", &Self::read_block},
      {"alibi", &Self::read_alibi},
      {"kv_lengths", &Self::read_lengths},
      {"query_lengths", &Self::read_lengths},
      {"sequences", &Self::read_sequences},
      {"ring", &Self::read_ring},
      {"page", &Self::read_page},
      {"dropout", &Self::read_plain<Field::kDropout, &AttentionDesc::dropout>},
      {"dropout_seed", &Self::read_plain<Field::kDropoutSeed, &Problem::dropout_seed>},
      {"dropout_offset", &Self::read_plain<Field::kDropoutOffset, &Problem::dropout_offset>},
      {"weights", &Self::read_weights},
      {"score", &Self::read_score},
      {"append", &Self::read_plain<Field::kAppend, &Problem::appended>},
      {"rotary", &Self::read_rotary},
      {"layout", &Self::read_layout},
      {"pad", &Self::read_plain<Field::kPad, &Problem::row_padding>},
      {"shift", &Self::read_plain<Field::kShift, &Problem::shift>},
      {"aligned", &Self::read_aligned},
      {"data", &Self::read_data},
      {"magnitude", &Self::read_magnitude},
      {"seed", &Self::read_plain<Field::kSeed, &Problem::seed>},
  };
  return kSettings;
}

}  // namespace vkattn::detail
