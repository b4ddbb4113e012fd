// The options of `vkattn run`: as typed, and their meaning.
#pragma once

#include <string>
#include <vector>

#include "choice_options.hpp"
#include "command.hpp"
#include "open_runtime.hpp"
#include "run_inputs.hpp"
#include "run_outputs.hpp"
#include "score_file.hpp"
#include "word_options.hpp"

namespace vkattn::cli {

/// The options as typed.
struct RunArguments : RunFiles, OutputPaths {
  std::vector<WordArgument> words;
  std::string type, kv_type, backward_kernel;
  std::string rotary, rotary_dims, rotary_base;
  ChoiceArguments choice;
  DeviceArguments where;
  std::string layout = "bhsd";
  bool check = false, json = false;
  ScoreArguments score;
};

/// Adds the options to the command, and its help.
void add_run_arguments(CLI::App& app, RunArguments& arguments);

/// The problem and files that the options describe. Throws CommandError if the options contradict each other.
[[nodiscard]] RunOptions parse_run_arguments(const RunArguments& arguments);

}  // namespace vkattn::cli
