// Unpacking gzip files (RFC 1952) with one deflate stream (RFC 1951), as the build makes them of shaders.
// Whatever the bytes are, nothing outside of them is read and nothing outside of the output is written.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

namespace vkattn::detail {

/// How many bytes the file says that it unpacks to; nothing where it is no gzip file, or one with a name, a
/// comment or other optional fields, or where so few bytes cannot become so many.
[[nodiscard]] std::optional<std::size_t> unpacked_bytes(std::span<const std::uint8_t> gzip) noexcept;

/// Unpacks the file into exactly `output`. False where it is damaged or of another size: the output is
/// worthless then.
[[nodiscard]] bool unpack(std::span<const std::uint8_t> gzip, std::span<std::uint8_t> output) noexcept;

}  // namespace vkattn::detail
