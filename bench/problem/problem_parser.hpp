// The reader of problem strings: each word sets a field of the problem, once.
#pragma once

#include <array>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "problem/problem.hpp"
#include "problem/words.hpp"

namespace vkattn::detail {

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
  kWindow,
  kAlign,
  kScale,
  kSoftcap,
  kMask,
  kHidden,
  kBlock,
  kAlibi,
  kSinks,
  kLse,
  kKvLengths,
  kQueryLengths,
  kSequences,
  kMapping,
  kDropout,
  kDropoutSeed,
  kDropoutOffset,
  kWeights,
  kScore,
  kAppend,
  kRotary,
  kLayout,
  kPad,
  kShift,
  kAligned,
  kData,
  kMagnitude,
  kSeed,
  kCount,
};

[[nodiscard]] Error problem_error(std::string message);
/// A word in quotes, cut where it would fill the screen.
[[nodiscard]] std::string quoted(std::string_view text);

/// Reads the words of one string into a Problem.
class ProblemParser {
 public:
  Status read(std::string_view text);
  Result<Problem> finish();

 private:
  /// A word of the form key=value.
  struct Setting {
    std::string_view word;
    std::string_view key;
    std::string_view value;
  };
  struct SettingReader {
    std::string_view key;
    Status (ProblemParser::*read)(const Setting& setting);
  };
  static std::span<const SettingReader> settings();

  Status read_word(std::string_view word);
  Status read_flag(std::string_view word);
  Status read_size(std::string_view word, std::string_view letters, std::string_view digits);
  Status read_cross(std::string_view word, std::size_t cross);
  [[nodiscard]] Status unknown(std::string_view word) const;
  Status once(Field field, std::string_view word);
  [[nodiscard]] bool has(Field field) const { return !word_of(field).empty(); }
  [[nodiscard]] std::string_view word_of(Field field) const {
    return set_by_[static_cast<std::size_t>(field)];
  }

  // Settings.
  Status read_type(const Setting& setting);
  Status read_cache_type(const Setting& setting);
  Status read_window(const Setting& setting);
  Status read_align(const Setting& setting);
  Status read_scale(const Setting& setting);
  Status read_mask(const Setting& setting);
  Status read_mask_dims(const Setting& setting, std::string_view letters);
  Status read_hidden(const Setting& setting);
  Status read_block(const Setting& setting);
  Status read_alibi(const Setting& setting);
  Status read_lengths(const Setting& setting);
  Status read_sequences(const Setting& setting);
  Status read_ring(const Setting& setting);
  Status read_page(const Setting& setting);
  Status read_weights(const Setting& setting);
  Status read_score(const Setting& setting);
  Status read_rotary(const Setting& setting);
  Status read_layout(const Setting& setting);
  Status read_data(const Setting& setting);
  Status read_magnitude(const Setting& setting);
  Status read_aligned(const Setting& setting);
  template <Field field, auto target>
  Status read_plain(const Setting& setting);
  template <class T>
  Status number(std::string_view word, std::string_view digits, T& value) const;
  /// Sets `target` to the value of the name that the setting gives.
  template <class T, std::size_t N>
  Status choose(Field field, const Setting& setting, T& target,
                const std::array<std::pair<std::string_view, T>, N>& choices);
  [[nodiscard]] Status no_such_value(const Setting& setting, std::span<const std::string_view> values) const;

  // What the words give together.
  void resolve_defaults();
  [[nodiscard]] Status check_together() const;
  [[nodiscard]] Status check_lengths() const;
  [[nodiscard]] Status check_features() const;
  [[nodiscard]] Status check_append() const;
  [[nodiscard]] Status check_packed() const;
  [[nodiscard]] Status check_shift() const;

  Problem problem_;
  std::array<std::string_view, static_cast<std::size_t>(Field::kCount)> set_by_;
  std::optional<DataType> all_types_;
};

/// Reads the whole of `digits` as a number, or says what is wrong with the word.
template <class T>
Status ProblemParser::number(std::string_view word, std::string_view digits, T& value) const {
  switch (read_number(digits, value)) {
    case NumberError::kOutOfRange:
      return problem_error("the number in " + quoted(word) + " does not fit " +
                           std::to_string(sizeof(T) * 8) + " bits");
    case NumberError::kMalformed:
      return problem_error("the word " + quoted(word) + " needs a number where it says " + quoted(digits));
    case NumberError::kNone:
      break;
  }
  return {};
}

}  // namespace vkattn::detail
