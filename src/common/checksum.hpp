// A checksum of kept bytes. It finds torn files, not forged ones.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace vkattn::detail {

/// FNV-1a, 64 bits (Fowler, Noll and Vo).
[[nodiscard]] inline std::uint64_t checksum(std::span<const std::byte> data) noexcept {
  std::uint64_t hash = 0xcbf29ce484222325ULL;
  for (const std::byte byte : data) hash = (hash ^ std::to_integer<std::uint64_t>(byte)) * 0x100000001b3ULL;
  return hash;
}

}  // namespace vkattn::detail
