// Opening files for reading: see input_file.hpp.
#include "runtime/input_file.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstddef>
#include <system_error>
#include <utility>

#include "common/message.hpp"

#ifndef _WIN32
#include <fcntl.h>
#include <poll.h>
#include <unistd.h>
#endif

namespace vkattn::detail {

namespace {

namespace fs = std::filesystem;

Error unreadable(std::string reason) {
  return {ErrorCode::kIo, VK_SUCCESS, std::move(reason)};
}

Error too_large(std::uintmax_t most_bytes) {
  return invalid("it has more than ", most_bytes, " bytes, the most that are read");
}

// Empty if the file may be opened.
std::string_view other_kind(fs::file_type type) {
  switch (type) {
    case fs::file_type::regular:
      return {};
    case fs::file_type::directory:
      return "this is a folder, not a regular file";
    case fs::file_type::fifo:
      return "this is a named pipe, not a regular file";
    case fs::file_type::block:
    case fs::file_type::character:
      return "this is a device, not a regular file";
    case fs::file_type::socket:
      return "this is a socket, not a regular file";
    default:
      return "this is not a regular file";
  }
}

#ifndef _WIN32
// A pipe that is opened without waiting for a writer.
class Pipe {
 public:
  explicit Pipe(const fs::path& path) : file_(::open(path.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC)) {}
  Pipe(const Pipe&) = delete;
  Pipe& operator=(const Pipe&) = delete;
  ~Pipe() {
    if (file_ != -1) (void)::close(file_);
  }

  // Adds the bytes that have come to `text`; false at the end.
  Result<bool> read_into(std::string& text, std::chrono::milliseconds patience) const {
    std::array<char, 65536> piece{};
    if (file_ == -1) return unreadable(std::generic_category().message(errno));
    pollfd waiting{file_, POLLIN, 0};
    const int ready = ::poll(&waiting, 1, static_cast<int>(patience.count()));
    if (ready == 0) {
      return unreadable(message("nothing has come through this pipe for ", patience.count(),
                                " ms; have a program write to it, or give a regular file"));
    }
    const ssize_t bytes = ::read(file_, piece.data(), piece.size());
    if (bytes < 0 && errno != EINTR && errno != EAGAIN) {
      return unreadable(std::generic_category().message(errno));
    }
    text.append(piece.data(), static_cast<std::size_t>(std::max<ssize_t>(bytes, 0)));
    return bytes != 0;
  }

 private:
  int file_;
};
#endif

}  // namespace

Result<InputFile> open_input(const fs::path& path) {
  std::error_code error;
  // Checked first, as opening a named pipe waits for a writer.
  const fs::file_type type = fs::status(path, error).type();
  if (type == fs::file_type::not_found)
    return Error{ErrorCode::kNotFound, VK_SUCCESS, "there is no such file"};
  if (type == fs::file_type::none) return unreadable(error.message());
  if (const std::string_view kind = other_kind(type); !kind.empty()) return unreadable(std::string(kind));
  InputFile file;
  errno = 0;
  file.stream.open(path, std::ios::binary | std::ios::ate);
  const auto bytes = static_cast<std::streamoff>(file.stream.tellg());
  if (!file.stream.is_open() || bytes < 0) {
    return unreadable(errno != 0 ? std::generic_category().message(errno) : "the file cannot be opened");
  }
  file.bytes = static_cast<std::uintmax_t>(bytes);
  file.stream.seekg(0);
  return file;
}

Result<std::string> read_input(const fs::path& path, std::uintmax_t most_bytes) {
  auto file = open_input(path);
  if (!file) return file.error();
  if (file->bytes > most_bytes) return too_large(most_bytes);
  std::string text(static_cast<std::size_t>(file->bytes), '\0');
  file->stream.read(text.data(), static_cast<std::streamsize>(text.size()));
  if (!file->stream) return unreadable("the file became shorter while it was read");
  return text;
}

Result<std::string> read_input_or_pipe(const fs::path& path, std::uintmax_t most_bytes,
                                       [[maybe_unused]] std::chrono::milliseconds patience) {
#ifndef _WIN32
  std::error_code error;
  if (fs::status(path, error).type() == fs::file_type::fifo) {
    const Pipe pipe(path);
    std::string text;
    for (bool more = true; more;) {
      auto came = pipe.read_into(text, patience);
      if (!came) return came.error();
      more = *came;
      if (text.size() > most_bytes) return too_large(most_bytes);
    }
    return text;
  }
#endif
  return read_input(path, most_bytes);
}

}  // namespace vkattn::detail
