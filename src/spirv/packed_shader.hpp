// Shaders as the build packs them: a gzip file of the differences between a module's words, or of the words
// themselves where the build could not run what makes the differences.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace vkattn::detail {

/// A module's words. Nothing where the file is damaged.
[[nodiscard]] std::optional<std::vector<std::uint32_t>> unpacked_words(std::span<const std::uint8_t> gzip);

}  // namespace vkattn::detail
