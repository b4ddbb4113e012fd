#include "train_text/session.hpp"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <span>
#include <utility>

#include "decoder/terminal.hpp"
#include "decoder/text.hpp"
#include "picture/charts.hpp"
#include "train_text/trainer.hpp"

namespace train_text {

namespace {

using decoder::checked;
using decoder::Clock;
using decoder::refuse;
using decoder::seconds_since;
using vkattn::console::fixed;

constexpr std::size_t kMeanSteps = 20;

// The mean of the losses up to a step over kMeanSteps of them, or fewer at the start.
double smoothed(const std::vector<float>& losses, std::size_t step) {
  const std::size_t count = std::min(step + 1, kMeanSteps);
  double sum = 0;
  for (std::size_t i = step + 1 - count; i <= step; ++i) sum += static_cast<double>(losses[i]);
  return sum / static_cast<double>(count);
}

// The rate is small at first, while AdamW's means cover few steps, and small again later. It depends on the
// step alone, so that a continued training takes the same steps.
float rate_at(float rate, std::int64_t step) {
  constexpr float kWarmUp = 20, kSteady = 300;
  const auto at = static_cast<float>(step);
  return rate * std::min(1.0F, at / kWarmUp) * std::min(1.0F, std::sqrt(kSteady / at));
}

// How a sample is read.
decoder::GraphOptions sample_options(const Shape& shape) {
  return {.cache = vkattn::DataType::kFloat32, .context = shape.context};
}

// A new training, or the state of the one in the folder.
Progress begin_progress(const Options& options, const std::string& text) {
  if (options.resume) return checked(load_progress(options.output));
  Progress progress = options.fresh;
  progress.vocabulary = checked(Vocabulary::of(text)).all();
  return progress;
}

// The given tokens, at least one, and `count` tokens that the model writes behind them. When the context is
// full, it reads its second half again as a new beginning, as it knows no positions beyond the context.
decoder::Tokens sample(const vkattn::Runtime& runtime, const Parameters& parameters, decoder::Tokens tokens,
                       std::int64_t count, decoder::Sampling sampling) {
  const decoder::Model model = parameters.shape().model();
  decoder::Graph graph(runtime, model, parameters.weights(), sample_options(parameters.shape()));
  decoder::Texts text({tokens});
  decoder::Tokens& seen = text.tokens.front();
  if (std::ssize(seen) > model.context) seen.erase(seen.begin(), seen.end() - model.context);
  for (std::int64_t i = 0; i < count; ++i) {
    if (std::ssize(seen) > model.context) {
      seen.erase(seen.begin(), seen.end() - model.context / 2);
      text.read.front() = 0;
    }
    while (text.left(0) > 0) graph.read(text, sampling);
    seen.push_back(text.chosen.front());
    tokens.push_back(text.chosen.front());
  }
  return tokens;
}

// The folder, in which all files that come can be written.
void prepare_output(const std::filesystem::path& output) {
  std::error_code error;
  std::filesystem::create_directories(output, error);
  if (error) refuse(output.string() + " cannot be made: " + error.message());
  // Files of weights are written beside those that stand, and take their place.
  checked(decoder::check_writable(output / "beside.tmp"));
  for (const char* const name : {"training.safetensors", "model.safetensors", "inspect.safetensors"}) {
    if (is_directory(output / name, error)) refuse((output / name).string() + " is a folder");
  }
  if (vkattn::picture::check_support()) checked(decoder::check_writable(output / "loss.png"));
}

// A training with everything that it holds on the device.
class Session {
 public:
  Session(const Options& options, const std::string& text)
      : options_(options),
        progress_(begin_progress(options, text)),
        vocabulary_(checked(Vocabulary::of(progress_.vocabulary))),
        corpus_(checked(Corpus::create(checked(vocabulary_.tokens(text)), progress_.shape.context))),
        prompt_(checked(vocabulary_.tokens(prompt_of(options, text)))),
        runtime_(
            checked(vkattn::Runtime::create({.device = options.device, .validation = options.validation}))) {
    progress_.shape.vocabulary = vocabulary_.size();
  }

  Outcome run();

 private:
  static std::string prompt_of(const Options& options, const std::string& text) {
    if (!options.prompt.empty()) return options.prompt;
    return text.find('\n') != std::string::npos ? "\n" : text.substr(0, 1);
  }
  void train(const Trainer& trainer, const Parameters& parameters);
  [[nodiscard]] std::optional<double> measure(const Trainer& trainer) const;
  void draw_losses(const std::optional<double>& kept_back) const;
  void prepare_inspect(const Trainer& trainer, std::span<const std::uint32_t> tokens) const;

