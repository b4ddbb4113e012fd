// Reads lengths of batch entries and of packed sequences from .npy files.
#pragma once

#include <vkattn/result.hpp>

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace vkattn::npy {

/// One length for each batch entry, from 0 to `most`, the length of `of_what`. `option` is the option that
/// named the file. Every error is one sentence that begins with the path.
[[nodiscard]] Result<std::vector<std::int32_t>> read_lengths(const std::filesystem::path& path,
                                                             const std::string& option, std::int64_t batch,
                                                             std::int64_t most, const std::string& of_what);

/// The start of each packed sequence, and the end of the last one. There is one number more than sequences.
/// The first is 0, and none is below the number before it.
[[nodiscard]] Result<std::vector<std::int32_t>> read_cumulative_lengths(const std::filesystem::path& path,
                                                                        const std::string& option);

/// The length of each sequence.
[[nodiscard]] std::vector<std::int32_t> lengths_of(const std::vector<std::int32_t>& cumulative);

/// The largest length; 0 if there are none.
[[nodiscard]] std::int64_t longest(const std::vector<std::int32_t>& lengths);

}  // namespace vkattn::npy
