// How every file that a user names is opened for reading: only regular ones, as a named pipe that nobody
// writes to would keep the program waiting for ever.
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

/// Opens a regular file. Errors: there is none of this name (kNotFound), it is a folder, named pipe, device
/// or socket, or it cannot be opened (kIo). Messages are the reason without the name, for a sentence of the
/// caller's.
[[nodiscard]] Result<InputFile> open_input(const std::filesystem::path& path);

/// All of a regular file. Errors besides: more than `most_bytes` (kInvalidArgument).
[[nodiscard]] Result<std::string> read_input(const std::filesystem::path& path, std::uintmax_t most_bytes);

/// Likewise, and where it is a pipe all that comes through it: shells name the output of a command by one.
/// Errors besides: nothing came for so long, from a program that is there or not (kIo).
[[nodiscard]] Result<std::string> read_input_or_pipe(
    const std::filesystem::path& path, std::uintmax_t most_bytes,
    std::chrono::milliseconds patience = std::chrono::seconds(10));

}  // namespace vkattn::detail
