// Opens every file that a user names for reading. Only regular files are opened: a named pipe without a
// writer would keep the program waiting for ever.
#pragma once

#include <vkattn/result.hpp>

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <string>

namespace vkattn::detail {

/// An open file, at its beginning.
struct InputFile {
  std::ifstream stream;
  std::uintmax_t bytes = 0;  ///< of the file that is open, whatever has its name by now
};

/// Opens a regular file. Errors: there is none of this name (kNotFound); it is a folder, named pipe, device
/// or socket, or it cannot be opened (kIo). Messages give the reason without the name, for the caller's
/// sentence.
[[nodiscard]] Result<InputFile> open_input(const std::filesystem::path& path);

/// Reads a regular file. Further errors: more than `most_bytes` (kInvalidArgument).
[[nodiscard]] Result<std::string> read_input(const std::filesystem::path& path, std::uintmax_t most_bytes);

/// Reads a regular file or a pipe, as shells name the output of a command by one. Further errors: nothing
/// came through the pipe for so long (kIo).
[[nodiscard]] Result<std::string> read_input_or_pipe(
    const std::filesystem::path& path, std::uintmax_t most_bytes,
    std::chrono::milliseconds patience = std::chrono::seconds(10));

}  // namespace vkattn::detail
