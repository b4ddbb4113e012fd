#include "generate/session.hpp"

#include <cmath>
#include <cstdio>
#include <numeric>
#include <thread>

#include "decoder/terminal.hpp"
#include "decoder/text.hpp"
#include "picture/heat_map.hpp"

namespace generate {

using decoder::checked;
using decoder::Clock;
using decoder::Graph;
using decoder::GraphOptions;
using decoder::refuse;
using decoder::seconds_since;
using decoder::Texts;
using decoder::Tokens;

namespace {

std::optional<vkattn::DataType> type_named(const std::string& name) {
  for (const auto type : {vkattn::DataType::kFloat32, vkattn::DataType::kFloat16, vkattn::DataType::kQ8_0,
                          vkattn::DataType::kQ4_0}) {
    if (name == vkattn::name(type)) return type;
  }
  return std::nullopt;
}

std::string bytes_text(std::uint64_t bytes) {
  return vkattn::console::bytes(static_cast<double>(bytes));
}

// A terminal obeys control characters; a model may write any.
std::string printable(const std::string& text, bool is_terminal) {
  if (!is_terminal) return text;
  std::string shown;
  const auto characters = decoder::characters_of(text);
  for (const std::string_view each : *characters) {
    const bool is_c0 = (each < " " && each != "\n" && each != "\t") || each == "\x7f";
    const bool is_c1 = each >= "\xc2\x80" && each < "\xc2\xa0";
    shown += is_c0 || is_c1 ? "?" : each;
  }
  return shown;
}

// Whether the text on standard output ends within a line.
bool is_text_open = false;

// Before a refusal.
void end_lines() {
  decoder::ProgressLine::clear();
  if (std::exchange(is_text_open, false)) std::fputs("\n", stdout);
}

}  // namespace

Speaker::Speaker(const Options& options)
    : options_(options),
      model_(checked(read_model(options.folder))),
      tokenizer_(checked(Tokenizer::open(options.folder / "tokenizer.json"))),
      prompts_(encoded()),
      graph_options_(sizes()),
      checkpoint_(checked(vkattn::SafetensorsFile::open_folder(options.folder))),
      weights_(checked(Weights::find(model_, checkpoint_, type_named(options.weights)))) {
  runtime_.emplace(
      checked(vkattn::Runtime::create({.device = options.device, .validation = options.validation})));
  const auto begin = Clock::now();
  room_ = decoder::Room::of(*runtime_,
                            "a smaller --chunk or --context, fewer prompts, or --weights q4_0 need less");
  check(graph_options_, 0);
  // All buffers and workspaces before the upload, which takes longest; those of the picture for a moment.
  weights_.allocate(*runtime_);
  if (!options_.picture.empty()) {
    make_graph(picture_sizes(graph_options_.context));
    (void)graph_->pass(Graph::Pass::kChunk);
    graph_.reset();
  }
  make_graph(graph_options_);
  prepare();
  decoder::ProgressLine line;
  weights_.upload(*runtime_, [&](double share) {
    line.update(share, "uploading " + bytes_text(weights_.bytes()) + " of weights");
  });
  loading_ = seconds_since(begin);
}

void Speaker::check(const GraphOptions& options, std::uint64_t workspaces) const {
  checked(check_room(room_, model_, weights_, options, workspaces));
}

void Speaker::make_graph(const GraphOptions& options) {
  check(options, 0);
  graph_.reset();  // the new one takes its memory
  graph_.emplace(*runtime_, model_, weights_, options);
  graph_->plans().on_workspace = [this, options](std::uint64_t bytes) { check(options, bytes); };
}

// In refusals. Several prompts are numbered, as their texts are.
std::string Speaker::prompt_name(std::size_t prompt) const {
  return options_.prompts.size() > 1 ? "prompt " + std::to_string(prompt + 1) : "the prompt";
}

std::vector<Tokens> Speaker::encoded() const {
  std::vector<Tokens> prompts;
  for (const std::string& prompt : options_.prompts) {
    const std::string name = prompt_name(prompts.size());
    if (prompt.empty()) refuse(name + " is empty");
    auto tokens = tokenizer_.encode(prompt);
    if (!tokens) refuse(name + " has no tokens: " + tokens.error().message);
    prompts.push_back(*std::move(tokens));
    if (prompts.back().empty()) refuse(name + " has no tokens");
    for (const std::uint32_t token : prompts.back()) {
      if (token >= model_.vocabulary)
        refuse("tokenizer.json has the token " + std::to_string(token) +
               ", and config.json makes the vocabulary " + std::to_string(model_.vocabulary));
    }
  }
  return prompts;
}

GraphOptions Speaker::sizes() const {
  const auto at = std::ranges::max_element(prompts_, {}, &Tokens::size);
  const std::int64_t longest = std::ssize(*at);
  if (options_.context > model_.context)
    refuse("--context is " + std::to_string(options_.context) + ", and the model knows " +
           std::to_string(model_.context) + " positions");
  GraphOptions sizes;
  sizes.context =
      options_.context > 0 ? options_.context : std::min(model_.context, longest + options_.tokens);
  if (longest >= sizes.context)
    refuse(prompt_name(static_cast<std::size_t>(at - prompts_.begin())) + " has " + std::to_string(longest) +
           " tokens, and a context of " + std::to_string(sizes.context) +
           " has no room for it and a token behind it; the model knows " + std::to_string(model_.context) +
           " positions");
  sizes.cache = type_named(options_.cache).value_or(sizes.cache);
  sizes.texts = std::ssize(prompts_);
  sizes.chunk = std::max(options_.chunk, sizes.texts);
  if (options_.frame_budget_ms > 0)
    sizes.max_dispatch_ns = static_cast<std::uint64_t>(options_.frame_budget_ms * 5e5);
  if (options_.layer >= model_.layers)
    refuse("--layer is " + std::to_string(options_.layer) + ", and the model's layers are 0 to " +
           std::to_string(model_.layers - 1));
  if (!options_.picture.empty()) checked(vkattn::picture::check_support());
  if (model_.head_dim % vkattn::block_elements(sizes.cache) != 0)
    refuse("--cache " + options_.cache + " has blocks of 32, and heads have " +
           std::to_string(model_.head_dim) + " elements");
  return sizes;
}

// Makes and compiles the steps that these prompts need.
void Speaker::prepare() {
  std::int64_t rows = 0;
  for (const auto& prompt : prompts_) rows += std::ssize(prompt);
  (void)graph_->pass(Graph::Pass::kStep);
  if (rows % graph_options_.chunk > 1) (void)graph_->pass(Graph::Pass::kFew);
  if (rows >= graph_options_.chunk) (void)graph_->pass(Graph::Pass::kChunk);
  graph_->plans().compile();
}

void Speaker::execute_in_frames(const decoder::Steps& steps) {
  constexpr auto kFrame = std::chrono::microseconds(16667);
  if (!frames_) frames_.emplace(dispatches_of(steps));
  for (frames_->restart(); !frames_->is_done();) {
    const auto begin = Clock::now();
    const vkattn::RecordOptions slice = frames_->next(options_.frame_budget_ms * 1e6);
    const double ns = execute(*runtime_, steps, slice);
    frames_->measured(slice, ns);
    slices_.push_back(ns / 1e6);
    std::this_thread::sleep_until(begin + kFrame);  // the rest of the frame is the game's
  }
}

void Speaker::read(Texts& texts) {
  graph_->read(texts, options_.sampling, [&](Graph::Pass pass, const decoder::Steps& steps) {
    if (options_.frame_budget_ms > 0 && pass == Graph::Pass::kStep)
      execute_in_frames(steps);
    else
      (void)execute(*runtime_, steps);
  });
}

std::vector<Tokens> Speaker::run() {
  const decoder::Interrupts interrupts;
  Texts texts(prompts_);
  std::vector<Tokens> written(prompts_.size());
  if (!read_prompts(texts)) {
    std::fprintf(stderr, "interrupted while reading the prompt\n");
    return written;
  }
  write_texts(texts, written);
  std::size_t tokens = 0;
  for (const Tokens& each : written) tokens += each.size();
  print_figures(tokens);
  if (options_.picture.empty()) return written;
  Tokens all = prompts_.front();
  all.insert(all.end(), written.front().begin(), written.front().end());
  draw(all);
  return written;
}

// False if it was interrupted.
bool Speaker::read_prompts(Texts& texts) {
  for (const auto& prompt : prompts_) prompt_tokens_ += prompt.size();
  const auto begin = Clock::now();
  decoder::ProgressLine line;
  for (std::size_t done = 0; done < prompt_tokens_;) {
    if (decoder::Interrupts::came()) return false;
    line.update_step(
        static_cast<double>(done) / static_cast<double>(prompt_tokens_),
        "reading the prompt: " + std::to_string(done) + " of " + std::to_string(prompt_tokens_) + " tokens");
    read(texts);
    done = static_cast<std::size_t>(std::accumulate(texts.read.begin(), texts.read.end(), std::int64_t{0}));
  }
  first_token_ = seconds_since(begin);
  return true;
}

// Adds the chosen token to a text. False at its end.
bool Speaker::take_chosen(Texts& texts, std::size_t text, Tokens& written) const {
  if (std::ranges::find(model_.ends, texts.chosen[text]) != model_.ends.end()) return false;
  written.push_back(texts.chosen[text]);
  const bool is_last =
      std::ssize(written) == options_.tokens || texts.read[text] + 1 >= graph_options_.context;
  if (!is_last) texts.tokens[text].push_back(texts.chosen[text]);  // is read in the next step
  return !is_last;
}

// One text is streamed; several are printed one after the other.
void Speaker::write_texts(Texts& texts, std::vector<Tokens>& written) {
  const std::size_t count = prompts_.size();
  const bool is_terminal = vkattn::console::stdout_is_terminal();
  std::vector<std::string> outputs = options_.prompts;
  std::vector<decoder::Utf8Stream> streams(count);
  const auto flush = [&] {
    if (count > 1 || outputs[0].empty()) return;
    is_text_open = !outputs[0].ends_with('\n');
    std::fputs(printable(std::exchange(outputs[0], {}), is_terminal).c_str(), stdout);
    decoder::flush_output();
  };
  std::vector<bool> writes(count, true);
  example::before_refusal = end_lines;
  const auto begin = Clock::now();
  decoder::ProgressLine line;
  for (std::int64_t step = 1; !decoder::Interrupts::came(); ++step) {
    for (std::size_t i = 0; i < count; ++i) {
      if (!writes[i]) continue;
      const std::size_t before = written[i].size();
      writes[i] = take_chosen(texts, i, written[i]);
      if (written[i].size() > before) outputs[i] += streams[i].add(tokenizer_.bytes(texts.chosen[i]));
    }
    flush();
    if (std::ranges::find(writes, true) == writes.end()) break;
    if (count > 1)
      line.update_step(static_cast<double>(step) / static_cast<double>(options_.tokens),
                       "token " + std::to_string(step) + " of each text");
    read(texts);
  }
  decoding_ = seconds_since(begin);
  decoder::ProgressLine::clear();
  for (std::size_t i = 0; i < count; ++i) outputs[i] += streams[i].finish() + "\n";
  flush();
  for (std::size_t i = 0; count > 1 && i < count; ++i)
    std::printf("--- prompt %zu\n%s", i + 1, printable(outputs[i], is_terminal).c_str());
  decoder::flush_output();
}

void Speaker::print_figures(std::size_t tokens) const {
  const auto rate = [](std::size_t count, double seconds) {
    return seconds > 0 ? static_cast<double>(count) / seconds : 0.0;
  };
  const std::size_t decoded =
      tokens - std::min(tokens, prompts_.size());  // the first of each is the prompt's
  std::fprintf(stderr,
               "\n%s on %s\nloaded in %.1f s; first token after %.2f s (%s of the prompt, %.1f tokens/s)\n"
               "%s written, %.1f tokens/s\nmemory: weights %s (%s), cache %s (%s, %lld keys)\n",
               model_.family->architecture, runtime_->device().capabilities().device_name.c_str(), loading_,
               first_token_, vkattn::console::count(prompt_tokens_, "token").c_str(),
               rate(prompt_tokens_, first_token_), vkattn::console::count(tokens, "token").c_str(),
               rate(decoded, decoding_), bytes_text(weights_.bytes()).c_str(),
               vkattn::name(weights_.layers.front().qkv.type).data(),
               bytes_text(cache_bytes(model_, graph_options_).all).c_str(), options_.cache.c_str(),
               static_cast<long long>(graph_options_.context));
  if (!slices_.empty()) print_frames(decoded);
}

void Speaker::print_frames(std::size_t tokens) const {
  std::vector<double> slices = slices_;
  std::ranges::sort(slices);
  const auto at = [&](double share) {
    return slices[static_cast<std::size_t>(share * static_cast<double>(slices.size() - 1))];
  };
  const auto longer = std::ranges::count_if(slices, [&](double ms) { return ms > options_.frame_budget_ms; });
  std::fprintf(
      stderr,
      "frames: budget %.2f ms; a slice took %.2f ms (median), %.2f ms (p95), %.2f ms at most; %lld of %zu "
      "took longer; %.1f frames a token\n",
      options_.frame_budget_ms, at(0.5), at(0.95), at(1), static_cast<long long>(longer), slices.size(),
      static_cast<double>(slices.size()) / static_cast<double>(std::max<std::size_t>(tokens, 1)));
}

GraphOptions Speaker::picture_sizes(std::int64_t tokens) const {
  constexpr std::int64_t kMost = 48;
  GraphOptions options = graph_options_;
  options.texts = 1;
  options.context = options.chunk = std::min(tokens, kMost);
  options.shown_layer = options_.layer < 0 ? model_.layers - 1 : options_.layer;
  return options;
}

// The heads of one layer over the first tokens of a text, which are read again.
void Speaker::draw(Tokens tokens) {
  const GraphOptions options = picture_sizes(std::ssize(tokens));
  const auto count = static_cast<std::size_t>(options.context);
  tokens.resize(count);
  make_graph(options);
  Texts texts({tokens});
  graph_->read(texts, options_.sampling);
  const std::vector<float> weights = graph_->shown();
  vkattn::picture::HeatMap map;
  map.title = "What the tokens look at in layer " + std::to_string(options.shown_layer);
  // Behind a slash at its end, a path has an empty name.
  const std::filesystem::path& folder = options_.folder;
  map.caption = (folder.has_filename() ? folder : folder.parent_path()).filename().string() + "  \xc2\xb7  " +
                vkattn::picture::device_and_date(runtime_->device().capabilities().device_name);
  map.row_axis = "query";
  map.column_axis = "key";
  map.scale_axis = "probability";
  map.scale = vkattn::picture::HeatScale::kSquareRoot;
  for (const std::uint32_t token : tokens) map.row_labels.push_back(tokenizer_.name(token));
  map.column_labels = map.row_labels;
  const auto heads = std::min(static_cast<std::size_t>(model_.heads), vkattn::picture::kMostHeatPanels);
  for (std::size_t head = 0; head < heads; ++head) {
    const auto from = weights.begin() + static_cast<std::ptrdiff_t>(head * count * count);
    map.panels.push_back(
        {"head " + std::to_string(head), "", {from, from + static_cast<std::ptrdiff_t>(count * count)}});
  }
  checked(vkattn::picture::write_file(options_.picture, draw_heat_map(map, vkattn::picture::Format::kPng)));
  std::fprintf(stderr, "%s shows %zu of %lld heads of layer %lld over %zu tokens\n", options_.picture.c_str(),
               heads, static_cast<long long>(model_.heads), static_cast<long long>(options.shown_layer),
               count);
}

}  // namespace generate
