// Storage buffers by addresses in place of descriptors.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace vkattn::detail {

/// Where the address of a binding's first byte is: 64 bits of push constants, from a multiple of 8 on. It is
/// added to what a set of the program has there, which is 0 behind the set's own push constants.
struct AddressWord {
  std::uint32_t binding = 0;
  std::uint32_t byte = 0;

  bool operator==(const AddressWord&) const = default;
};

/// Makes a shader reach the storage buffers of these bindings by their addresses
/// (SPV_KHR_physical_storage_buffer). Their descriptors stay declared. Drivers of CPUs check the bounds of
/// each access by a descriptor, asked or not; an address has none. Views of a buffer as elements of 8 or 16
/// bits keep the descriptor, as SPIR-V makes a pointer to such elements only where arithmetic in them is
/// enabled. The addresses lie behind the push constants that the shader declares. False, with the words as
/// they were, where the shader has no such buffers or no push constants, uses matrices, does with a buffer
/// what addresses have no like of, or is of a form that the project's compilers do not make.
[[nodiscard]] bool use_buffer_addresses(std::vector<std::uint32_t>& spirv,
                                        std::span<const AddressWord> addresses);

}  // namespace vkattn::detail
