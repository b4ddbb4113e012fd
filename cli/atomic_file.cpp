// The temporary file and its renaming.
#include "atomic_file.hpp"

#include <cerrno>
#include <cstring>
#include <random>
#include <system_error>
#include <utility>

namespace vkattn {
namespace {

namespace fs = std::filesystem;

Error io_error(const fs::path& path, const std::string& what) {
  return Error{ErrorCode::kIo, {}, path.string() + ": " + what};
}

std::string last_system_error() {
  return std::strerror(errno);
}  // NOLINT(concurrency-mt-unsafe): one thread

/// The name is short, because a file system allows the target a name of full length.
fs::path temporary_name(std::random_device& random) {
  return "vkattn-" + std::to_string(random()) + ".tmp";
}

}  // namespace

fs::path behind_links(const fs::path& path) {
  constexpr int kMostLinks = 40;  // the kernel has this limit too
  fs::path target = path;
  std::error_code error;
  for (int links = 0; links < kMostLinks && fs::is_symlink(fs::symlink_status(target, error)); ++links) {
    const fs::path next = fs::read_symlink(target, error);
    if (error) break;
    target = target.parent_path() / next;  // an absolute path replaces the folder
  }
  return target;
}

Result<AtomicFile> AtomicFile::create(const fs::path& target) {
  if (target.empty()) return Error{ErrorCode::kInvalidArgument, {}, "the name of the file to write is empty"};
  AtomicFile file;
  file.target_ = target;
  file.resolved_ = behind_links(target);
  std::error_code error;
  const fs::file_status status = fs::status(target, error);
  const bool found = status.type() != fs::file_type::not_found;
  if (found && error) return io_error(target, "cannot be written: " + error.message());
  if (found && !fs::is_regular_file(status)) {
    return io_error(target, "cannot be written: it is not a regular file");
  }
  std::random_device random;
  for (int attempt = 0; attempt < 8; ++attempt) {
    fs::path temporary = file.resolved_.parent_path() / temporary_name(random);
    if (fs::exists(temporary, error)) continue;
    file.on_interrupt_ = RemovedOnInterrupt(temporary);
    // From here on the file is removed on failure. This comes before opening, which needs memory that may be
    // missing.
    file.temporary_ = std::move(temporary);
    errno = 0;
    file.stream_.open(file.temporary_, std::ios::binary | std::ios::trunc);
    if (!file.stream_) return io_error(target, "cannot be written: " + last_system_error());
    // Sets the permissions before the file has contents: only users who may read the old file may read the
    // new one.
    if (found) fs::permissions(file.temporary_, status.permissions() & fs::perms::all, error);
    if (found && error) return io_error(target, "cannot be written: " + error.message());
    return file;
  }
  return io_error(target, "cannot be written: no free name for a temporary file beside it");
}

AtomicFile::AtomicFile(AtomicFile&& other) noexcept
    : target_(std::move(other.target_)),
      resolved_(std::move(other.resolved_)),
      temporary_(std::exchange(other.temporary_, {})),
      on_interrupt_(std::move(other.on_interrupt_)),
      stream_(std::move(other.stream_)) {}

AtomicFile::~AtomicFile() {
  if (temporary_.empty()) return;
  stream_.close();
  std::error_code ignored;
  fs::remove(temporary_, ignored);
}

Result<void> AtomicFile::write(std::span<const std::byte> bytes) {
  errno = 0;
  stream_.write(reinterpret_cast<const char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
  if (!stream_) return io_error(target_, "cannot be written: " + last_system_error());
  return {};
}

Result<void> AtomicFile::commit() {
  errno = 0;
  stream_.close();
  if (!stream_) return io_error(target_, "cannot be written: " + last_system_error());
  std::error_code error;
  fs::rename(temporary_, resolved_, error);
  if (error) return io_error(target_, "cannot be replaced: " + error.message());
  temporary_.clear();
  on_interrupt_.release();
  return {};
}

}  // namespace vkattn
