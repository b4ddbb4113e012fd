// JSON as a tree of values, read and written with nlohmann's library. The library's own trees need memory to
// be destroyed, and end the program if there is none.
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

namespace vkattn::detail {

struct Json {
  using Array = std::vector<Json>;
  /// In the order of the text. If a name occurs twice, the last one counts.
  using Object = std::vector<std::pair<std::string, Json>>;

  /// Whole numbers are unsigned from 0 on.
  std::variant<std::nullptr_t, bool, std::int64_t, std::uint64_t, double, std::string, Array, Object> value;

  Json() = default;
  Json(Json&&) noexcept = default;
  Json& operator=(Json&&) noexcept = default;
  /// Not variant's own copies: if memory runs out in one, libstdc++'s destroys a value that it has not made.
  /// @{
  Json(const Json& other) {
    std::visit([&](const auto& its) { value = its; }, other.value);
  }
  Json& operator=(const Json& other) { return *this = Json(other); }
  /// @}
  ~Json() = default;
  // Values of C++ are values of JSON.
  Json(double number) : value(number) {}                     // NOLINT
  Json(std::string text) : value(std::move(text)) {}         // NOLINT
  Json(std::string_view text) : value(std::string(text)) {}  // NOLINT
  Json(Array items) : value(std::move(items)) {}             // NOLINT
  Json(Object members) : value(std::move(members)) {}        // NOLINT
  template <std::integral T>
  Json(T number) {  // NOLINT
    if constexpr (std::same_as<T, bool>) {
      value = number;
    } else if (number < 0) {
      value = static_cast<std::int64_t>(number);
    } else {
      value = static_cast<std::uint64_t>(number);
    }
  }

  /// Null if the value is of another kind.
  template <class T>
  [[nodiscard]] const T* as() const {
    return std::get_if<T>(&value);
  }
  /// Null if there is none, or this is no object.
  [[nodiscard]] const Json* member(std::string_view name) const;
};

/// Nothing if the text is no JSON, or is nested deeper.
[[nodiscard]] std::optional<Json> parse_json(std::string_view text, std::size_t most_depth);

/// Indented by two blanks a level. Bytes that are not UTF-8 are replaced.
[[nodiscard]] std::string to_text(const Json& json);

/// A text in quotes, with what JSON escapes.
[[nodiscard]] std::string json_quoted(const std::string& text);

}  // namespace vkattn::detail
