#include <imgui.h>
#include <imgui_stdlib.h>

#include "decoder/text.hpp"
#include "window/checks.hpp"
#include "window/tabs.hpp"
#include "window/writer.hpp"

namespace window {

namespace {

// A text that a model continues, and what a user wants to see of it.
class ModelTab : public MapTab {
 public:
  explicit ModelTab(LanguageModel opened) : from(std::move(opened)) {
    layer = static_cast<int>(from.model.layers - 1);
  }
  [[nodiscard]] const char* title() const override { return "Attention of a model that writes"; }
  [[nodiscard]] std::unique_ptr<LiveTab> live(const Place& place) override;
  // Begins the text of the prompt. False if there is no such text, as the note tells.
  [[nodiscard]] bool begin();
  // Takes the token that the model has chosen after all others.
  void add(std::uint32_t token);

  LanguageModel from;
  std::string prompt = "It is";       // as it stands in the field
  std::string begun, note;            // what is continued, and what there is to say of it
  std::vector<std::uint32_t> tokens;  // of the prompt, and those that follow it
  std::size_t prompt_tokens = 0;
  bool begins = false, is_writing = false;  // the button was pressed; tokens follow
  int layer;
  float temperature = 0, budget_ms = 2;
  MapsView view;
};

bool ModelTab::begin() {
  note.clear();
  const auto encoded = from.tokenizer.encode(prompt);
  if (!encoded) {
    note = encoded.error().message;
  } else if (encoded->empty()) {
    note = "There is no token to continue: type a text.";
  } else if (encoded->size() >= static_cast<std::size_t>(from.context())) {
    note = "The prompt has " + std::to_string(encoded->size()) + " tokens, and there is room for " +
           std::to_string(from.context()) + " with those that follow: shorten it.";
  } else if (const auto largest = *std::ranges::max_element(*encoded); largest >= from.model.vocabulary) {
    note = "tokenizer.json has the token " + std::to_string(largest) +
           ", and config.json makes the vocabulary " + std::to_string(from.model.vocabulary) + ".";
  } else {
    begun = prompt;
    tokens = *encoded;
    prompt_tokens = tokens.size();
    is_writing = true;
  }
  return note.empty();
}

void ModelTab::add(std::uint32_t token) {
  if (!is_writing) return;
  is_writing = false;
  if (token == ~0U) {
    note = "The model's numbers overflow: the checkpoint holds infinities or NaN.";
  } else if (std::ranges::find(from.model.ends, token) != from.model.ends.end()) {
    note = "The model has ended its text.";
  } else {
    tokens.push_back(token);
    is_writing = tokens.size() < static_cast<std::size_t>(from.context());
    if (!is_writing) note = "The maps have room for " + std::to_string(tokens.size()) + " tokens.";
  }
}

class LiveModel : public LiveTab {
 public:
  LiveModel(const Place& place, ModelTab& tab)
      : tab_(tab), writer_(place, tab.from), pictures_(place, writer_.weights()) {}
  void update(const Frame& frame) override;
  void draw(const Frame& frame) override;
  void record(const Frame& frame, Timer& timer) override;
  void measured(const Frame& frame, double ns) override;
  [[nodiscard]] bool is_ready() const override {
    return !tab_.begins && !tab_.is_writing && writer_.read() == tab_.tokens.size();
  }
  [[nodiscard]] bool has_weights() const override { return writer_.read() > 0; }
  [[nodiscard]] double difference() override { return writer_.difference(tab_.tokens); }
  [[nodiscard]] const Times& times() const override { return times_; }

 private:
  void draw_prompt();
  void draw_controls();
  [[nodiscard]] std::string written() const;
  void say_written() const;

