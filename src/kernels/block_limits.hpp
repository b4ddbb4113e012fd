// Checks that a workgroup fits a device. Kernels walk a table of blocks, largest first, to the first that
// fits.
#pragma once

#include <vkattn/capabilities.hpp>
#include <vkattn/result.hpp>

#include <cstdint>

namespace vkattn::detail {

/// The needs of a workgroup of a block.
struct BlockNeeds {
  std::uint32_t shared_bytes = 0;
  std::uint32_t threads = 0;
  std::uint32_t subgroups = 0;  ///< of kernels that ask for a subgroup size, else 0
};

/// The first limit of the device that a block exceeds, with both numbers: "needs ...; LIMIT is ...".
[[nodiscard]] Result<void> check_limits(const BlockNeeds& needs, const Capabilities& capabilities);

/// The refusal of a kernel by the limit that its smallest block exceeds.
[[nodiscard]] Error no_block_fits(const Result<void>& smallest);

}  // namespace vkattn::detail
