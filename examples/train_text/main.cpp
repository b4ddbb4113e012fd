// A small language model that learns from a text, all of it on Vulkan. The library computes attention and
// projections with their gradients; the shaders beside this file compute everything else that a transformer
// and its training need.
#include <string>
#include <vector>

#include "decoder/terminal.hpp"
#include "train_text/session.hpp"
#include "train_text/text.hpp"

namespace {

using decoder::add_number;
using train_text::Options;

// Returns the options of a new model. A model that is continued has them already.
std::vector<CLI::Option*> add_options(CLI::App& app, Options& options) {
  constexpr double kMany = 1e9;
  app.add_option("FILE", options.files,
                 "The text, UTF-8; several are joined. Without: this project's documents")
      ->option_text("...");
  add_number(app, "--steps", options.steps, "Steps in all, those before --resume too", 1, kMany);
  add_number(app, "--minutes", options.minutes, "Time for this run, default 2 where there is no --steps",
             1e-9, kMany);
  app.add_option("--output", options.output, "The folder for what it makes, default train_text_output")
      ->option_text("FOLDER");
  add_number(app, "--sample", options.sample, "Characters to write at the end, default 500", 0, 1'000'000);
  app.add_option("--prompt", options.prompt, "What the sample begins with")->option_text("TEXT");
  add_number(app, "--temperature", options.temperature,
             "Of the sample: 0 for the likeliest character, default 0.8", 0, 100);
  app.add_option("--device", options.device, "A number or a part of a device's name")->option_text("NAME");
  app.add_flag("--resume", options.resume,
               "Go on with the training in --output, to the same bits as without the break");
  std::vector<CLI::Option*> of_model;
  const auto add = [&](const char* name, auto& number, const char* text, double least, double most) {
    of_model.push_back(add_number(app, name, number, text, least, most));
  };
  add("--layers", options.fresh.shape.layers, "Blocks of attention and MLP, 1 to 32, default 2", 1, 32);
  add("--heads", options.fresh.shape.heads, "Of each attention, 1 to 64, default 4", 1, 64);
  add("--d-model", options.fresh.shape.width,
      "Numbers for a token, 4 to 4096, a multiple of --heads, default 64", 4, 4096);
  add("--context", options.fresh.shape.context, "Tokens of a sequence, 2 to 16384, default 64", 2, 16384);
  add("--batch", options.fresh.batch, "Sequences of a step, 1 to 4096, default 16", 1, 4096);
  add("--rate", options.fresh.rate, "Of learning, 1e-9 to 1, default 0.004", 1e-9, 1.0);
  add("--seed", options.fresh.seed,
      "Of first values, of what is drawn and of the sample, 0 to 2147483647, default 1", 0, 2147483647);
  app.footer(
      "Examples:\n"
      "  train_text                                     two minutes on this project's documents\n"
      "  train_text book.txt --minutes 30 --layers 4 --d-model 128 --context 128 --output book\n"
      "  train_text book.txt --resume --minutes 30 --output book\n"
      "  train_text book.txt --resume --steps 1 --output book --prompt \"Once \" --sample 2000");
  return of_model;
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app("Trains a small transformer on a text, a character a token, on any Vulkan device.",
               "train_text");
  Options options;
  const std::vector<CLI::Option*> of_new_model = add_options(app, options);
  return decoder::run_program(app, argc, argv, [&] {
    for (const CLI::Option* const option : of_new_model) {
      if (options.resume && option->count() > 0)
        decoder::refuse(option->get_name() +
                        " is for a new model, and --resume goes on with one; leave one of them out");
    }
    const train_text::Shape& shape = options.fresh.shape;
    if (shape.width % shape.heads != 0)
      decoder::refuse("--d-model " + std::to_string(shape.width) + " is no multiple of --heads " +
                      std::to_string(shape.heads));
    if (options.steps == 0 && options.minutes == 0) options.minutes = 2;
    if (options.files.empty()) options.files = train_text::documents_of(EXAMPLE_DOCUMENTS);
    (void)train_text::run(options);
  });
}
