// See word_options.hpp.
#include "word_options.hpp"

#include <algorithm>
#include <array>

namespace vkattn::cli {

void add_word_options(CLI::App& app, std::span<WordArgument> arguments) {
  for (WordArgument& argument : arguments) {
    const bench::WordOption& option = argument.word->option;
    const std::string help = bench::with_choices(option.help, *argument.word);
    if (option.metavar.empty()) {
      add_switch(app, std::string(option.name), argument.is_switched, help);
    } else {
      add_value(app, std::string(option.name), argument.text, std::string(option.metavar), help);
    }
  }
}

bool is_given(std::span<const WordArgument> arguments, std::string_view option) {
  return std::ranges::any_of(arguments, [&](const WordArgument& argument) {
    return argument.word->option.name == option && argument.is_given();
  });
}

void parse_words(std::span<const WordArgument> arguments, bench::Problem& problem) {
  for (const WordArgument& argument : arguments) {
    if (!argument.is_given()) continue;
    const std::string option(argument.word->option.name);
    const bool is_file = argument.word->option.tensor != nullptr;
    read_option(option, is_file ? argument.word->option.value : argument.text,
                [&](const bench::Given& given) { return argument.word->read(given, problem); });
    AttentionDesc of_no_arrays = problem.desc;
    of_no_arrays.query_length = of_no_arrays.kv_length = 0;
    of_no_arrays.head_dim = 1;
    if (of_no_arrays.alibi == Alibi::kTimesMask) of_no_arrays.mask.type = MaskType::kFloat32;  // of a file
    if (const Result<void> s = validate(of_no_arrays); !s.ok()) {
      fail_usage(option + " '" + console::printable(argument.text) + "': " + s.error().message);
    }
  }
}

bool asks_for_positions(std::span<const WordArgument> arguments) {
  if (is_given(arguments, "--alibi-slopes") && !is_given(arguments, "--alibi-times-mask")) return true;
  return std::ranges::any_of(std::array{"--causal", "--window", "--alibi"},
                             [&](const char* option) { return is_given(arguments, option); });
}

void require_sense_of_align(std::span<const WordArgument> arguments) {
  if (!is_given(arguments, "--align") || asks_for_positions(arguments)) return;
  fail_usage("--align says where query 0 lies among the keys, so it needs --causal, --window or --alibi");
}

}  // namespace vkattn::cli
