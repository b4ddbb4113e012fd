// The words of problem strings: one table that reads, writes and explains them. `vkattn run` takes its
// options for what files do not say from the same rows.
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

/// How a word looks.
enum class Form {
  kFlag,     ///< causal
  kSize,     ///< b2
  kCross,    ///< 512x512
  kProduct,  ///< 512x512x512
  kSetting,  ///< key=value
};

/// What a word says something about.
enum class Subject { kAttention, kMatmul, kBoth };

/// What a word is written with: behind a size's letters or a setting's =; nothing where it need not be
/// written.
using Text = std::optional<std::string>;

/// The option of `vkattn run` for the same thing.
struct WordOption {
  std::string_view name;     ///< "--softcap"; empty where there is none
  std::string_view metavar;  ///< empty for one without a value
  std::string_view help;
  /// Of an option that names a file: the tensor in it, a number for each query head.
  BufferRange AttentionTensors::*tensor = nullptr;
  std::string_view value = {};  ///< that the word is read with where the file is given
};

/// A row of the table.
struct Word {
  Form form;
  std::string_view key;
  /// The word in the help, and what it means there. Empty where the row before explains it too.
  std::string_view example;
  std::string_view help;
  /// Sets what the word says. Given::value is what follows the key.
  Result<void> (*read)(const Given& given, Problem& problem);
  Text (*write)(const Problem& problem);
  /// What it sets, each at most once in a string, named after the words that set it alone; the key where
  /// empty.
  std::array<std::string_view, 2> sets = {};
  WordOption option = {};
  Subject subject = Subject::kAttention;
  /// Of a word that is one of several names: these, which its help and its option's end with.
  std::string (*choices)() = nullptr;
};

/// A row's help, or that of its option, with the names that there are.
[[nodiscard]] std::string with_choices(std::string_view help, const Word& word);

/// All words, in the order in which they are written.
[[nodiscard]] std::span<const Word> words();

/// The alignment of a problem's tensors that its string need not name.
[[nodiscard]] std::uint32_t default_alignment(const Problem& problem);

}  // namespace vkattn::bench