  Options options_;
  Progress progress_;
  Vocabulary vocabulary_;
  Corpus corpus_;
  std::vector<std::uint32_t> prompt_;
  vkattn::Runtime runtime_;
};

void Session::train(const Trainer& trainer, const Parameters& parameters) {
  constexpr double kSaveSeconds = 60;
  auto begin = Clock::now();
  double saved = 0;
  bool is_first = true;
  decoder::ProgressLine line;
  std::vector<float>& losses = progress_.losses;
  const auto share = [&] {
    const double steps =
        options_.steps > 0 ? static_cast<double>(losses.size()) / static_cast<double>(options_.steps) : 0;
    const double time = options_.minutes > 0 ? seconds_since(begin) / (60 * options_.minutes) : 0;
    return std::max(steps, time);
  };
  const auto state = [&] {
    return "step " + std::to_string(losses.size()) + ": loss " +
           fixed(smoothed(losses, losses.size() - 1), 3);
  };
  const decoder::Interrupts interrupts("finishing the step, then saving to " + options_.output.string() +
                                       "; Ctrl-C again leaves without saving");
  line.update(0, "the first step, for which some drivers compile");
  while (share() < 1 && !decoder::Interrupts::came()) {
    const auto step = static_cast<std::int64_t>(losses.size()) + 1;
    const Batch batch = corpus_.draw(progress_.batch, progress_.seed, step);
    const double loss = trainer.train(batch, {.rate = rate_at(progress_.rate, step)}, step);
    losses.push_back(static_cast<float>(loss));
    // Some drivers compile when a pipeline is first used, which no clock of the training counts.
    if (std::exchange(is_first, false)) begin = Clock::now();
    if (!std::isfinite(loss))
      refuse("the loss is no number any more at step " + std::to_string(step) +
             "; a smaller --rate may help");
    line.update_step(share(), state());
    if (seconds_since(begin) - saved < kSaveSeconds) continue;
    checked(save(options_.output, progress_, parameters));
    saved = seconds_since(begin);
  }
  // At once: what is left to do takes time, and a second interrupt ends the program.
  checked(save(options_.output, progress_, parameters));
  decoder::ProgressLine::clear();
  if (!losses.empty()) std::printf("%s\n", state().c_str());
  std::printf("%s has the weights; --resume goes on from there\n",
              (options_.output / "model.safetensors").string().c_str());
  decoder::flush_output();
}

std::optional<double> Session::measure(const Trainer& trainer) const {
  double sum = 0;
  const std::vector<Batch> batches = corpus_.kept_back(progress_.batch);
  if (batches.empty()) return std::nullopt;
  for (const Batch& batch : batches) sum += trainer.loss(batch);
  return sum / static_cast<double>(batches.size());
}

void Session::draw_losses(const std::optional<double>& kept_back) const {
  using namespace vkattn::picture;
  if (!check_support()) return (void)std::printf("no picture of the loss: this build has no cairo\n");
  const std::vector<float>& losses = progress_.losses;
  const Shape& shape = progress_.shape;
  // At first all tokens are equally likely.
  const auto vocabulary = static_cast<double>(shape.vocabulary), uniform = std::log(vocabulary);
  Series each{"each step", {}, 0, Look::kThin};
  Series mean{"mean of " + std::to_string(kMeanSteps) + " steps", {}, 0, Look::kLine};
  for (std::size_t i = 0; i < losses.size(); ++i) {
    const auto step = static_cast<double>(i + 1);
    each.points.push_back({step, static_cast<double>(losses[i])});
    // In the middle of its steps: a mean that trails lies above a loss that falls.
    if (i + 1 >= kMeanSteps) mean.points.push_back({step - kMeanSteps / 2.0, smoothed(losses, i)});
  }
  Chart chart{"Loss of the next character", "", "nats", {each, mean}};
  if (kept_back)
    chart.series.push_back({"validation, at the end: " + fixed(*kept_back, 2),
                            {{static_cast<double>(losses.size()), *kept_back}},
                            2,
                            Look::kDots});
  chart.top = std::max(uniform, kept_back.value_or(0)) * 1.05;
  chart.levels = {{uniform, "ln(" + fixed(vocabulary, 0) + ") = " + fixed(uniform, 2) + ": all alike"},
                  {uniform / 2, "half of it"}};
  ChartPage page;
  page.title = "A transformer that learns a text";
  page.caption = "layers: " + std::to_string(shape.layers) + ", heads: " + std::to_string(shape.heads) +
                 ", width: " + std::to_string(shape.width) +
                 "; each step: " + std::to_string(progress_.batch) + " x " + std::to_string(shape.context) +
                 " characters  \xc2\xb7  " + device_and_date(runtime_.device().capabilities().device_name);
  page.x_axis = "step";
  page.charts = {chart};
  page.is_logarithmic = false;
  page.across = 1;
  page.frame_height = 400;
  const std::string path = (options_.output / "loss.png").string();
  checked(write_file(path, draw_charts(page, Format::kPng)));
  std::printf("%s has the losses\n", path.c_str());
}

void Session::prepare_inspect(const Trainer& trainer, std::span<const std::uint32_t> tokens) const {
  constexpr std::int64_t kMostTokens = 32;
  const auto count = static_cast<std::size_t>(
      std::min({static_cast<std::int64_t>(tokens.size()), progress_.shape.context, kMostTokens}));
  std::vector<std::string> labels;
  for (const std::uint32_t token : tokens.first(count))
    labels.push_back(decoder::visible(vocabulary_.character(token)));
  checked(save_attention_inputs(options_.output, trainer.attention_inputs(tokens.first(count)), labels));
  const std::string folder = vkattn::console::shell_word(options_.output.string());
  std::printf(
      "\nTo look at the heads of the last layer over the first %zu characters of it:\n"
      "  vkattn inspect --input %s/inspect.safetensors --weights %s/model.safetensors --layer "
      "%sattention --heads %lld --causal --plot %s/heads.png\n",
      count, folder.c_str(), folder.c_str(),
      block_name(static_cast<std::size_t>(progress_.shape.layers - 1)).c_str(),
      static_cast<long long>(progress_.shape.heads), folder.c_str());
}

Outcome Session::run() {
  checked(check_room(
      decoder::Room::of(runtime_, "a smaller --batch, --context, --layers or --d-model needs less"),
      progress_.shape, progress_.batch));
  const Parameters parameters(runtime_, progress_.shape);
  if (options_.resume)
    checked(load_parameters(options_.output, parameters));
  else
    parameters.initialise(progress_.seed);
  std::printf("%lld parameters, a vocabulary of %lld characters: ln(%lld) = %.2f; %s\n",
              static_cast<long long>(parameters.count()), static_cast<long long>(vocabulary_.size()),
              static_cast<long long>(vocabulary_.size()), std::log(static_cast<double>(vocabulary_.size())),
              runtime_.device().capabilities().device_name.c_str());
  const Trainer trainer(runtime_, parameters, progress_.batch);
  prepare_output(options_.output);
  train(trainer, parameters);
  Outcome outcome;
  outcome.kept_back = measure(trainer);
  if (outcome.kept_back) std::printf("loss on text that was not learned from: %.3f\n", *outcome.kept_back);
  if (progress_.losses.size() > 1) draw_losses(outcome.kept_back);
  const decoder::Tokens tokens =
      sample(runtime_, parameters, prompt_, options_.sample,
             {.seed = static_cast<std::uint32_t>(progress_.seed), .temperature = options_.temperature});
  outcome.text = vocabulary_.text(tokens);
  if (options_.sample > 0) std::printf("\nA sample:\n%s\n", outcome.text.c_str());
  prepare_inspect(trainer, tokens);
  outcome.progress = progress_;
  outcome.validation_messages = runtime_.validation_messages();
  return outcome;
}

}  // namespace

vkattn::Result<void> check_room(const decoder::Room& room, const Shape& shape, std::int64_t batch) {
  const decoder::Model model = shape.model();
  const std::uint64_t parameters = static_cast<std::uint64_t>(Parameters::size_of(shape)) * sizeof(float);
  const decoder::Bytes numbers = Trainer::number_bytes(shape, batch);
  const std::uint64_t sample =
      cache_bytes(model, sample_options(shape)).all + number_bytes(model, sample_options(shape)).all;
  return room.check(
      {{"the array of all parameters", parameters},
       {"the largest array of a step of " + std::to_string(batch) + " sequences", numbers.largest}},
      {"parameters, what AdamW keeps of them, the numbers of a step and a sample",
       4 * parameters + numbers.all + sample});
}

Outcome run(const Options& options) {
  std::string text;
  for (const std::filesystem::path& path : options.files) text += checked(decoder::file_text(path));
  // What stands is refused at once, but a folder is made only when nothing else is refused any more.
  if (std::error_code error; exists(options.output, error)) prepare_output(options.output);
  return Session(options, text).run();
}

}  // namespace train_text
