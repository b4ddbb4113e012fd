// Counts what a program allocates by replacing the global operator new. A program links this file to count.
#pragma once

#include <cstdint>
#include <optional>

namespace vkattn::bench {

/// The number of calls of operator new by this thread so far, including calls from shared libraries that use
/// the program's operator. Empty in builds with a sanitizer, which keep the sanitizer's operator new.
[[nodiscard]] std::optional<std::uint64_t> allocations_of_this_thread() noexcept;

}  // namespace vkattn::bench
