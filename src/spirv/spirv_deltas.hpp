// SPIR-V as the differences between its words, one after the other in as few bytes as each takes: gzip makes
// half as much of these as of the words. Both ends are here; the build packs, the library unpacks.
//
// A number is written seven bits a byte, the lowest first, with bit 7 where more follow. First is how many
// words there are, then those of the header, then of each instruction its opcode, its length in words, and
// its operands: 0 for the id behind the greatest so far, as most new ids are; else one more than the zigzag
// of its difference to the operand of the same place in the last instruction of the same opcode.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace vkattn::detail {

/// A module's words of a file that has the lowest byte of each first, as all of the build's tools write them.
[[nodiscard]] std::vector<std::uint32_t> little_endian_words(std::span<const std::uint8_t> bytes);

/// The differences of a module whose instructions fill it exactly; nothing for other words.
[[nodiscard]] std::optional<std::vector<std::uint8_t>> spirv_deltas(std::span<const std::uint32_t> module);

/// The words that were packed. Nothing where the bytes are not those of a module: whatever they are, nothing
/// outside of them is read, and no more words are made than there are bytes.
[[nodiscard]] std::optional<std::vector<std::uint32_t>> spirv_of_deltas(std::span<const std::uint8_t> bytes);

}  // namespace vkattn::detail
