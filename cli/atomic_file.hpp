// A file that appears whole or not at all: it is written under another name beside its target, and then
// renamed. If an interrupt ends the program before, no file stays.
#pragma once

#include <vkattn/result.hpp>

#include <cstddef>
#include <filesystem>
#include <fstream>
#include <span>
#include <string_view>

#include "on_interrupt.hpp"

namespace vkattn {

/// The end of a path's symbolic links, whether it exists or not. If links form a circle, one of them.
[[nodiscard]] std::filesystem::path behind_links(const std::filesystem::path& path);

class AtomicFile {
 public:
  /// Opens the temporary file, so that a missing or read-only folder is found before any work. A symbolic
  /// link is followed, even if its target does not exist yet. An existing target must be a regular file, and
  /// its permissions stay.
  [[nodiscard]] static Result<AtomicFile> create(const std::filesystem::path& target);

  AtomicFile(AtomicFile&& other) noexcept;
  AtomicFile& operator=(AtomicFile&&) = delete;
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;
  /// Removes the temporary file if commit() was not reached.
  ~AtomicFile();

  [[nodiscard]] Result<void> write(std::span<const std::byte> bytes);
  [[nodiscard]] Result<void> write(std::string_view text) { return write(std::as_bytes(std::span(text))); }
  /// Closes the file and renames it to the target.
  [[nodiscard]] Result<void> commit();

  /// The path that create() was given.
  [[nodiscard]] const std::filesystem::path& target() const { return target_; }
  /// The path that commit() writes: the end of the target's symbolic links.
  [[nodiscard]] const std::filesystem::path& resolved() const { return resolved_; }

 private:
  AtomicFile() = default;
  std::filesystem::path target_;
  std::filesystem::path resolved_;   ///< the end of the target's symbolic links
  std::filesystem::path temporary_;  ///< empty after it was renamed or moved from
  RemovedOnInterrupt on_interrupt_;  ///< for the temporary file
  std::ofstream stream_;
};

}  // namespace vkattn
