// Options that are words of problem strings, for `vkattn run` and `vkattn inspect`.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "command.hpp"
#include "console.hpp"
#include "error.hpp"
#include "problem/word_table.hpp"

namespace vkattn::cli {

/// An option that is a word of problem strings.
struct WordArgument {
  const bench::Word* word;
  std::string text;          ///< empty if not given; for a tensor the name of its file
  bool is_switched = false;  ///< whether a word without a value is given

  [[nodiscard]] bool is_given() const { return is_switched || !text.empty(); }
};

/// Adds an option for each argument. The arguments must stay at their addresses.
void add_word_options(CLI::App& app, std::span<WordArgument> arguments);

[[nodiscard]] bool is_given(std::span<const WordArgument> arguments, std::string_view option);

/// Reads an option's text as words of problem strings are read. Control characters become '?': no valid value
/// has any.
template <class Read>
void read_option(std::string_view option, std::string_view text, Read&& read) {
  const std::string printable = console::printable(text);
  require(read(bench::Given{option, printable, true}));
}

/// Sets what the words say, and checks it by the library's rules, which hold for arrays of any size.
void parse_words(std::span<const WordArgument> arguments, bench::Problem& problem);

/// Whether an option is given that depends on the place of query 0 among the keys.
[[nodiscard]] bool asks_for_positions(std::span<const WordArgument> arguments);

/// Fails if --align is given without an option that depends on it.
void require_sense_of_align(std::span<const WordArgument> arguments);

}  // namespace vkattn::cli
