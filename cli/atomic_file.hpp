// A file that appears whole or not at all: written beside its target under another name, then renamed over
// it. Where an interrupt ends the program before, nothing is left of it.
#pragma once

#include <vkattn/result.hpp>

#include <cstddef>
#include <filesystem>
#include <fstream>
#include <span>
#include <string_view>

#include "on_interrupt.hpp"

namespace vkattn {

/// What a path leads to, be it there or not; of links in a circle one of them.
[[nodiscard]] std::filesystem::path behind_links(const std::filesystem::path& path);

class AtomicFile {
 public:
  /// Opens the temporary file, so that a folder that is not there or not writable is found before any work. A
  /// symbolic link is followed, also where its target is yet to be made; a target that is there and is no
  /// regular file is refused, and else keeps its permissions.
  [[nodiscard]] static Result<AtomicFile> create(const std::filesystem::path& target);

  AtomicFile(AtomicFile&& other) noexcept;
  AtomicFile& operator=(AtomicFile&&) = delete;
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;
  /// Removes the temporary file where commit() was not reached.
  ~AtomicFile();

  [[nodiscard]] Result<void> write(std::span<const std::byte> bytes);
  [[nodiscard]] Result<void> write(std::string_view text) { return write(std::as_bytes(std::span(text))); }
  /// Closes the file and gives it its name.
  [[nodiscard]] Result<void> commit();

  /// As given to create().
  [[nodiscard]] const std::filesystem::path& target() const { return target_; }
  /// What commit() writes: the target behind its links.
  [[nodiscard]] const std::filesystem::path& resolved() const { return resolved_; }

 private:
  AtomicFile() = default;
  std::filesystem::path target_;
  std::filesystem::path resolved_;   ///< the target behind a symbolic link
  std::filesystem::path temporary_;  ///< empty once renamed or moved from
  RemovedOnInterrupt on_interrupt_;  ///< of the temporary file
  std::ofstream stream_;
};

}  // namespace vkattn
