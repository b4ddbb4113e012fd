// Tests the example on a small text: its gradients against differences, what it learns in a few seconds, that
// an interrupted training continues with the same bits, and that reading token by token equals whole
// sequences.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <fstream>
#include <random>
#include <sstream>
#include <string>
#include <vector>

#include "decoder/testing.hpp"
#include "decoder/text.hpp"
#include "train_text/session.hpp"
#include "train_text/text.hpp"
#include "train_text/trainer.hpp"

namespace train_text {
namespace {

using decoder::checked;
using decoder::expect;
using decoder::failures;
using decoder::has_validation;

// A small model whose values all have one size, so that every gradient counts.
struct SmallModel {
  explicit SmallModel(const vkattn::Runtime& runtime)
      : shape{.vocabulary = 7, .context = 6, .layers = 2, .heads = 2, .width = 12},
        parameters(runtime, shape) {
    std::mt19937 random(3);
    values.resize(static_cast<std::size_t>(parameters.size()));
    for (const Parameter& each : parameters.all()) {
      for (std::int64_t i = 0; i < each.elements(); ++i)
        values[static_cast<std::size_t>(each.offset + i)] = static_cast<float>(random() % 2001) / 2500 - 0.4F;
    }
    parameters.values.write(values);
    for (std::int64_t i = 0; i < 3 * shape.context; ++i) {
      batch.tokens.push_back(static_cast<std::uint32_t>(random() % 7));
      batch.targets.push_back(static_cast<std::uint32_t>(random() % 7));
    }
  }
  Shape shape;
  Parameters parameters;
  std::vector<float> values;
  Batch batch;
};

// Compares, for each parameter along a random direction, its gradient with the difference of losses.
void test_gradients(const vkattn::Runtime& runtime) {
  SmallModel model(runtime);
  const Trainer trainer(runtime, model.parameters, 3);
  (void)trainer.gradients(model.batch);
  const std::vector<float> gradients = model.parameters.gradients.read();
  std::mt19937 random(5);
  for (const Parameter& each : model.parameters.all()) {
    constexpr float kStep = 4e-3F;
    std::vector<float> more = model.values, less = model.values;
    double expected = 0, square = 0;
    for (auto i = static_cast<std::size_t>(each.offset);
         i < static_cast<std::size_t>(each.offset + each.elements()); ++i) {
      const bool grows = random() % 2 == 0;
      more[i] += grows ? kStep : -kStep;
      less[i] -= grows ? kStep : -kStep;
      expected += static_cast<double>(grows ? gradients[i] : -gradients[i]);
      square += static_cast<double>(gradients[i]) * static_cast<double>(gradients[i]);
    }
    model.parameters.values.write(more);
    const double upper = trainer.loss(model.batch);
    model.parameters.values.write(less);
    const double lower = trainer.loss(model.batch);
    const double got = (upper - lower) / (2 * static_cast<double>(kStep));
    std::printf("%-36s along a direction: %9.5f by differences, %9.5f by gradients of length %.4f\n",
                each.name.c_str(), got, expected, std::sqrt(square));
    expect(square > 0 && std::abs(got - expected) <= 0.01 * std::sqrt(square),
           "the gradient of " + each.name + " is that of the loss");
  }
}

// A sequence that is read with the cache has the same loss as the whole sequence.
void test_reading(const vkattn::Runtime& runtime) {
  const SmallModel model(runtime);
  Batch batch;
  const auto length = static_cast<std::ptrdiff_t>(model.shape.context);
  batch.tokens.assign(model.batch.tokens.begin(), model.batch.tokens.begin() + length);
  batch.targets.assign(model.batch.targets.begin(), model.batch.targets.begin() + length);
  const double whole = Trainer(runtime, model.parameters, 1).loss(batch);
  const decoder::Model sizes = model.shape.model();
  decoder::Graph graph(runtime, sizes, model.parameters.weights(),
                       {.cache = vkattn::DataType::kFloat32, .context = model.shape.context});
  decoder::Texts text(std::vector<std::vector<std::uint32_t>>(1));
  decoder::Sampling sampling;
  double sum = 0;
  for (std::size_t i = 0; i < batch.tokens.size(); ++i) {
    text.tokens.front().push_back(batch.tokens[i]);
    graph.read(text, sampling);
    const std::vector<float> logits = graph.logits();
    double all = 0;
    for (const float logit : logits) all += std::exp(static_cast<double>(logit));
    sum += std::log(all) - static_cast<double>(logits[batch.targets[i]]);
  }
  const double read = sum / static_cast<double>(batch.tokens.size());
  std::printf("loss of a sequence: %.6f whole, %.6f token by token\n", whole, read);
  expect(std::abs(whole - read) < 1e-5, "reading with a cache gives the loss of the whole sequence");
}

Options small_options(const decoder::TemporaryFolder& folder, const char* output) {
  Options options;
  options.files = {folder / "text.txt"};
  options.output = folder / output;
  options.fresh.shape = {.context = 16, .layers = 2, .heads = 2, .width = 32};
  options.fresh.batch = 8;
  options.steps = 200;
  options.sample = 200;
  options.temperature = 0;
  options.validation = has_validation();
  return options;
}

// The text repeats two sentences. After 200 steps the model knows them.
void test_training() {
  const decoder::TemporaryFolder folder;
  const std::string sentences =
      "look at me, said the key to the query.\nwhat do you hold, asked the query.\n";
  std::string text;
  for (int i = 0; i < 20; ++i) text += sentences;
  std::ofstream(folder / "text.txt", std::ios::binary) << text;

  const Outcome whole = run(small_options(folder, "whole"));
  const double first = static_cast<double>(whole.progress.losses.front());
  const auto vocabulary = static_cast<double>(whole.progress.shape.vocabulary);
  expect(std::abs(first - std::log(vocabulary)) < 1e-3, "the loss begins at ln(vocabulary)");
  expect(whole.kept_back.has_value() && *whole.kept_back < 0.2 * first, "it has learned the sentences");
  std::istringstream said(whole.text);
  bool says_one = false;
  for (std::string line; std::getline(said, line);)
    says_one = says_one || (line.size() > 30 && sentences.find(line + "\n") != std::string::npos);
  expect(says_one, "and can say one");

  Options options = small_options(folder, "broken");
  options.steps = 70;
  const Outcome half = run(options);
  expect(half.progress.losses.size() == 70, "it stops where it is told");
  options = small_options(folder, "broken");
  options.resume = true;
  const Outcome resumed = run(options);
  expect(resumed.progress.losses == whole.progress.losses && resumed.text == whole.text,
         "a training that goes on has the losses and the sample of one without a break");
  for (const char* name : {"model.safetensors", "training.safetensors", "inspect.safetensors"}) {
    const std::string bytes = checked(decoder::file_text(folder / "whole" / name));
    expect(!bytes.empty() && bytes == checked(decoder::file_text(folder / "broken" / name)),
           std::string(name) + " has the same bits");
  }
  for (const Outcome* outcome : {&whole, &half, &resumed}) {
    for (const std::string& message : outcome->validation_messages) expect(false, message);
  }
}

void test_refusals() {
  const auto refusal = [](const std::string& text) {
    const auto vocabulary = Vocabulary::of(text);
    return vocabulary.ok() ? "" : vocabulary.error().message;
  };
  expect(refusal("") == "the text is empty", "an empty text is refused");
  expect(refusal("aaa").find("one character only, 3 times") != std::string::npos,
         "so is one of one character");
  expect(refusal("ab\xff").find("no UTF-8 at its byte 2") != std::string::npos, "and one that is no UTF-8");
  expect(refusal("ab\xc3").find("no UTF-8 at its byte 2") != std::string::npos, "also at its end");
  // Forms that are too long, surrogates, and what lies beyond U+10FFFF.
  for (const std::string code : {"\xe0\x9f\xbf", "\xed\xa0\x80", "\xf0\x8f\xbf\xbf", "\xf4\x90\x80\x80"})
    expect(refusal("ab" + code).find("no UTF-8 at its byte 2") != std::string::npos,
           "nor codes that are none");
  for (const std::string code : {"\xe0\xa0\x80", "\xed\x9f\xbf", "\xf0\x90\x80\x80", "\xf4\x8f\xbf\xbf"})
    expect(refusal("ab" + code).empty(), "codes beside them are taken");
  expect(!decoder::file_text(std::filesystem::temp_directory_path()).ok(), "a folder is no text");
  std::string many;
  for (unsigned code = 0; code < 5000; ++code) {
    many += static_cast<char>(0xe4U + code / 4096);
    many += static_cast<char>(0x80U + code / 64 % 64);
    many += static_cast<char>(0x80U + code % 64);
  }
  expect(refusal(many).find("5000 different characters, more than the 4096") != std::string::npos,
         "a vocabulary that is too large is refused with both numbers");
  const auto vocabulary = checked(Vocabulary::of("abc\xc3\xbc"));
  expect(vocabulary.size() == 4 && vocabulary.tokens("xa").error().message.find("'x'") != std::string::npos,
         "a character that the model does not know is named");
  const auto corpus = Corpus::create({0, 1, 2}, 8);
  expect(!corpus.ok() && corpus.error().message.find("has 3 characters; sequences of 8") != std::string::npos,
         "a text that is too short is refused with both lengths");
}

// Of the sizes of a training, by the arrays that it has.
void test_room() {
  const Shape shape{.vocabulary = 50, .context = 64, .layers = 2, .heads = 4, .width = 64};
  constexpr std::int64_t kBatch = 16;
  const auto parameters = static_cast<std::uint64_t>(Parameters::size_of(shape)) * 4;
  const std::int64_t rows = kBatch * shape.context, hidden = 4 * shape.width;
  const std::int64_t numbers =
      rows * (shape.layers * 2 * (hidden + shape.width) + 4 * shape.width + hidden + shape.vocabulary);
  const decoder::GraphOptions reading{.cache = vkattn::DataType::kFloat32, .context = shape.context};
  const std::uint64_t needed = 4 * parameters + 4 * static_cast<std::uint64_t>(numbers) +
                               cache_bytes(shape.model(), reading).all +
                               number_bytes(shape.model(), reading).all;
  decoder::Room room{"a GPU", 1 << 20U, needed, "ask for less"};
  const auto expect_refusal = [&](const std::string& words) {
    const auto status = check_room(room, shape, kBatch);
    const std::string got = status.ok() ? "" : status.error().message;
    expect(got == words, "'" + got + "' is '" + words + "'");
  };
  expect_refusal("");
  room.memory = 3 << 20U;
  expect_refusal("parameters, what AdamW keeps of them, the numbers of a step and a sample take " +
                 std::to_string(needed) + " bytes, and the memory of a GPU has 3145728; ask for less");
  room.memory = needed - 1;
  expect(!check_room(room, shape, kBatch).ok(), "a byte too few is too few");
  --room.range;
  expect_refusal(
      "the largest array of a step of 16 sequences takes 1048576 bytes, and maxStorageBufferRange of a GPU "
      "is 1048575; ask for less");
  room.range = parameters - 1;
  expect_refusal("the array of all parameters takes " + std::to_string(parameters) +
                 " bytes, and maxStorageBufferRange of a GPU is " + std::to_string(parameters - 1) +
                 "; ask for less");
}

}  // namespace
}  // namespace train_text

int main() {
  using namespace train_text;
  test_refusals();
  test_room();
  vkattn::RuntimeOptions options;
  options.validation = has_validation();
  std::printf("validation: %s\n", options.validation ? "on" : "its layer is not there");
  {
    const auto runtime = vkattn::Runtime::create(options);
    if (!runtime) {
      std::fprintf(stderr, "%s\n", runtime.error().message.c_str());
      return failures == 0 ? 77 : 1;
    }
    test_gradients(*runtime);
    test_reading(*runtime);
    for (const std::string& message : runtime->validation_messages()) expect(false, message);
  }
  test_training();
  std::printf("%d failed\n", failures);
  return failures == 0 ? 0 : 1;
}