  ModelTab& tab_;
  Writer writer_;
  HeatMaps pictures_;
  Maps maps_;
  std::vector<std::string> labels_;  // of all tokens
  Times times_;                      // of slices
};

void LiveModel::update(const Frame& frame) {
  if (const auto token = writer_.take(frame, tab_.tokens.size())) {
    const bool was_writing = tab_.is_writing;
    tab_.add(*token);
    if (was_writing && !tab_.is_writing) say_written();
  }
  if (std::exchange(tab_.begins, false) && tab_.begin()) writer_.restart();
  labels_.clear();
  for (const std::uint32_t token : tab_.tokens) labels_.push_back(tab_.from.tokenizer.name(token));
  maps_ = writer_.maps(tab_.layer);
  maps_.labels.assign(labels_.begin(), labels_.begin() + static_cast<std::ptrdiff_t>(writer_.read()));
  tab_.view.begin(maps_, pictures_, frame.slot);
}

// What follows the prompt.
std::string LiveModel::written() const {
  decoder::Utf8Stream stream;
  std::string text;
  for (std::size_t i = tab_.prompt_tokens; i < tab_.tokens.size(); ++i)
    text += stream.add(tab_.from.tokenizer.bytes(tab_.tokens[i]));
  return text + stream.finish();
}

// On one line: a terminal obeys control characters, and a model may write any.
void LiveModel::say_written() const {
  std::string text = written();
  for (char& each : text) each = static_cast<unsigned char>(each) < 0x20 || each == 0x7f ? ' ' : each;
  std::printf("written: %s\ntokens:", text.c_str());
  for (const std::uint32_t token : tab_.tokens) std::printf(" %u", token);
  std::printf("\n");
}

void LiveModel::draw(const Frame& /*frame*/) {
  draw_prompt();
  tab_.view.draw_tokens(labels_, tab_.prompt_tokens);
  if (!tab_.note.empty()) soft_text(tab_.note.c_str());
  ImGui::Dummy({0, 2});
  ImGui::BeginChild("controls", {kControlsWidth, 0});
  draw_controls();
  ImGui::EndChild();
  ImGui::SameLine(0, kControlsGap);
  ImGui::BeginChild("maps", {0, 0}, false, ImGuiWindowFlags_NoScrollbar);
  tab_.view.draw(maps_, pictures_);
  ImGui::EndChild();
}

void LiveModel::draw_prompt() {
  constexpr float kButton = 90;
  ImGui::SetNextItemWidth(-kButton - ImGui::GetStyle().ItemSpacing.x);
  tab_.begins = ImGui::InputTextWithHint("##text", "Type a text for the model to continue", &tab_.prompt,
                                         ImGuiInputTextFlags_EnterReturnsTrue);
  mark("text");
  ImGui::SameLine();
  if (ImGui::Button(tab_.is_writing ? "Stop" : "Write", {kButton, 0})) {
    tab_.begins = !tab_.is_writing;
    tab_.is_writing = false;
  }
  mark("write");
}

void LiveModel::draw_controls() {
  const generate::Model& model = tab_.from.model;
  std::string text = std::string(model.family->architecture) + "; layers: " + std::to_string(model.layers) +
                     "; heads: " + std::to_string(model.heads) + " of " + std::to_string(model.head_dim) +
                     " dims; KV heads: " + std::to_string(model.kv_heads);
  if (model.heads > MapsView::kMostMaps)
    text += "; the first " + std::to_string(MapsView::kMostMaps) + " heads are shown";
  soft_text(text.c_str());
  slide("layer", "layer", tab_.layer, 0, static_cast<int>(model.layers) - 1, "%d");
  slide("temperature", "temperature", tab_.temperature, 0, 4,
        tab_.temperature == 0 ? "the likeliest token" : "%.2f");
  slide("budget", "budget of the model in a frame", tab_.budget_ms, 0.05F, 8, "%.2f ms", true);
  tab_.view.draw_switch();
  ImGui::Spacing();
  ImGui::Separator();
  text = std::to_string(tab_.prompt_tokens) + " tokens of the prompt, " +
         std::to_string(tab_.tokens.size() - tab_.prompt_tokens) + " written, " +
         std::to_string(writer_.read()) + " read\na frame's slice: " + times_.words() + "\n" +
         allocation_words();
  soft_text(text.c_str());
  ImGui::Spacing();
  if (tab_.tokens.size() > tab_.prompt_tokens) ImGui::TextWrapped("%s", (tab_.begun + written()).c_str());
}

void LiveModel::record(const Frame& frame, Timer& timer) {
  decoder::Sampling sampling;
  sampling.temperature = tab_.temperature;
  sampling.draw = static_cast<std::uint32_t>(tab_.tokens.size());
  writer_.record(frame, tab_.tokens, sampling, static_cast<double>(tab_.budget_ms) * 1e6, timer);
  tab_.view.record(frame, maps_, pictures_);
}

void LiveModel::measured(const Frame& frame, double ns) {
  writer_.measured(frame, ns);
  times_.add(ns / 1e6);
}

std::unique_ptr<LiveTab> ModelTab::live(const Place& place) {
  return std::make_unique<LiveModel>(place, *this);
}

}  // namespace

vkattn::Result<std::unique_ptr<MapTab>> make_model_tab(const std::filesystem::path& folder) {
  auto from = LanguageModel::open(folder);
  if (!from) return from.error();
  return std::unique_ptr<MapTab>(std::make_unique<ModelTab>(*std::move(from)));
}

}  // namespace window
