// Names of files in messages.
#pragma once

#include <filesystem>
#include <string>

namespace vkattn::detail {

#ifdef _WIN32
/// The path in UTF-8. Windows does not check the UTF-16 of names: half of a pair becomes U+FFFD here, where
/// path::u8string() would throw.
[[nodiscard]] inline std::string path_text(const std::filesystem::path& path) {
  const std::wstring& wide = path.native();
  const auto is_in = [&](std::size_t at, wchar_t first, wchar_t last) {
    return at < wide.size() && wide[at] >= first && wide[at] <= last;
  };
  std::string text;
  for (std::size_t i = 0; i < wide.size(); ++i) {
    char32_t code = wide[i];
    if (is_in(i, 0xd800, 0xdbff) && is_in(i + 1, 0xdc00, 0xdfff)) {
      ++i;
      code = 0x10000U + ((code & 0x3ffU) << 10U | (char32_t{wide[i]} & 0x3ffU));
    } else if (is_in(i, 0xd800, 0xdfff)) {
      code = 0xfffd;
    }
    const auto add = [&](char32_t lead, unsigned shift, char32_t mask) {
      text += static_cast<char>(lead | (code >> shift & mask));
    };
    const unsigned more = code < 0x80 ? 0 : code < 0x800 ? 1 : code < 0x10000 ? 2 : 3;
    constexpr char32_t kLeads[] = {0, 0xc0, 0xe0, 0xf0};
    add(kLeads[more], 6 * more, 0x7f);
    for (unsigned left = more; left > 0; --left) add(0x80, 6 * (left - 1), 0x3f);
  }
  return text;
}
#else
/// The path's bytes, unchanged.
[[nodiscard]] inline std::string path_text(const std::filesystem::path& path) {
  return path.native();
}
#endif

}  // namespace vkattn::detail
