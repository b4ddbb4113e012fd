// Tests the example on checkpoints of make_checkpoints.py: logits and tokens against PyTorch's, with each
// type of cache and weights, in chunks, slices and batches; sampling, the tokenizer, and what is refused.
// Words: folders whose subfolders are checkpoints, the first with gpt2.
#include "generate/generate_test.hpp"

#include <algorithm>
#include <cmath>
#include <cstdio>

#include "generate/session.hpp"

namespace generate {

using decoder::failures;

Expected::Expected(const Path& folder) {
  auto file = decoder::checked(vkattn::SafetensorsFile::open(folder / "expected.safetensors"));
  prompt = file.metadata().at("prompt");
  const auto numbers = [&](const char* name) {
    std::vector<std::int64_t> wide(file.find(name)->bytes / sizeof(std::int64_t));
    decoder::checked(file.read(*file.find(name), std::as_writable_bytes(std::span(wide))));
    return Tokens(wide.begin(), wide.end());
  };
  prompt_tokens = numbers("prompt");
  greedy = numbers("greedy");
  logits = decoder::checked(file.read_floats("logits"));
  in_blocks["q8_0"] = decoder::checked(file.read_floats("logits_q8_0"));
  in_blocks["q4_0"] = decoder::checked(file.read_floats("logits_q4_0"));
}

namespace {

Options options_for(const Path& folder, const Expected& expected) {
  Options options;
  options.folder = folder;
  options.prompts = {expected.prompt};
  options.tokens = static_cast<std::int64_t>(expected.greedy.size());
  options.cache = "f32";
  options.chunk = 32;
  return options;
}

// Reads the prompt and PyTorch's tokens. Returns the largest error of the logits, as a share of their
// deviation, and counts the tokens that agree.
double largest_error(const Options& options, const Expected& expected, std::size_t& agreeing) {
  Speaker speaker(options);
  decoder::Texts texts({expected.prompt_tokens});
  const std::vector<float>& wanted =
      options.weights.empty() ? expected.logits : expected.in_blocks.at(options.weights);
  const std::size_t width = wanted.size() / expected.greedy.size();
  double square = 0, largest = 0;
  for (const float logit : wanted) square += static_cast<double>(logit) * static_cast<double>(logit);
  const double deviation = std::sqrt(square / static_cast<double>(wanted.size()));
  agreeing = 0;
  for (std::size_t step = 0; step < expected.greedy.size(); ++step) {
    while (texts.left(0) > 0) speaker.read(texts);
    agreeing += texts.chosen[0] == expected.greedy[step] ? 1U : 0U;
    const std::vector<float> logits = speaker.graph().logits();
    for (std::size_t i = 0; i < width; ++i) {
      const double error = std::abs(static_cast<double>(logits[i] - wanted[step * width + i])) / deviation;
      largest = std::isnan(error) ? error : std::max(largest, error);
    }
    texts.tokens[0].push_back(expected.greedy[step]);
  }
  for (const std::string& message : speaker.validation_messages()) expect(false, message);
  return largest;
}

void test_logits(const Path& folder, const Expected& expected, bool validation) {
  struct Case {
    const char *cache, *weights;
    std::int64_t chunk;
    double tolerance;
    bool is_exact;  // all tokens agree
  };
  // A 16-bit cache rounds each key and value to 2^-11, and one in blocks to about 2^-8 of the largest; these
  // models make up to 30 times of it. Quantised weights are the script's, but for codes that float32 rounds
  // in another way.
  constexpr Case kCases[] = {{"f32", "", 32, 2e-5, true},      {"f32", "", 128, 2e-5, true},
                             {"f16", "", 32, 3e-2, true},      {"q8_0", "", 32, 5e-1, false},
                             {"f32", "q8_0", 32, 1e-3, false}, {"f32", "q4_0", 32, 1e-3, false}};
  for (const Case& each : kCases) {
    Options options = options_for(folder, expected);
    options.cache = each.cache;
    options.weights = each.weights;
    options.chunk = each.chunk;
    options.validation = validation;
    std::size_t agreeing = 0;
    const double error = largest_error(options, expected, agreeing);
    std::printf(
        "%-8s cache %-4s weights %-6s chunk %3lld: largest error of a logit %.1e deviations, %zu of %zu "
        "tokens agree\n",
        folder.filename().string().c_str(), each.cache, each.weights[0] == '\0' ? "stored" : each.weights,
        static_cast<long long>(each.chunk), error, agreeing, expected.greedy.size());
    expect(error < each.tolerance, folder.string() + ": logits agree with PyTorch's");
    expect(!each.is_exact || agreeing == expected.greedy.size(), folder.string() + ": so do all tokens");
  }
}

void test_ways_to_write(const Path& folder, const Expected& expected) {
  Options options = options_for(folder, expected);
  const auto tokens = [](const Options& given) { return Speaker(given).run(); };
  expect(tokens(options).front() == expected.greedy, "the tokens are PyTorch's");
  options.frame_budget_ms = 0.5;
  expect(tokens(options).front() == expected.greedy, "so they are in slices of frames");
  options.frame_budget_ms = 0;
  options.sampling = {.temperature = 1, .top_p = 1e-6F};
  expect(tokens(options).front() == expected.greedy, "and when none but the likeliest may be drawn");
  options.sampling = {.seed = 7, .temperature = 2};
  const auto drawn = tokens(options);
  expect(drawn == tokens(options) && drawn.front() != expected.greedy, "equal seeds draw equal tokens");
  options.sampling.seed = 8;
  expect(drawn != tokens(options), "and other seeds others");
  options.sampling = {};
  options.prompts = {"It is", expected.prompt, "A", expected.prompt.substr(0, 40)};
  const auto all = tokens(options);
  expect(all[1] == expected.greedy, "the tokens of a prompt among others are the same");
  for (const std::size_t i : {std::size_t{0}, std::size_t{2}, std::size_t{3}}) {
    Options alone = options;
    alone.prompts = {options.prompts[i]};
    alone.context = 200;
    expect(tokens(alone).front() == all[i], "each prompt has the tokens that it has alone");
  }
}

// How often each token is drawn against its probability, by a chi-square over the likely ones.
void test_distribution(const Path& folder, const Expected& expected) {
  Options options = options_for(folder, expected);
  options.sampling = {.seed = 3, .temperature = 1.5F, .top_p = 0.8F};
  Speaker speaker(options);
  const std::size_t width = expected.logits.size() / expected.greedy.size();
  std::vector<double> shares(width), counts(width);
  std::vector<std::size_t> order(width);
  double sum = 0, kept = 0;
  for (std::size_t i = 0; i < width; ++i) {
    order[i] = i;
    sum += shares[i] = std::exp(static_cast<double>(expected.logits[i]) / 1.5);
  }
  std::ranges::sort(order, std::ranges::greater(), [&](std::size_t i) { return shares[i]; });
  std::size_t many = 0;
  while (kept < 0.8 * sum) kept += shares[order[many++]];
  constexpr int kDraws = 1500;
  decoder::Texts texts({expected.prompt_tokens});
  for (int draw = 0; draw < kDraws; ++draw) {
    if (draw > 0) --texts.read[0];  // the last token of the prompt again
    while (texts.left(0) > 0) speaker.read(texts);
    ++counts[texts.chosen[0]];
  }
  double square = 0, outside = kDraws;
  for (std::size_t i = 0; i < many; ++i) {
    const double mean = kDraws * shares[order[i]] / kept;
    square += (counts[order[i]] - mean) * (counts[order[i]] - mean) / mean;
    outside -= counts[order[i]];
  }
  const double freedom = static_cast<double>(many) - 1;
  std::printf("drawn from %zu tokens: chi-square %.1f with %.0f degrees of freedom, %.0f of %d outside\n",
              many, square, freedom, outside, kDraws);
  expect(outside == 0, "no token beyond top-p is drawn");
  expect(square < freedom + 4 * std::sqrt(2 * freedom), "tokens are drawn by their probabilities");
}

}  // namespace
}  // namespace generate

int main(int count, char** words) {
  using namespace generate;
  const bool validation = decoder::has_validation();
  std::printf("validation: %s\n", validation ? "on" : "its layer is not there");
  std::vector<Path> folders;
  for (int i = 1; i < count; ++i) {
    if (!std::filesystem::is_directory(words[i])) continue;
    for (const auto& entry : std::filesystem::directory_iterator(words[i])) folders.push_back(entry.path());
  }
  expect(!folders.empty(), "there are checkpoints");
  std::ranges::sort(folders);
  for (const Path& folder : folders) test_tokenizer(folder, Expected(folder));
  if (count > 1) {
    test_refusals(Path(words[1]) / "gpt2");
    test_room(Path(words[1]) / "smollm2");
  }
  if (!vkattn::Runtime::create().ok()) return failures == 0 ? 77 : 1;
  for (const Path& folder : folders) test_logits(folder, Expected(folder), validation);
  if (!folders.empty()) {
    test_ways_to_write(folders.front(), Expected(folders.front()));
    test_distribution(folders.front(), Expected(folders.front()));
  }
  std::printf("%d failed\n", failures);
  return failures == 0 ? 0 : 1;
}
