// Files as texts.
#pragma once

#include <vkattn/result.hpp>

#include <array>
#include <filesystem>
#include <fstream>
#include <string>

namespace decoder {

// Refuses a file that cannot be read.
[[nodiscard]] inline vkattn::Result<std::string> file_text(const std::filesystem::path& path) {
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

}  // namespace decoder
