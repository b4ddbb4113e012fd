// How long a step of writing a token takes: whole, in one command buffer, and as the sum of its parts, each
// of which is executed alone. The parts follow one another, so that their weights come from memory as in a
// whole step. Both must give the same logits.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <string>
#include <vector>

#include "decoder/terminal.hpp"
#include "generate/weights.hpp"

namespace {

using decoder::checked;

double median(std::vector<double> values) {
  const auto middle = values.begin() + std::ssize(values) / 2;
  std::ranges::nth_element(values, middle);
  return *middle;
}

void time_step(const vkattn::Runtime& runtime, const decoder::Graph& graph, const decoder::Steps& steps) {
  constexpr int kRounds = 15;
  std::vector<double> whole, sums(kRounds);
  for (double& sum : sums) {
    const auto execute = [&](auto record) { return checked(runtime.execute(record)).front() / 1e6; };
    whole.push_back(execute([&](VkCommandBuffer commands) { record_all(commands, steps); }));
    const std::vector<float> logits = graph.logits();
    if (!std::ranges::all_of(logits, [](float each) { return std::isfinite(each); }))
      decoder::refuse("the logits are no numbers");
    for (const decoder::Step& step : steps)
      sum += execute([&](VkCommandBuffer commands) { step.record(commands, {}); });
    if (graph.logits() != logits) decoder::refuse("the parts give other logits than the whole step");
  }
  std::printf("%zu parts: a step takes %.2f ms, its parts %.2f ms, %.2f times as long; medians of %d\n",
              steps.size(), median(whole), median(sums), median(whole) / median(sums), kRounds);
}

// Reads some tokens, and times the step behind them.
void run(const std::string& folder, const std::string& device, std::int64_t before) {
  const vkattn::Runtime runtime = checked(vkattn::Runtime::create({.device = device}));
  const generate::Model model = checked(generate::read_model(folder));
  if (before >= model.context)
    decoder::refuse("--tokens is " + std::to_string(before) + ", and the model knows " +
                    std::to_string(model.context) + " positions");
  generate::Checkpoint checkpoint = checked(vkattn::SafetensorsFile::open_folder(folder));
  generate::Weights weights = checked(generate::Weights::find(model, checkpoint, {}));
  const decoder::GraphOptions options{.context = before + 1};
  checked(check_room(decoder::Room::of(runtime, "a smaller --tokens needs less"), model, weights, options));
  weights.allocate(runtime);
  decoder::Graph graph(runtime, model, weights, options);
  weights.upload(runtime, [](double) {});
  decoder::Tokens tokens;  // any
  for (std::int64_t i = 0; i <= before; ++i)
    tokens.push_back(static_cast<std::uint32_t>(i * 7919 % model.vocabulary));
  const std::uint32_t last = tokens.back();
  tokens.pop_back();
  decoder::Texts texts({tokens});
  decoder::Sampling sampling;
  while (texts.left(0) > 0) graph.read(texts, sampling);
  texts.tokens[0].push_back(last);
  std::printf("%s, %lld tokens before the step\n", runtime.device().capabilities().device_name.c_str(),
              static_cast<long long>(before));
  graph.read(texts, sampling,
             [&](decoder::Graph::Pass, const decoder::Steps& steps) { time_step(runtime, graph, steps); });
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app("Times a step of generate, and its parts.", "step_times");
  std::string folder, device;
  std::int64_t before = 512;
  app.add_option("FOLDER", folder, "A checkpoint, as generate reads it")->required();
  decoder::add_number(app, "--tokens", before, "Tokens before the step, default 512", 1, 1 << 20);
  app.add_option("--device", device, "A number or a part of a device's name")->option_text("NAME");
  app.footer("Example:\n  step_times SmolLM2-135M --tokens 1000");
  return decoder::run_program(app, argc, argv, [&] { run(folder, device, before); });
}
