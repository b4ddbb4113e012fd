// The header of a safetensors file, a JSON object:
//   {"__metadata__": {"format": "pt"},
//    "NAME": {"dtype": "F32", "shape": [2, 3], "data_offsets": [0, 24]}, …}
// It stands behind its length, 8 bytes, least first; spaces may follow it. The data begin where it ends.
#pragma once

#include <vkattn/safetensors.hpp>

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace vkattn::detail {

struct SafetensorsHeader {
  std::vector<StoredTensor> tensors;  ///< in the order of their bytes
  std::map<std::string, std::string> metadata;
};

/// Checks all of it, for a file with so many bytes of data. The error is a sentence without the file's name.
[[nodiscard]] Result<SafetensorsHeader> parse_safetensors_header(std::string_view text,
                                                                 std::uint64_t data_bytes);

/// The text for tensors in this order, their bytes one after the other, with spaces up to a multiple of 8.
/// Text that is not UTF-8 changes.
[[nodiscard]] std::string safetensors_header_text(std::span<const StoredTensor> tensors,
                                                  const std::map<std::string, std::string>& metadata);

/// (2, 3), as Python prints it.
[[nodiscard]] std::string shape_text(std::span<const std::int64_t> shape);

/// Elements times their size; nothing where the product does not fit 63 bits or a size is negative.
[[nodiscard]] std::optional<std::uint64_t> stored_bytes(StoredType type, std::span<const std::int64_t> shape);

}  // namespace vkattn::detail
