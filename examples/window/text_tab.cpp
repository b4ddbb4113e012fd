#include <imgui.h>
#include <imgui_stdlib.h>

#include "window/checks.hpp"
#include "window/tabs.hpp"
#include "window/text_attention.hpp"

namespace window {

namespace {

constexpr const char* kText = "the queries and the keys";
constexpr const char* kWords =
    "a query looks at every key and a key that fits the query opens the value and the value answers the "
    "query";

// What a user wants to see.
class TextTab : public MapTab {
 public:
  explicit TextTab(const TrainedHeads& given)
      : trained(given), most_heads(std::min(given.heads(), kMostHeads)), most_dims(given.dims()) {
    wanted.text = kText;
    wanted.heads = most_heads;
    wanted.dims = most_dims;
  }
  [[nodiscard]] const char* title() const override { return "Attention of a text"; }
  [[nodiscard]] std::unique_ptr<LiveTab> live(const Place& place) override;
  void draw_controls();

  const TrainedHeads& trained;
  int most_heads, most_dims;
  Controls wanted;
  MapsView view;

 private:
  void draw_source();
};

void TextTab::draw_source() {
  const bool was_trained = wanted.is_trained;
  if (ImGui::RadioButton("trained heads, characters", was_trained)) wanted.is_trained = true;
  mark("trained");
  if (ImGui::RadioButton("random heads, words", !was_trained)) wanted.is_trained = false;
  mark("random");
  if (was_trained == wanted.is_trained) return;
  if (wanted.text == (was_trained ? kText : kWords)) wanted.text = was_trained ? kWords : kText;
  wanted.heads = std::min(wanted.heads, wanted.is_trained ? most_heads : kMostHeads);
  wanted.dims = wanted.is_trained ? most_dims : 16;
}

void TextTab::draw_controls() {
  draw_source();
  Controls& c = wanted;
  slide("heads", "heads", c.heads, 1, c.is_trained ? most_heads : kMostHeads, "%d");
  slide("dims", "head dimension", c.dims, 1, c.is_trained ? most_dims : kMostDims, "%d");
  slide("scale", "scale, in 1/sqrt(head dimension)", c.scale, 0, 4, "%.2f");
  slide("temperature", "temperature", c.temperature, 0.1F, 10, "%.2f", true);
  slide("window", "window, keys on each side", c.window, 0, kMostTokens, c.window == 0 ? "all" : "%d");
  slide("softcap", "softcap of scores", c.softcap, 0, 20, c.softcap == 0 ? "none" : "%.1f");
  tick("causal", "causal", c.is_causal);
  ImGui::SameLine(0, kControlsGap);
  tick("alibi", "ALiBi", c.has_alibi);
  ImGui::SameLine(0, kControlsGap);
  tick("sinks", "sinks", c.has_sinks);
  if (c.has_sinks) slide("sink", "logit of each head's sink", c.sink, -8, 8, "%.1f");
  view.draw_switch();
}

class LiveText : public LiveTab {
 public:
  LiveText(const Place& place, TextTab& tab)
      : tab_(tab), screen_(place.screen), attention_(place.gpu, tab.trained) {
    attention_.update(tab.wanted, place.screen);  // a worker compiles attention beside the rest
    pictures_.emplace(place, attention_.weights());
  }
  void update(const Frame& frame) override;
  void draw(const Frame& frame) override;
  void record(const Frame& frame, Timer& timer) override;
  void measured(const Frame& frame, double ns) override;
  [[nodiscard]] bool is_ready() const override { return attention_.is_ready(tab_.wanted); }
  [[nodiscard]] bool has_weights() const override { return attention_.has_work(); }
  [[nodiscard]] double difference() override { return attention_.difference(); }
  [[nodiscard]] const Times& times() const override { return times_; }

 private:
  void draw_status() const;

  TextTab& tab_;
  const Screen& screen_;
  TextAttention attention_;
  std::optional<HeatMaps> pictures_;
  Maps maps_;
  Times times_;           // of the plan that is shown
  std::size_t plan_ = 0;  // its number
  int left_out_ = 0;      // times that are not its own, and that of its first execution
};

void LiveText::update(const Frame& frame) {
  attention_.update(tab_.wanted, screen_);
  const TextAttention::Shown& shown = attention_.shown();
  if (std::exchange(plan_, shown.number) != shown.number) {
    times_.values.clear();
    left_out_ = static_cast<int>(kFramesInFlight) + 1;
  }
  maps_ = attention_.has_work() ? attention_.maps() : Maps();
  tab_.view.begin(maps_, *pictures_, frame.slot);
}

void LiveText::draw(const Frame& /*frame*/) {
  ImGui::SetNextItemWidth(-1);
  ImGui::InputTextWithHint("##text", "Type a text: attention runs while you type", &tab_.wanted.text);
  mark("text");
  const Rows& rows = attention_.shown().rows;
  tab_.view.draw_tokens(rows.labels);
  std::string note = rows.note;
  if (rows.tokens() == 0) note += "There is no token to attend to: type a text.";
  if (!note.empty()) soft_text(note.c_str());
  ImGui::Dummy({0, 2});
  ImGui::BeginChild("controls", {kControlsWidth, 0});
  tab_.draw_controls();
  draw_status();
  ImGui::EndChild();
  ImGui::SameLine(0, kControlsGap);
  ImGui::BeginChild("maps", {0, 0}, false, ImGuiWindowFlags_NoScrollbar);
  tab_.view.draw(maps_, *pictures_);
  ImGui::EndChild();
}

void LiveText::draw_status() const {
  ImGui::Spacing();
  ImGui::Separator();
  const TextAttention::Shown& shown = attention_.shown();
  if (!shown.error.empty()) soft_text(shown.error.c_str());
  if (!shown.plan) return;
  std::string text = "attention in a frame: " + times_.words() + "; kernel " +
                     std::string(shown.plan->kernel_name()) + "\n" + allocation_words() + "\n";
  text += attention_.is_ready(tab_.wanted) ? "planned and compiled in " + milliseconds(1e3 * shown.seconds)
                                           : "compiling what has changed ...";
  soft_text(text.c_str());
}

void LiveText::record(const Frame& frame, Timer& timer) {
  if (attention_.has_work()) {
    timer.begin(frame);
    attention_.record(frame.commands);
    timer.end(frame);
  }
  tab_.view.record(frame, maps_, *pictures_);
}

// Some drivers compile a plan's code at its first execution.
void LiveText::measured(const Frame& /*frame*/, double ns) {
  if (left_out_ > 0) {
    --left_out_;
  } else {
    times_.add(ns / 1e6);
  }
}

std::unique_ptr<LiveTab> TextTab::live(const Place& place) {
  return std::make_unique<LiveText>(place, *this);
}

}  // namespace

std::unique_ptr<MapTab> make_text_tab(const TrainedHeads& trained) {
  return std::make_unique<TextTab>(trained);
}

}  // namespace window
