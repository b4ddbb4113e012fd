// See json.hpp.
#include "runtime/json.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <type_traits>

#include "common/message.hpp"

namespace vkattn::detail {

namespace {

/// Builds a tree from the events of nlohmann's parser.
class JsonBuilder {
 public:
  explicit JsonBuilder(std::size_t most_depth) : most_depth_(most_depth) {}

  Json root;

  bool null() { return add(Json()); }
  bool boolean(bool value) { return add(value); }
  bool number_integer(std::int64_t value) { return add(value); }
  bool number_unsigned(std::uint64_t value) { return add(value); }
  bool number_float(double value, const std::string& /*text*/) { return add(value); }
  bool string(std::string& value) { return add(std::move(value)); }
  bool binary(nlohmann::json::binary_t& /*value*/) { return false; }
  bool start_object(std::size_t /*members*/) { return open(Json::Object()); }
  bool start_array(std::size_t /*items*/) { return open(Json::Array()); }
  bool end_object() { return close(); }
  bool end_array() { return close(); }
  bool key(std::string& name) {
    std::get<Json::Object>(open_.back()->value).emplace_back(std::move(name), Json());
    return true;
  }
  template <class Failure>
  bool parse_error(std::size_t /*byte*/, const std::string& /*token*/, const Failure& /*failure*/) {
    return false;
  }

 private:
  // The place of the next value. Nothing is added around it before it is whole.
  Json& place() {
    if (open_.empty()) return root;
    if (auto* const items = std::get_if<Json::Array>(&open_.back()->value)) return items->emplace_back();
    return std::get<Json::Object>(open_.back()->value).back().second;
  }
  bool add(Json value) {
    place() = std::move(value);
    return true;
  }
  bool open(Json value) {
    if (open_.size() >= most_depth_) return false;
    Json& here = place();
    here = std::move(value);
    open_.push_back(&here);
    return true;
  }
  bool close() {
    open_.pop_back();
    return true;
  }

  std::size_t most_depth_;
  std::vector<Json*> open_;  ///< arrays and objects that are not at their end
};

void write_json(const Json& json, const std::string& indent, std::string& text) {
  const auto write_list = [&](const auto& list, char begin, char end, const auto& write_item) {
    text += begin;
    const std::string inner = indent + "  ";
    for (std::size_t i = 0; i < list.size(); ++i) {
      text += (i == 0 ? "\n" : ",\n") + inner;
      write_item(list[i], inner);
    }
    if (!list.empty()) text += "\n" + indent;
    text += end;
  };
  std::visit(
      [&](const auto& value) {
        using T = std::decay_t<decltype(value)>;
        if constexpr (std::is_same_v<T, std::nullptr_t>) {
          text += "null";
        } else if constexpr (std::is_same_v<T, bool>) {
          text += value ? "true" : "false";
        } else if constexpr (std::is_same_v<T, double>) {
          text += nlohmann::json(value).dump();
        } else if constexpr (std::is_same_v<T, std::string>) {
          text += json_quoted(value);
        } else if constexpr (std::is_same_v<T, Json::Array>) {
          write_list(value, '[', ']',
                     [&](const Json& item, const std::string& inner) { write_json(item, inner, text); });
        } else if constexpr (std::is_same_v<T, Json::Object>) {
          write_list(value, '{', '}', [&](const auto& member, const std::string& inner) {
            text += json_quoted(member.first) + ": ";
            write_json(member.second, inner, text);
          });
        } else {
          text += message(value);
        }
      },
      json.value);
}

}  // namespace

const Json* Json::member(std::string_view name) const {
  const Object* const members = as<Object>();
  if (members == nullptr) return nullptr;
  const auto found = std::find_if(members->rbegin(), members->rend(),
                                  [&](const auto& member) { return member.first == name; });
  return found != members->rend() ? &found->second : nullptr;
}

std::optional<Json> parse_json(std::string_view text, std::size_t most_depth) {
  JsonBuilder builder(most_depth);
  if (!nlohmann::json::sax_parse(text.begin(), text.end(), &builder)) return std::nullopt;
  return std::move(builder.root);
}

std::string to_text(const Json& json) {
  std::string text;
  write_json(json, "", text);
  return text;
}

std::string json_quoted(const std::string& text) {
  const nlohmann::json json = text;
  return json.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

}  // namespace vkattn::detail
