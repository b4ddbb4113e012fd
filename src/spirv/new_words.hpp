// Instructions that are added to a SPIR-V module.
#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <string_view>
#include <vector>

#include "spirv/spirv_ops.hpp"

namespace vkattn::detail {

/// Words of a module, or of a part of one.
using SpirvWords = std::vector<std::uint32_t>;

/// Appends an instruction.
inline void add_instruction(SpirvWords& words, std::uint32_t op,
                            std::initializer_list<std::uint32_t> operands) {
  words.push_back(static_cast<std::uint32_t>(operands.size() + 1) << 16U | op);
  words.insert(words.end(), operands);
}

/// Appends the declaration of an extension.
inline void add_extension(SpirvWords& words, std::string_view name) {
  const std::size_t length = name.size() / 4 + 1;  // with a zero at the end
  words.push_back(static_cast<std::uint32_t>(length + 1) << 16U | spirv_op::kExtension);
  const std::size_t begin = words.size();
  words.resize(begin + length);
  for (std::size_t i = 0; i < name.size(); ++i) {
    words[begin + i / 4] |= static_cast<std::uint32_t>(static_cast<unsigned char>(name[i])) << i % 4 * 8;
  }
}

}  // namespace vkattn::detail
