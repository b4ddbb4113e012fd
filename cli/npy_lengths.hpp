// Lengths of batch entries and of packed sequences from .npy files.
#pragma once

#include <vkattn/result.hpp>

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace vkattn::npy {

/// One length for each batch entry, from 0 to `most`, the length of `of_what`. `option` is what named the
/// file. Every error is one sentence that begins with the path.
[[nodiscard]] Result<std::vector<std::int32_t>> read_lengths(const std::filesystem::path& path,
                                                             const std::string& option, std::int64_t batch,
                                                             std::int64_t most, const std::string& of_what);

/// Where each packed sequence begins, and where the last one ends: one number more than there are sequences,
/// 0 at first, none below the one before it.
[[nodiscard]] Result<std::vector<std::int32_t>> read_cumulative_lengths(const std::filesystem::path& path,
                                                                        const std::string& option);

/// The lengths between them.
[[nodiscard]] std::vector<std::int32_t> lengths_of(const std::vector<std::int32_t>& cumulative);

/// The largest; 0 where there are none.
[[nodiscard]] std::int64_t longest(const std::vector<std::int32_t>& lengths);

}  // namespace vkattn::npy
