// Options that are words of problem strings: those of `vkattn run` and `vkattn inspect`.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "command.hpp"
#include "console.hpp"
#include "error.hpp"
#include "problem/word_table.hpp"

namespace vkattn::cli {

/// An option that is a word.
struct WordArgument {
  const bench::Word* word;
  std::string text;          ///< empty where not given; of a tensor its file
  bool is_switched = false;  ///< of a word without a value

  [[nodiscard]] bool is_given() const { return is_switched || !text.empty(); }
};

/// Adds an option for each argument; these must stay where they are.
void add_word_options(CLI::App& app, std::span<WordArgument> arguments);

[[nodiscard]] bool is_given(std::span<const WordArgument> arguments, std::string_view option);

/// An option's text as words of problem strings are read. No value has control characters.
template <class Read>
void read_option(std::string_view option, std::string_view text, Read&& read) {
  const std::string printable = console::printable(text);
  require(read(bench::Given{option, printable, true}));
}

/// What the words give, checked by the library's rules, which are the same for arrays of any size.
void parse_words(std::span<const WordArgument> arguments, bench::Problem& problem);

/// That an option is given whose meaning depends on where query 0 lies among the keys.
[[nodiscard]] bool asks_for_positions(std::span<const WordArgument> arguments);

/// Fails where --align is given alone: it only says something about others.
void require_sense_of_align(std::span<const WordArgument> arguments);

}  // namespace vkattn::cli
