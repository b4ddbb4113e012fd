// Reads a checkpoint as model hubs publish it, and continues a text, all of it on a Vulkan device.
#include <cstdio>
#include <sstream>
#include <string>
#include <vector>

#include "decoder/terminal.hpp"
#include "decoder/text.hpp"
#include "generate/session.hpp"

namespace {

using decoder::add_number;

void add_options(CLI::App& app, generate::Options& options, std::string& prompt, std::string& prompt_file) {
  constexpr double kMany = 1 << 24;
  app.add_option("FOLDER", options.folder, "config.json, model.safetensors or its shards, tokenizer.json")
      ->required();
  app.add_option("PROMPT", prompt, "The text to continue");
  app.add_option("--prompt-file", prompt_file, "A prompt a line; all are continued at once")
      ->option_text("FILE");
  add_number(app, "--tokens", options.tokens, "The most to write, default 128", 1, kMany);
  add_number(app, "--context", options.context,
             "The most tokens of a text, default what the prompt and --tokens need", 2, kMany);
  add_number(app, "--chunk", options.chunk, "Tokens of the prompt that are read at once, default 64", 16,
             4096);
  app.add_option("--weights", options.weights, "Make the weights q8_0 or q4_0, default as they are stored")
      ->option_text("TYPE")
      ->check(CLI::IsMember({"q8_0", "q4_0"}));
  app.add_option("--cache", options.cache, "Type of the cached keys and values: f32, f16 (default) or q8_0")
      ->option_text("TYPE")
      ->check(CLI::IsMember({"f32", "f16", "q8_0"}));
  add_number(app, "--temperature", options.sampling.temperature, "0 (default) for the likeliest token", 0,
             100);
  add_number(app, "--top-p", options.sampling.top_p,
             "Draw from the likeliest tokens of this share, default 1", 1e-6, 1);
  add_number(app, "--seed", options.sampling.seed, "Seed of the random numbers, default 1", 0, 4294967295.0);
  add_number(app, "--frame-budget", options.frame_budget_ms,
             "Write as a game would: at most so many ms in each frame", 0.01, 1000);
  app.add_option("--attention", options.picture, "Draw what the tokens of a layer look at")
      ->option_text("PNG");
  add_number(app, "--layer", options.layer, "The layer that --attention draws, default the last", 0, 1023);
  app.add_option("--device", options.device, "A number or a part of a device's name")->option_text("NAME");
  app.footer(
      "Example:\n  generate SmolLM2-135M \"Once upon a time\" --temperature 0.8 --top-p 0.95 --attention "
      "heads.png\n\nExit codes: 0 done or interrupted, 1 a refusal or an error, above 100 a wrong option.");
}

// Options that would change nothing.
void refuse_idle(const CLI::App& app, const generate::Options& options) {
  if (app.count("--layer") > 0 && options.picture.empty())
    decoder::refuse("--layer is for the picture of --attention; give both or none");
  for (const char* const name : {"--top-p", "--seed"}) {
    if (app.count(name) > 0 && options.sampling.temperature == 0)
      decoder::refuse(std::string(name) +
                      " is for drawing, and without --temperature the likeliest token is taken; give both");
  }
}

// The lines of a file. One \r before a line's end is not of the line.
std::vector<std::string> prompts_of(const std::string& path) {
  std::istringstream file(decoder::checked(decoder::file_text(path)));
  std::vector<std::string> prompts;
  for (std::string line; std::getline(file, line);) {
    if (line.ends_with('\r')) line.pop_back();
    if (!line.empty()) prompts.push_back(line);
  }
  if (prompts.empty()) decoder::refuse(path + " has no line that is a prompt");
  return prompts;
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app("Continues a text with a language model of a published checkpoint, on any Vulkan device.",
               "generate");
  generate::Options options;
  std::string prompt, prompt_file;
  add_options(app, options, prompt, prompt_file);
  return decoder::run_program(app, argc, argv, [&] {
    refuse_idle(app, options);
    if (!options.picture.empty()) decoder::checked(decoder::check_writable(options.picture));
    if (prompt_file.empty()) {
      options.prompts = {prompt};
    } else {
      if (app.count("PROMPT") > 0)
        decoder::refuse("PROMPT and --prompt-file are two ways to give a prompt; leave one of them out");
      options.prompts = prompts_of(prompt_file);
    }
    (void)generate::Speaker(options).run();
  });
}
