#include "decoder/text.hpp"

#include <algorithm>
#include <array>
#include <cstdio>
#include <fstream>
#include <utility>

namespace decoder {

vkattn::Error refusal(const std::string& what) {
  return {vkattn::ErrorCode::kInvalidArgument, 0, what};
}

vkattn::Result<std::string> file_text(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  std::string text;
  for (std::array<char, 1 << 16> piece{}; file;) {
    file.read(piece.data(), piece.size());
    text.append(piece.data(), static_cast<std::size_t>(file.gcount()));
  }
  // A file that was not opened, a folder, or one that could be read in part is not at its end.
  if (!file.eof()) return vkattn::Error{vkattn::ErrorCode::kIo, 0, path.string() + " cannot be read"};
  return text;
}

vkattn::Result<void> check_writable(const std::filesystem::path& path) {
  std::error_code error;
  const bool is_new = !exists(symlink_status(path, error));
  if (!is_new && !is_regular_file(path, error) && !is_directory(path, error)) return {};
  const bool opens = std::ofstream(path, std::ios::app).is_open();
  if (opens && is_new) std::filesystem::remove(path, error);
  if (!opens) return vkattn::Error{vkattn::ErrorCode::kIo, 0, path.string() + " cannot be written"};
  return {};
}

namespace {

// The number of bytes of the text's first character; 0 if the text is not UTF-8. Surrogates, forms that are
// longer than they need be and codes beyond U+10FFFF are not.
std::size_t character_bytes(std::string_view text) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned char first = byte(0);
  const std::size_t bytes = first < 0x80   ? 1
                            : first < 0xc2 ? 0
                            : first < 0xe0 ? 2
                            : first < 0xf0 ? 3
                            : first < 0xf5 ? 4
                                           : 0;
  if (bytes > text.size()) return 0;
  const unsigned least = first == 0xe0 ? 0xa0 : first == 0xf0 ? 0x90 : 0x80;
  const unsigned most = first == 0xed ? 0x9f : first == 0xf4 ? 0x8f : 0xbf;
  if (bytes > 1 && (byte(1) < least || byte(1) > most)) return 0;
  for (std::size_t i = 1; i < bytes; ++i) {
    if ((byte(i) & 0xc0U) != 0x80U) return 0;
  }
  return bytes;
}

}  // namespace

vkattn::Result<std::vector<std::string_view>> characters_of(std::string_view text) {
  std::vector<std::string_view> characters;
  for (std::size_t at = 0; at < text.size(); at += characters.back().size()) {
    characters.push_back(text.substr(at, character_bytes(text.substr(at))));
    if (characters.back().empty()) return refusal("the text is no UTF-8 at its byte " + std::to_string(at));
  }
  return characters;
}

std::string Utf8Stream::add(std::string_view bytes) {
  waiting_ += bytes;
  std::string sound;
  while (!waiting_.empty()) {
    const std::size_t size = character_bytes(waiting_);
    // Bytes that begin a character, however it ends, wait for the others.
    const auto begins_one = [&](const char* more) {
      return character_bytes(waiting_ + more) > waiting_.size();
    };
    if (size == 0 && (begins_one("\x80\x80\x80") || begins_one("\xbf\x80\x80"))) break;
    sound += size == 0 ? "\xef\xbf\xbd" : waiting_.substr(0, size);
    waiting_.erase(0, std::max<std::size_t>(size, 1));
  }
  return sound;
}

std::string Utf8Stream::finish() {
  return std::exchange(waiting_, {}).empty() ? "" : "\xef\xbf\xbd";
}

std::string visible(std::string_view bytes) {
  Utf8Stream stream;
  const std::string text = stream.add(bytes) + stream.finish();
  std::string shown;
  for (const char each : text) {
    std::array<char, 8> code{};
    std::snprintf(code.data(), code.size(), "\\x%02x",
                  static_cast<unsigned>(static_cast<unsigned char>(each)));
    const bool is_control = static_cast<unsigned char>(each) < 0x20 || each == 0x7f;
    shown += each == ' '    ? "\xc2\xb7"
             : each == '\n' ? "\\n"
             : is_control   ? std::string(code.data())
                            : std::string(1, each);
  }
  return shown;
}

}  // namespace decoder
