// Whether a workgroup fits a device: kernels walk a table of blocks, largest first, to the first that does.
#pragma once

#include <vkattn/capabilities.hpp>
#include <vkattn/result.hpp>

#include <cstdint>

namespace vkattn::detail {

/// What a workgroup of a block takes.
struct BlockNeeds {
  std::uint32_t shared_bytes = 0;
  std::uint32_t threads = 0;
  std::uint32_t subgroups = 0;  ///< of kernels that ask for a subgroup size; 0: of others
};

/// The first limit of the device that a block exceeds, with both numbers: "needs ...; LIMIT is ...".
[[nodiscard]] Result<void> check_limits(const BlockNeeds& needs, const Capabilities& capabilities);

/// The refusal of a kernel by what the smallest of its blocks exceeds.
[[nodiscard]] Error no_block_fits(const Result<void>& smallest);

}  // namespace vkattn::detail
