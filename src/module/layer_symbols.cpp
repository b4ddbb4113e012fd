// Symbols of a layer's tensors: see layer_symbols.hpp.
#include "module/layer_symbols.hpp"

#include <bit>

namespace vkattn::detail {

namespace {

static_assert(sizeof(VkBuffer) == sizeof(std::uint64_t));

}  // namespace

BufferRange symbol(std::uint64_t number) {
  constexpr VkDeviceSize kAny = VkDeviceSize{1} << 62;
  return {std::bit_cast<VkBuffer>(number + 1), 0, kAny};
}

std::uint64_t number_of(const BufferRange& symbol) {
  return std::bit_cast<std::uint64_t>(symbol.buffer) - 1;
}

BufferRange behind(const BufferRange& symbol, VkDeviceSize bytes) {
  return {symbol.buffer, symbol.offset + bytes, symbol.size - bytes};
}

}  // namespace vkattn::detail
