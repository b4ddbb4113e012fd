// From the addresses that a kernel's shader declares itself to push constants, behind the parameters.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "common/integers.hpp"
#include "kernels/own_address.hpp"
#include "program/program.hpp"

namespace vkattn::detail {

/// Makes room for a binding's address behind what the layout has.
inline void add_address(std::uint32_t binding, ProgramLayout& layout) {
  layout.push_constant_bytes = round_up(layout.push_constant_bytes, std::uint32_t{sizeof(std::uint64_t)});
  layout.push_addresses.push_back({binding, layout.push_constant_bytes});
  layout.push_constant_bytes += sizeof(std::uint64_t);
}

/// Makes room for the addresses. The parameters come first in the layout.
inline void add_own_addresses(std::span<const OwnAddress> addresses, ProgramLayout& layout) {
  for (const OwnAddress& address : addresses) add_address(address.binding, layout);
}

/// Appends to a set's push constants what is added to the addresses. `first_byte_of(binding)` is where, in
/// what is bound there, a shader's bytes begin.
template <class FirstByte>
void add_address_offsets(std::span<const OwnAddress> addresses, FirstByte&& first_byte_of,
                         std::vector<std::byte>& push_constants) {
  for (const OwnAddress& address : addresses) {
    const std::uint64_t first_byte = first_byte_of(address.binding);
    const auto bytes = bytes_of(first_byte - address.bytes_back);
    push_constants.resize(round_up(push_constants.size(), sizeof(std::uint64_t)));
    push_constants.insert(push_constants.end(), bytes.begin(), bytes.end());
  }
}

}  // namespace vkattn::detail
