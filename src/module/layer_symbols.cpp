// Symbols of a layer's tensors: see layer_symbols.hpp.
#include "module/layer_symbols.hpp"

#include <bit>

namespace vkattn::detail {

namespace {

static_assert(sizeof(VkBuffer) == sizeof(std::uint64_t));

constexpr VkDeviceSize kAny = VkDeviceSize{1} << 62;

}  // namespace

BufferRange symbol(std::uint64_t number) {
  return {std::bit_cast<VkBuffer>(number + 1), 0, kAny};
}

std::uint64_t number_of(const BufferRange& symbol) {
  return std::bit_cast<std::uint64_t>(symbol.buffer) - 1;
}

BufferRange behind(const BufferRange& symbol, VkDeviceSize bytes) {
  return {symbol.buffer, symbol.offset + bytes, symbol.size - bytes};
}

BufferRange part_of(const BufferRange& symbol, const Piece& piece) {
  return {symbol.buffer, symbol.offset + piece.byte, piece.bytes};
}

bool has_end(const BufferRange& symbol) {
  return symbol.size < kAny / 2;
}

}  // namespace vkattn::detail
