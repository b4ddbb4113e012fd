// Counts what a program allocates, by replacing the global operator new: link this file into a program to
// have that.
#pragma once

#include <cstdint>
#include <optional>

namespace vkattn::bench {

/// Calls of operator new by this thread so far, those of shared libraries that use the program's included;
/// none in builds with a sanitizer, which keep the sanitizer's operator new.
[[nodiscard]] std::optional<std::uint64_t> allocations_of_this_thread() noexcept;

}  // namespace vkattn::bench
