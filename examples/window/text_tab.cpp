#include <imgui.h>
#include <imgui_stdlib.h>

#include <numeric>

#include "window/checks.hpp"
#include "window/tabs.hpp"

namespace window {

namespace {

constexpr float kControlsWidth = 250, kGap = 18, kTitleHeight = 20, kNumbersHeight = 118;
constexpr const char* kText = "the queries and the keys";
constexpr const char* kWords =
    "a query looks at every key and a key that fits the query opens the value and the value answers the "
    "query";

void text_at(ImVec2 place, ImU32 color, const std::string& text, const ImFont* font, float size) {
  ImGui::GetWindowDrawList()->AddText(font, size, place, color, text.c_str());
}

float width_of(const std::string& text, const ImFont* font, float size) {
  return font->CalcTextSizeA(size, 1e6F, 0, text.c_str()).x;
}

std::string quoted(const Rows& rows, int token) {
  return "'" + rows.labels[static_cast<std::size_t>(token)] + "' (" + std::to_string(token) + ")";
}

}  // namespace

TextTab::TextTab(const TrainedHeads& trained)
    : most_heads_(std::min(trained.heads(), kMostHeads)), most_dims_(trained.dims()) {
  wanted_.text = kText;
  wanted_.heads = most_heads_;
  wanted_.dims = most_dims_;
}

void TextTab::draw(const TextAttention& attention, const HeatMaps& maps, std::uint32_t slot) {
  const Rows& rows = attention.shown().rows;
  if (std::exchange(plan_, attention.shown().number) != attention.shown().number) {
    times_.values.clear();
    left_out_ = static_cast<int>(kFramesInFlight) + 1;
  }
  if (pointed_ && (pointed_->row >= rows.tokens() || pointed_->column >= rows.tokens())) pointed_.reset();
  row_.clear();
  if (pointed_ && copied_[slot] && copied_[slot]->is_in_row_of(*pointed_)) {
    const auto row = attention.row(slot).first(static_cast<std::size_t>(rows.tokens()));
    row_.assign(row.begin(), row.end());
  }
  ImGui::SetNextItemWidth(-1);
  ImGui::InputTextWithHint("##text", "Type a text: attention runs while you type", &wanted_.text);
  mark("text");
  draw_tokens(rows);
  ImGui::BeginChild("controls", {kControlsWidth, 0});
  draw_controls(attention);
  ImGui::EndChild();
  ImGui::SameLine(0, kGap);
  ImGui::BeginChild("maps", {0, 0}, false, ImGuiWindowFlags_NoScrollbar);
  pointed_.reset();
  draw_maps(attention, maps);
  ImGui::EndChild();
}

// Some drivers compile a plan's code at its first execution.
void TextTab::measured(double ns) {
  if (left_out_ > 0) {
    --left_out_;
  } else {
    times_.add(ns / 1e6);
  }
}

void TextTab::draw_source() {
  const bool was_trained = wanted_.is_trained;
  if (ImGui::RadioButton("trained heads, characters", was_trained)) wanted_.is_trained = true;
  mark("trained");
  if (ImGui::RadioButton("random heads, words", !was_trained)) wanted_.is_trained = false;
  mark("random");
  if (was_trained == wanted_.is_trained) return;
  if (wanted_.text == (was_trained ? kText : kWords)) wanted_.text = was_trained ? kWords : kText;
  wanted_.heads = std::min(wanted_.heads, wanted_.is_trained ? most_heads_ : kMostHeads);
  wanted_.dims = wanted_.is_trained ? most_dims_ : 16;
}

void TextTab::draw_controls(const TextAttention& attention) {
  draw_source();
  Controls& c = wanted_;
  slide("heads", "heads", c.heads, 1, c.is_trained ? most_heads_ : kMostHeads, "%d");
  slide("dims", "head dimension", c.dims, 1, c.is_trained ? most_dims_ : kMostDims, "%d");
  slide("scale", "scale, in 1/sqrt(head dimension)", c.scale, 0, 4, "%.2f");
  slide("temperature", "temperature", c.temperature, 0.1F, 10, "%.2f", true);
  slide("window", "window, keys on each side", c.window, 0, kMostTokens, c.window == 0 ? "all" : "%d");
  slide("softcap", "softcap of scores", c.softcap, 0, 20, c.softcap == 0 ? "none" : "%.1f");
  tick("causal", "causal", c.is_causal);
  ImGui::SameLine(0, kGap);
  tick("alibi", "ALiBi", c.has_alibi);
  ImGui::SameLine(0, kGap);
  tick("sinks", "sinks", c.has_sinks);
  if (c.has_sinks) slide("sink", "logit of each head's sink", c.sink, -8, 8, "%.1f");
  tick("square_root", "colours by the square root", square_root_);
  draw_status(attention);
}

void TextTab::draw_status(const TextAttention& attention) const {
  ImGui::Spacing();
  ImGui::Separator();
  const TextAttention::Shown& shown = attention.shown();
  if (!shown.error.empty()) soft_text(shown.error.c_str());
  if (!shown.plan) return;
  std::string text = "attention in a frame: median " + milliseconds(share_of(times_.values, 0.5)) +
                     ", 99 % below " + milliseconds(share_of(times_.values, 0.99)) + "; kernel " +
                     std::string(shown.plan->kernel_name()) +
                     "\nallocations in record(): " + std::to_string(allocations_in_record) + "\n";
  text += attention.is_ready(wanted_) ? "planned and compiled in " + milliseconds(1e3 * shown.seconds)
                                      : "compiling what has changed ...";
  soft_text(text.c_str());
}

// A chip for each token. If a row is pointed at, the chips have the colours of its weights.
void TextTab::draw_tokens(const Rows& rows) const {
  ImGui::Dummy({0, 1});
  ImDrawList& list = *ImGui::GetWindowDrawList();
  const ImVec2 from = ImGui::GetCursorScreenPos();
  const float right = from.x + ImGui::GetContentRegionAvail().x, height = ImGui::GetTextLineHeight() + 4;
  float x = from.x, y = from.y;
  for (int i = 0; i < rows.tokens(); ++i) {
    const std::string& label = rows.labels[static_cast<std::size_t>(i)];
    const float width = ImGui::CalcTextSize(label.c_str()).x + 9;
    if (x + width > right) x = from.x, y += height + 3;
    const bool is_query = pointed_ && pointed_->row == i;
    const float weight = row_.empty() ? 0 : row_[static_cast<std::size_t>(i)];
    list.AddRectFilled({x, y}, {x + width, y + height}, row_.empty() ? grid() : heat(weight), 4);
    if (is_query) list.AddRect({x, y}, {x + width, y + height}, series(1), 4, 0, 2);
    list.AddText({x + 5, y + 2}, row_.empty() || weight > 0.75F ? ink() : IM_COL32_WHITE, label.c_str());
    x += width + 3;
  }
  ImGui::Dummy({0, rows.tokens() == 0 ? 0 : y - from.y + height});
  std::string note = rows.note;
  if (rows.tokens() == 0) note += "There is no token to attend to: type a text.";
  if (!note.empty()) soft_text(note.c_str());
  ImGui::Dummy({0, 2});
}

float TextTab::label_room(const Rows& rows) const {
  float room = 14;
  for (const std::string& each : rows.labels) room = std::max(room, width_of(each, small_font(), 11) + 5);
  return std::min(room, 90.0F);
}

// As many columns as make the maps largest.
void TextTab::draw_maps(const TextAttention& attention, const HeatMaps& maps) {
  const TextAttention::Shown& shown = attention.shown();
  if (!shown.plan) return;
  const int heads = shown.controls.heads;
  const float room = label_room(shown.rows), below = shown.controls.is_trained ? 16.0F : 4.0F;
  const ImVec2 from = ImGui::GetCursorScreenPos(), whole = ImGui::GetContentRegionAvail();
  const float numbers = whole.y > 2 * kNumbersHeight ? kNumbersHeight : 0;
  const ImVec2 space{whole.x, whole.y - numbers};
  const float legend = 62;
  float side = 0;
  int columns = 1;
  for (int each = 1; each <= heads; ++each) {
    const auto across = static_cast<float>(each), down = std::ceil(static_cast<float>(heads) / across);
    const float fits =
        std::min((space.x - legend) / across - room - 6, space.y / down - kTitleHeight - below - 6);
    if (fits > side) side = fits, columns = each;
  }
  if (side < 8) return;
  side = std::floor(side);
  for (int head = 0; head < heads; ++head) {
    const auto column = static_cast<float>(head % columns), line = static_cast<float>(head / columns);
    draw_map(shown, maps, head,
             {from.x + column * (side + room + 6) + room, from.y + line * (side + kTitleHeight + below + 6)},
             side);
  }
  draw_legend();
  if (numbers > 0) draw_numbers(shown.rows, {from.x, from.y + space.y + 6}, {whole.x - legend, numbers - 6});
}

void TextTab::draw_map(const TextAttention::Shown& shown, const HeatMaps& maps, int head, ImVec2 from,
                       float side) {
  text_at(from, ink(), "head " + std::to_string(head), title_font(), 14);
  from.y += kTitleHeight;
  from = {std::floor(from.x), std::floor(from.y)};
  ImGui::SetCursorScreenPos(from);
  ImGui::PushID(head);
  ImGui::InvisibleButton("map", {side, side});
  ImGui::PopID();
  const std::string name = "head" + std::to_string(head);
  mark(name);
  const int tokens = shown.rows.tokens();
  if (ImGui::IsItemHovered()) {
    const ImVec2 mouse = ImGui::GetMousePos();
    const auto at = [&](float place) {
      return std::clamp(static_cast<int>(place * static_cast<float>(tokens) / side), 0, tokens - 1);
    };
    pointed_ = Cell{head, at(mouse.y - from.y), at(mouse.x - from.x)};
  }
  const Controls& c = shown.controls;
  MapPush push;
  push.head = static_cast<std::uint32_t>(head);
  push.tokens = static_cast<std::uint32_t>(tokens);
  push.left = c.window > 0 ? c.window : -1;
  push.causal = c.is_causal ? 1 : 0;
  push.row = pointed_ && pointed_->head == head ? pointed_->row : -1;
  push.square_root = square_root_ ? 1 : 0;
  push.side = side;
  maps.draw(*ImGui::GetWindowDrawList(), from, push);
  draw_labels(shown.rows, from, side);
}

void TextTab::draw_labels(const Rows& rows, ImVec2 from, float side) const {
  const float cell = side / static_cast<float>(rows.tokens()), size = std::clamp(cell * 1.2F, 8.0F, 11.0F);
  if (cell < 5) return;
  for (int i = 0; i < rows.tokens(); ++i) {
    const std::string& label = rows.labels[static_cast<std::size_t>(i)];
    const float middle = (static_cast<float>(i) + 0.5F) * cell, width = width_of(label, small_font(), size);
    text_at({from.x - std::min(width, 86.0F) - 4, from.y + middle - 0.58F * size}, soft_ink(), label,
            small_font(), size);
    if (wanted_.is_trained && width < 1.5F * cell)
      text_at({from.x + middle - width / 2, from.y + side + 1}, soft_ink(), label, small_font(), size);
  }
}

// The numbers of the row that is pointed at: a bar for each key, as high as its part of the largest.
void TextTab::draw_numbers(const Rows& rows, ImVec2 from, ImVec2 size) const {
  if (!pointed_ || row_.empty()) {
    text_at(from, soft_ink(), "Point at a row of a map to see its numbers.", ImGui::GetFont(), 15);
    return;
  }
  char text[160];
  const auto weight_of = [&](int key) { return row_[static_cast<std::size_t>(key)]; };
  std::snprintf(text, sizeof(text), "head %d, query %s", pointed_->head, quoted(rows, pointed_->row).c_str());
  text_at(from, ink(), text, title_font(), 15);
  const float room = std::max(width_of(text, title_font(), 15) + 16, 210.0F);
  const float sum = std::reduce(row_.begin(), row_.end());
  std::snprintf(text, sizeof(text), "weight of key %s: %.4f     sum of the row: %.4f",
                quoted(rows, pointed_->column).c_str(), static_cast<double>(weight_of(pointed_->column)),
                static_cast<double>(sum));
  text_at({from.x + room, from.y}, soft_ink(), text, ImGui::GetFont(), 15);
  constexpr float kTop = 36, kBelow = 16;
  const float width = size.x / static_cast<float>(rows.tokens()), high = size.y - kTop - kBelow;
  ImDrawList& list = *ImGui::GetWindowDrawList();
  const float base = from.y + size.y - kBelow, most = std::max(*std::ranges::max_element(row_), 1e-6F);
  list.AddLine({from.x, base}, {from.x + size.x, base}, grid());
  for (int key = 0; key < rows.tokens(); ++key) {
    const float x = from.x + static_cast<float>(key) * width, top = base - high * weight_of(key) / most;
    list.AddRectFilled({x + 1, top}, {x + width - 1, base}, series(key == pointed_->column ? 1 : 0), 2);
    std::snprintf(text, sizeof(text), width > 30 ? "%.3f" : "%.2f", static_cast<double>(weight_of(key)));
    const std::string number =
        text[0] == '0' && width <= 30 ? text + 1 : text;  // ".12" where there is less room
    if (weight_of(key) >= 0.005F)
      text_at({x + (width - width_of(number, small_font(), 11)) / 2, top - 13}, ink(), number, small_font(),
              11);
    const std::string& label = rows.labels[static_cast<std::size_t>(key)];
    const float wide = width_of(label, small_font(), 11);
    if (wide < width + 2) text_at({x + (width - wide) / 2, base + 2}, soft_ink(), label, small_font(), 11);
  }
}

// The colours of weights, at the right edge.
void TextTab::draw_legend() const {
  ImDrawList& list = *ImGui::GetWindowDrawList();
  const ImVec2 corner = ImGui::GetWindowPos();
  const float x = corner.x + ImGui::GetWindowWidth() - 50, y = corner.y + kTitleHeight, height = 180;
  text_at({x, corner.y + 2}, soft_ink(), "weight", small_font(), 11);
  constexpr int kSteps = 90;
  for (int i = 0; i < kSteps; ++i) {
    const float top = y + height * static_cast<float>(i) / kSteps;
    const float share = 1 - (static_cast<float>(i) + 0.5F) / kSteps;
    list.AddRectFilled({x, top}, {x + 12, top + height / kSteps + 0.5F},
                       heat(square_root_ ? std::sqrt(share) : share));
  }
  for (const char* const label : {"1", "0.8", "0.6", "0.4", "0.2", "0"})
    text_at({x + 16, y + height * (1 - std::strtof(label, nullptr)) - 6}, soft_ink(), label, small_font(),
            11);
  const float below = y + height + 16;
  list.AddRectFilled({x, below}, {x + 12, below + 12}, IM_COL32(230, 231, 233, 255));
  text_at({x, below + 15}, soft_ink(), "hidden", small_font(), 11);
}

void TextTab::record(const Frame& frame, const TextAttention& attention, Timer& timer) {
  copied_[frame.slot].reset();
  if (!attention.has_work()) return;
  timer.begin(frame);
  attention.record(frame.commands);
  timer.end(frame);
  if (!pointed_) return;
  attention.record_row(frame, pointed_->head, pointed_->row);
  copied_[frame.slot] = pointed_;
}

}  // namespace window
