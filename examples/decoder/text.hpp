// Files and texts.
#pragma once

#include <vkattn/result.hpp>

#include <cstddef>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace decoder {

// The error of a wrong input.
[[nodiscard]] vkattn::Error refusal(const std::string& what);

// Refuses a file that cannot be read.
[[nodiscard]] vkattn::Result<std::string> file_text(const std::filesystem::path& path);

// Refuses a file that cannot be written, before there is anything to write. Changes nothing. Pipes, devices
// and links that lead nowhere are not tried.
[[nodiscard]] vkattn::Result<void> check_writable(const std::filesystem::path& path);

// Refuses a text that is not UTF-8.
[[nodiscard]] vkattn::Result<std::vector<std::string_view>> characters_of(std::string_view text);

// Text that is printed as it comes: whole characters, with U+FFFD for bytes that are none.
class Utf8Stream {
 public:
  // What can be printed of everything so far.
  [[nodiscard]] std::string add(std::string_view bytes);
  // The rest.
  [[nodiscard]] std::string finish();

 private:
  std::string waiting_;
};

// A text on one line of a picture: a dot for spaces, \n and \x0d for control characters, U+FFFD for bytes
// that are no character.
[[nodiscard]] std::string visible(std::string_view bytes);

}  // namespace decoder
