// A training, from its options to its files.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "train_text/checkpoint.hpp"
#include "train_text/text.hpp"

namespace train_text {

struct Options {
  std::vector<std::filesystem::path> files;            // the text
  std::filesystem::path output = "train_text_output";  // a folder
  Progress fresh;                                      // of a new training: its shape, batch, seed and rate
  std::int64_t steps = 0;                              // in all, including those before --resume; 0: no limit
  double minutes = 0;                                  // of this run; 0: no limit
  bool resume = false;                                 // goes on with the training in the folder
  std::int64_t sample = 500;
  std::string prompt;  // empty: a new line, or the first character of the text
  float temperature = 0.8F;
  std::string device;
  bool validation = false;  // collect messages of the validation layer
};

struct Outcome {
  Progress progress;
  std::optional<double> kept_back;  // mean loss on the validation text
  std::string text;                 // the sample, with its prompt
  std::vector<std::string> validation_messages;
};

// Refuses a training that the device has no room for, before anything of it is made.
[[nodiscard]] vkattn::Result<void> check_room(const decoder::Room& room, const Shape& shape,
                                              std::int64_t batch);

// Trains, saves, draws, samples, and prints its progress. It ends the program with a sentence if something is
// wrong. An interrupt ends the training early; everything after it is still done.
Outcome run(const Options& options);

}  // namespace train_text
