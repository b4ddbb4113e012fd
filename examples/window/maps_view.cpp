#include "window/maps_view.hpp"

#include <numeric>
#include <utility>

namespace window {

namespace {

constexpr float kTitleHeight = 20, kNumbersHeight = 118, kGap = 6, kLegend = 62;
constexpr float kLeastCell = 5;  // that has labels

std::string quoted(const Maps& maps, int token) {
  return "'" + maps.labels[static_cast<std::size_t>(token)] + "' (" + std::to_string(token) + ")";
}

// How the maps lie: the side of each, how many are beside each other, and what labels take on their left.
struct Grid {
  float side = 0, room = 0;
  int columns = 1;
};

Grid fitted(const Maps& maps, int count, ImVec2 space, float room) {
  const float below = maps.has_labels_below ? 16.0F : 4.0F;
  Grid grid{.room = room};
  for (int each = 1; each <= count; ++each) {
    const auto across = static_cast<float>(each), down = std::ceil(static_cast<float>(count) / across);
    const float fits =
        std::min((space.x - kLegend) / across - room - kGap, space.y / down - kTitleHeight - below - kGap);
    if (fits > grid.side) grid.side = fits, grid.columns = each;
  }
  grid.side = std::floor(grid.side);
  return grid;
}

// Without room for labels if their rows would be too low for them.
Grid grid_of(const Maps& maps, int count, ImVec2 space) {
  float room = 14;
  for (const std::string& each : maps.labels) room = std::max(room, width_of(each, small_font(), 11) + 5);
  const Grid grid = fitted(maps, count, space, std::min(room, 90.0F));
  return grid.side >= kLeastCell * static_cast<float>(maps.tokens()) ? grid : fitted(maps, count, space, 0);
}

}  // namespace

void MapsView::begin(const Maps& maps, const HeatMaps& pictures, std::uint32_t slot) {
  const int tokens = maps.tokens();
  if (pointed_ && (pointed_->head >= maps.heads || pointed_->row >= tokens || pointed_->column >= tokens))
    pointed_.reset();
  row_.clear();
  // Rows of another length are those of another text.
  const std::optional<Copied>& copied = copied_[slot];
  if (!pointed_ || !copied || !copied->cell.is_in_row_of(*pointed_) || copied->numbers != maps.row_stride)
    return;
  const auto row = pictures.row(slot).first(static_cast<std::size_t>(tokens));
  row_.assign(row.begin(), row.end());
}

void MapsView::draw_tokens(const std::vector<std::string>& labels, std::size_t first_new) const {
  ImGui::Dummy({0, 1});
  ImDrawList& list = *ImGui::GetWindowDrawList();
  const ImVec2 from = ImGui::GetCursorScreenPos();
  const float right = from.x + ImGui::GetContentRegionAvail().x, height = ImGui::GetTextLineHeight() + 4;
  float x = from.x, y = from.y;
  for (std::size_t i = 0; i < labels.size(); ++i) {
    const float width = ImGui::CalcTextSize(labels[i].c_str()).x + 9;
    if (x + width > right) x = from.x, y += height + 3;
    const bool is_query = pointed_ && pointed_->row == static_cast<int>(i), has_weight = i < row_.size();
    const float weight = has_weight ? row_[i] : 0;
    list.AddRectFilled({x, y}, {x + width, y + height}, has_weight ? heat(weight) : grid(), 4);
    if (is_query) list.AddRect({x, y}, {x + width, y + height}, series(1), 4, 0, 2);
    text_at({x + 5, y + 2}, has_weight && weight <= 0.75F ? IM_COL32_WHITE : ink(), labels[i],
            ImGui::GetFont(), 15);
    if (i >= first_new) list.AddLine({x + 2, y + height}, {x + width - 2, y + height}, series(0), 2);
    x += width + 3;
  }
  ImGui::Dummy({0, labels.empty() ? 0 : y - from.y + height});
}

void MapsView::draw(const Maps& maps, const HeatMaps& pictures) {
  const auto known = std::exchange(pointed_, std::nullopt);
  const int count = std::min(maps.heads, kMostMaps);
  if (maps.tokens() == 0) return;
  const ImVec2 from = ImGui::GetCursorScreenPos(), whole = ImGui::GetContentRegionAvail();
  const float numbers = whole.y > 2 * kNumbersHeight ? kNumbersHeight : 0;
  const ImVec2 space{whole.x, whole.y - numbers};
  const Grid grid = grid_of(maps, count, space);
  if (grid.side < 8) return;
  const float below = maps.has_labels_below ? 16.0F : 4.0F;
  for (int head = 0; head < count; ++head) {
    const auto column = static_cast<float>(head % grid.columns),
               line = static_cast<float>(head / grid.columns);
    draw_map(maps, pictures, head,
             {from.x + column * (grid.side + grid.room + kGap) + grid.room,
              from.y + line * (grid.side + kTitleHeight + below + kGap)},
             grid.side);
  }
  if (pointed_ && !(known && known->is_in_row_of(*pointed_))) row_.clear();
  draw_legend();
  if (numbers > 0) draw_numbers(maps, {from.x, from.y + space.y + 6}, {whole.x - kLegend, numbers - 6});
}

void MapsView::draw_map(const Maps& maps, const HeatMaps& pictures, int head, ImVec2 from, float side) {
  text_at(from, ink(), "head " + std::to_string(head), title_font(), 14);
  from = {std::floor(from.x), std::floor(from.y + kTitleHeight)};
  ImGui::SetCursorScreenPos(from);
  ImGui::PushID(head);
  ImGui::InvisibleButton("map", {side, side});
  ImGui::PopID();
  mark("head" + std::to_string(head));
  const int tokens = maps.tokens();
  if (ImGui::IsItemHovered()) {
    const ImVec2 mouse = ImGui::GetMousePos();
    const auto at = [&](float place) {
      return std::clamp(static_cast<int>(place * static_cast<float>(tokens) / side), 0, tokens - 1);
    };
    pointed_ = Cell{head, at(mouse.y - from.y), at(mouse.x - from.x)};
  }
  MapPush push;
  push.first = maps.row(head, 0);
  push.row_stride = maps.row_stride;
  push.tokens = static_cast<std::uint32_t>(tokens);
  push.left = maps.left;
  push.causal = maps.is_causal ? 1 : 0;
  push.row = pointed_ && pointed_->head == head ? pointed_->row : -1;
  push.square_root = square_root_ ? 1 : 0;
  push.side = side;
  pictures.draw(*ImGui::GetWindowDrawList(), from, push);
  draw_labels(maps, from, side);
}

void MapsView::draw_labels(const Maps& maps, ImVec2 from, float side) {
  const float cell = side / static_cast<float>(maps.tokens()), size = std::clamp(cell * 1.2F, 8.0F, 11.0F);
  if (cell < kLeastCell) return;
  for (int i = 0; i < maps.tokens(); ++i) {
    const std::string& label = maps.labels[static_cast<std::size_t>(i)];
    const float middle = (static_cast<float>(i) + 0.5F) * cell, width = width_of(label, small_font(), size);
    text_at({from.x - std::min(width, 86.0F) - 4, from.y + middle - 0.58F * size}, soft_ink(), label,
            small_font(), size);
    if (maps.has_labels_below && width < 1.5F * cell)
      text_at({from.x + middle - width / 2, from.y + side + 1}, soft_ink(), label, small_font(), size);
  }
}

// A bar for each key, as high as its part of the largest.
void MapsView::draw_numbers(const Maps& maps, ImVec2 from, ImVec2 size) const {
  if (!pointed_ || row_.empty()) {
    text_at(from, soft_ink(), "Point at a row of a map to see its numbers.", ImGui::GetFont(), 15);
    return;
  }
  char text[160];
  const auto weight_of = [&](int key) { return row_[static_cast<std::size_t>(key)]; };
  std::snprintf(text, sizeof(text), "head %d, query %s", pointed_->head, quoted(maps, pointed_->row).c_str());
  text_at(from, ink(), text, title_font(), 15);
  const float room = std::max(width_of(text, title_font(), 15) + 16, 210.0F);
  const float sum = std::reduce(row_.begin(), row_.end());
  std::snprintf(text, sizeof(text), "weight of key %s: %.4f     sum of the row: %.4f",
                quoted(maps, pointed_->column).c_str(), static_cast<double>(weight_of(pointed_->column)),
                static_cast<double>(sum));
  text_at({from.x + room, from.y}, soft_ink(), text, ImGui::GetFont(), 15);
  constexpr float kTop = 36, kBelow = 16;
  const float width = size.x / static_cast<float>(maps.tokens()), high = size.y - kTop - kBelow;
  ImDrawList& list = *ImGui::GetWindowDrawList();
  const float base = from.y + size.y - kBelow, most = std::max(*std::ranges::max_element(row_), 1e-6F);
  list.AddLine({from.x, base}, {from.x + size.x, base}, grid());
  for (int key = 0; key < maps.tokens(); ++key) {
    const float x = from.x + static_cast<float>(key) * width, top = base - high * weight_of(key) / most;
    list.AddRectFilled({x + 1, top}, {x + width - 1, base}, series(key == pointed_->column ? 1 : 0), 2);
    std::snprintf(text, sizeof(text), width > 30 ? "%.3f" : "%.2f", static_cast<double>(weight_of(key)));
    const std::string number =
        text[0] == '0' && width <= 30 ? text + 1 : text;  // ".12" where there is less room
    if (weight_of(key) >= 0.005F)
      text_at({x + (width - width_of(number, small_font(), 11)) / 2, top - 13}, ink(), number, small_font(),
              11);
    const std::string& label = maps.labels[static_cast<std::size_t>(key)];
    const float wide = width_of(label, small_font(), 11);
    if (wide < width + 2) text_at({x + (width - wide) / 2, base + 2}, soft_ink(), label, small_font(), 11);
  }
}

// The colours of weights, at the right edge.
void MapsView::draw_legend() const {
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

void MapsView::record(const Frame& frame, const Maps& maps, const HeatMaps& pictures) {
  copied_[frame.slot].reset();
  if (!pointed_ || pointed_->head >= maps.heads || pointed_->row >= maps.tokens()) return;
  // When the slot is free, a model may have read more tokens. Attention has written the whole row.
  pictures.record_row(frame, maps.row(pointed_->head, pointed_->row), static_cast<int>(maps.row_stride));
  copied_[frame.slot] = Copied{*pointed_, maps.row_stride};
}

}  // namespace window
