// Block sizes as texts of names and numbers, whatever the structure that holds them.
#pragma once

#include <vkattn/result.hpp>

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <string>
#include <string_view>

#include "common/message.hpp"

namespace vkattn::detail {

/// "threads 256, rows 4": what is not 0. for_each(sizes, visit) calls visit(name, size) for each size.
template <class Sizes, class ForEach>
std::string sizes_text(const Sizes& sizes, const ForEach& for_each) {
  std::string text;
  for_each(sizes, [&](const char* name, std::uint32_t size) {
    if (size != 0) text += message(text.empty() ? "" : ", ", name, " ", size);
  });
  return text.empty() ? "none" : text;
}

/// Reads that again; '=' may stand for a blank, and a comma's blank may be left out. `example` is for
/// messages.
template <class Sizes, class ForEach>
Result<Sizes> parse_sizes(std::string_view text, std::string_view example, const ForEach& for_each) {
  const auto wrong = [&](auto&&... parts) { return invalid(parts..., "; block sizes read like ", example); };
  Sizes sizes;
  Sizes seen;
  for (std::string_view left = text; !left.empty();) {
    std::string_view entry = left.substr(0, left.find(','));
    left.remove_prefix(std::min(entry.size() + 1, left.size()));
    entry.remove_prefix(std::min(entry.find_first_not_of(' '), entry.size()));
    const std::size_t middle = std::min(entry.find_first_of("= "), entry.size());
    const std::string_view name = entry.substr(0, middle);
    const std::string_view digits = entry.substr(std::min(middle + 1, entry.size()));
    std::uint32_t size = 0;
    const auto [end, code] = std::from_chars(digits.data(), digits.data() + digits.size(), size);
    if (code != std::errc() || end != digits.data() + digits.size()) {
      return wrong("'", entry, "' is no name and whole number");
    }
    bool is_known = false, is_first = false;
    for_each(seen, [&](const char* known, std::uint32_t& count) {
      if (name == known) is_known = true, is_first = ++count == 1;
    });
    if (!is_known) return wrong("there is no block size '", name, "'");
    if (!is_first) return wrong("'", name, "' is given twice");
    for_each(sizes, [&](const char* known, std::uint32_t& target) {
      if (name == known) target = size;
    });
  }
  return sizes;
}

}  // namespace vkattn::detail
