// The words of problem strings: one table to read, write and explain them. Facts that files do not tell are
// options of `vkattn run`, made from the same rows.
#pragma once

#include <vkattn/attention_tensors.hpp>

#include <array>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "problem/problem.hpp"
#include "problem/values.hpp"

namespace vkattn::bench {

/// The form of a word.
enum class Form {
  kFlag,     ///< causal
  kSize,     ///< b2
  kCross,    ///< 512x512
  kProduct,  ///< 512x512x512
  kSetting,  ///< key=value
};

/// The kind of problem that a word belongs to.
enum class Subject { kAttention, kMatmul, kBoth };

/// The value that a word is written with: after the letters of a size, or after the = of a setting. Nothing
/// if the word need not be written.
using Text = std::optional<std::string>;

/// The option of `vkattn run` for the same thing.
struct WordOption {
  std::string_view name;     ///< "--softcap"; empty if there is no option
  std::string_view metavar;  ///< empty for an option without a value
  std::string_view help;
  /// For an option that names a file: the tensor in the file, which has one number for each query head.
  BufferRange AttentionTensors::*tensor = nullptr;
  std::string_view value = {};  ///< the value that the word is read with if the file is given
};

/// A row of the table.
struct Word {
  Form form;
  std::string_view key;
  /// The word in the help, and its explanation. Empty if the row before explains this word too.
  std::string_view example;
  std::string_view help;
  /// Sets what the word says. Given::value is the text after the key.
  Result<void> (*read)(const Given& given, Problem& problem);
  Text (*write)(const Problem& problem);
  /// The things that the word sets. A string may set each of them once. A thing has the name of the word that
  /// sets only it. If empty, the word sets the thing with the name of its key.
  std::array<std::string_view, 2> sets = {};
  WordOption option = {};
  Subject subject = Subject::kAttention;
  /// For a word whose value is one of several names: those names, which end the help of the word and of its
  /// option.
  std::string (*choices)() = nullptr;
};

/// The help of a row or of its option, followed by the names of its choices.
[[nodiscard]] std::string with_choices(std::string_view help, const Word& word);

/// All words, in the order in which they are written.
[[nodiscard]] std::span<const Word> words();

/// The alignment of a problem's tensors if its string names none.
[[nodiscard]] std::uint32_t default_alignment(const Problem& problem);

}  // namespace vkattn::bench
