// Files that the runtime keeps: see files.hpp.
#include "runtime/files.hpp"

#include <cerrno>
#include <cstdlib>
#include <fstream>
#include <random>
#include <thread>

#ifdef _WIN32
#define WIN32_LEAN_AND_MEAN
#ifndef NOMINMAX  // libstdc++ for Windows defines it too
#define NOMINMAX
#endif
#include <windows.h>
#else
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>
#endif

#include "common/message.hpp"
#include "common/path_text.hpp"

namespace vkattn::detail {

std::filesystem::path environment_path(const char* name) {
#ifdef _WIN32
  // The narrow environment lacks the letters that are not in the system's code page.
  const std::string_view narrow = name;  // ASCII
  const wchar_t* value = _wgetenv(std::wstring(narrow.begin(), narrow.end()).c_str());
  return value != nullptr ? value : L"";
#else
  const char* value = std::getenv(name);  // NOLINT(concurrency-mt-unsafe): read once, at start-up
  return value != nullptr ? value : "";
#endif
}

std::filesystem::path cache_directory(const RuntimeOptions& options) {
  if (!options.cache_dir.empty()) return options.cache_dir;
  if (auto path = environment_path("VKATTN_CACHE_DIR"); !path.empty()) return path;
  if (auto path = environment_path("XDG_CACHE_HOME"); !path.empty()) return path / "vkattn";
#ifdef _WIN32
  if (auto path = environment_path("LOCALAPPDATA"); !path.empty()) return path / "vkattn" / "cache";
#endif
  if (auto path = environment_path("HOME"); !path.empty()) return path / ".cache" / "vkattn";
  return {};
}

std::string device_file_name(std::string_view stem, const VkPhysicalDeviceProperties& properties,
                             std::string_view suffix) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::string uuid;
  for (std::uint8_t byte : properties.pipelineCacheUUID) {
    uuid += kDigits[byte >> 4U];
    uuid += kDigits[byte & 15U];
  }
  return message(stem, "-", MessagePart::hex(properties.vendorID), "-", MessagePart::hex(properties.deviceID),
                 "-", uuid, suffix);
}

namespace {

/// A name of a temporary file, which is removed at the end in any case: opening a file may fail too.
class TemporaryName {
 public:
  // Not the process's number: another thread may write the same file, and containers count processes anew.
  explicit TemporaryName(const std::filesystem::path& path) : path_(path) {
    std::random_device random;
    path_ += message(".", MessagePart::hex(random()), MessagePart::hex(random()), ".tmp");
  }
  TemporaryName(const TemporaryName&) = delete;
  TemporaryName& operator=(const TemporaryName&) = delete;
  ~TemporaryName() {
    std::error_code ignored;  // where it was renamed too
    std::filesystem::remove(path_, ignored);
  }
  [[nodiscard]] const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

}  // namespace

Result<void> replace_file(const std::filesystem::path& path, std::span<const std::string_view> pieces) {
  std::error_code error;
  std::filesystem::create_directories(path.parent_path(), error);
  const TemporaryName temporary(path);
  std::ofstream file(temporary.path(), std::ios::binary | std::ios::trunc);
  for (std::string_view piece : pieces) file.write(piece.data(), static_cast<std::streamsize>(piece.size()));
  file.close();
  if (file.good()) std::filesystem::rename(temporary.path(), path, error);
  if (file.good() && !error) return {};
  return Error{ErrorCode::kIo, VK_SUCCESS, message("the file ", path_text(path), " cannot be written")};
}

namespace {

// Beside the file, and short enough if the file's name is as long as names can be.
std::filesystem::path lock_of(const std::filesystem::path& path) {
  constexpr std::size_t kMostCharacters = 200;
  std::filesystem::path lock = path.parent_path() / "lock-";
  lock += path.filename().native().substr(0, kMostCharacters);
  return lock;
}

}  // namespace

#ifdef _WIN32
// Opened without sharing, so nobody else can open it.
FileLock::Status FileLock::try_once() {
  const HANDLE file =
      CreateFileW(lock_.c_str(), GENERIC_WRITE, 0, nullptr, OPEN_ALWAYS, FILE_ATTRIBUTE_NORMAL, nullptr);
  if (file == INVALID_HANDLE_VALUE)
    return GetLastError() == ERROR_SHARING_VIOLATION ? Status::kBusy : Status::kImpossible;
  file_ = reinterpret_cast<std::intptr_t>(file);
  return Status::kTaken;
}

FileLock::~FileLock() {
  if (file_ != -1) (void)CloseHandle(reinterpret_cast<HANDLE>(file_));
}
#else
FileLock::Status FileLock::try_once() {
  // Without O_NONBLOCK a named pipe of this name would be waited for.
  const int file = ::open(lock_.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC | O_NONBLOCK, 0666);
  if (file == -1) return Status::kImpossible;
  if (::flock(file, LOCK_EX | LOCK_NB) == 0) {
    // The earlier owner may have removed the file between the two calls, and another program may have made a
    // new one.
    struct stat locked {};
    struct stat named {};
    if (::fstat(file, &locked) == 0 && ::stat(lock_.c_str(), &named) == 0 && locked.st_dev == named.st_dev &&
        locked.st_ino == named.st_ino) {
      file_ = file;
      return Status::kTaken;
    }
    (void)::close(file);
    return Status::kBusy;
  }
  const bool busy = errno == EWOULDBLOCK;
  (void)::close(file);
  return busy ? Status::kBusy : Status::kImpossible;
}

FileLock::~FileLock() {
  if (file_ == -1) return;
  (void)::unlink(lock_.c_str());  // before others can have it
  (void)::close(static_cast<int>(file_));
}
#endif

FileLock::Status FileLock::take(const std::filesystem::path& path, std::chrono::milliseconds timeout) {
  std::error_code error;
  std::filesystem::create_directories(path.parent_path(), error);
  lock_ = lock_of(path);
  const auto end = std::chrono::steady_clock::now() + timeout;
  for (;;) {
    const Status status = try_once();
    if (status != Status::kBusy || std::chrono::steady_clock::now() >= end) return status;
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
}

}  // namespace vkattn::detail
