// A small language model that learns from a text, everything on Vulkan: attention and projections are the
// library's, with their gradients; what else a transformer and its training need is the shaders beside this
// file.
#include <CLI/CLI.hpp>

#include <string>
#include <vector>

#include "train_text/session.hpp"
#include "train_text/text.hpp"

namespace {

using train_text::Options;

void add_options(CLI::App& app, Options& options, std::vector<std::string>& files, std::string& output) {
  app.add_option("FILE", files, "The text, UTF-8; several are joined. Without: this project's documents");
  app.add_option("--steps", options.steps, "Steps in all, those before --resume too")
      ->check(CLI::PositiveNumber);
  app.add_option("--minutes", options.minutes, "Time for this run, default 2 where there is no --steps")
      ->check(CLI::PositiveNumber);
  app.add_option("--output", output, "The folder for what it makes, default train_text_output");
  app.add_option("--sample", options.sample, "Characters to write at the end, default 500")
      ->check(CLI::Range(0, 1'000'000));
  app.add_option("--prompt", options.prompt, "What the sample begins with");
  app.add_option("--temperature", options.temperature,
                 "Of the sample: 0 for the likeliest character, default 0.8")
      ->check(CLI::Range(0.0, 100.0));
  app.add_option("--device", options.device, "A number or a part of a device's name");
  CLI::Option* const resume =
      app.add_flag("--resume", options.resume,
                   "Go on with the training in --output, to the same bits as without the break");
  // A model that is there has these already.
  const auto add_new = [&](const std::string& name, auto& value, const std::string& text, auto least,
                           auto most) {
    app.add_option(name, value, text)->check(CLI::Range(least, most))->excludes(resume);
  };
  add_new("--layers", options.shape.layers, "Blocks of attention and MLP, default 2", 1, 32);
  add_new("--heads", options.shape.heads, "Of each attention, default 4", 1, 64);
  add_new("--d-model", options.shape.width, "Numbers for a token, a multiple of --heads, default 64", 4,
          4096);
  add_new("--context", options.shape.context, "Tokens of a sequence, default 64", 2, 16384);
  add_new("--batch", options.batch, "Sequences of a step, default 16", 1, 4096);
  add_new("--rate", options.rate, "Of learning, default 0.004", 1e-9, 1.0);
  add_new("--seed", options.seed, "Of first values, of what is drawn and of the sample, default 1", 0,
          2147483647);
  app.footer(
      "Examples:\n"
      "  train_text                                     two minutes on this project's documents\n"
      "  train_text book.txt --minutes 30 --layers 4 --d-model 128 --context 128 --output book\n"
      "  train_text book.txt --resume --minutes 30 --output book\n"
      "  train_text book.txt --resume --steps 1 --output book --prompt \"Once \" --sample 2000");
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app("Trains a small transformer on a text, a character a token, on any Vulkan device.",
               "train_text");
  Options options;
  std::vector<std::string> files;
  std::string output = "train_text_output";
  add_options(app, options, files, output);
  CLI11_PARSE(app, argc, argv);
  if (options.shape.width % options.shape.heads != 0) {
    std::fprintf(stderr, "--d-model %lld is no multiple of --heads %lld\n",
                 static_cast<long long>(options.shape.width), static_cast<long long>(options.shape.heads));
    return 1;
  }
  if (options.steps == 0 && options.minutes == 0) options.minutes = 2;
  options.output = output;
  options.files.assign(files.begin(), files.end());
  if (files.empty()) options.files = train_text::documents_of(EXAMPLE_DOCUMENTS);
  const train_text::Outcome outcome = train_text::run(options);
  for (const std::string& message : outcome.validation_messages)
    std::fprintf(stderr, "%s\n", message.c_str());
  return outcome.validation_messages.empty() ? 0 : 1;
}
