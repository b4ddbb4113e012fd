// Addresses in the push constants of kernels for CPU implementations.
#pragma once

#include <vkattn/capabilities.hpp>

#include <cstddef>
#include <cstdint>

namespace vkattn::detail {

/// An address that a kernel's shader has in its push constants, behind the parameters: that of a binding's
/// first byte (of its tiles' own parts in the workspace, if the binding is of attention's partial results),
/// less a number.
struct OwnAddress {
  std::uint32_t binding = 0;
  std::uint64_t bytes_back = 0;

  bool operator==(const OwnAddress&) const = default;
};

/// Lanes of the subgroups that kernels by vectors at addresses take, and elements of their vectors.
inline constexpr std::uint32_t kVectorLanes = 8;

/// Whether a CPU implementation has the forms with 64-bit loads (`_wide`).
[[nodiscard]] inline bool loads_wide(const Capabilities& capabilities) {
  return capabilities.is_cpu() && capabilities.shader_int64 && capabilities.storage_buffer_16bit;
}

/// CPU implementations that gain from long steps of lane and from lane_decode: lavapipe from Mesa 25 on.
[[nodiscard]] inline bool takes_long_steps(const Capabilities& capabilities) {
  return loads_wide(capabilities) && capabilities.max_loop_iterations == 0;
}

/// Whether kernels of such implementations reach buffers by so many addresses, which go behind so many bytes
/// of push constants.
[[nodiscard]] inline bool reads_by_address(const Capabilities& capabilities, std::size_t addresses,
                                           std::size_t params_bytes) {
  constexpr std::size_t kAddress = sizeof(std::uint64_t);
  const std::size_t bytes = (params_bytes + kAddress - 1) / kAddress * kAddress + addresses * kAddress;
  return takes_long_steps(capabilities) && capabilities.buffer_addresses &&
         capabilities.max_push_constants_bytes >= bytes;
}

/// The same device for kernels that are to have descriptors alone.
[[nodiscard]] inline Capabilities without_addresses(Capabilities capabilities) {
  capabilities.buffer_addresses = false;
  return capabilities;
}

}  // namespace vkattn::detail
