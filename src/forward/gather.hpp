// Programs for devices with few storage buffers. A kernel binds queries, keys and values where they lie; all
// else that it reads or writes lies side by side in one buffer for each window, a part of the workspace:
//
//   | FeatureParams | partial results | lse of the rows | kv_lengths | mask | ... |
//
// A pass before the kernel copies tensors and parameters to it. The combine pass turns partial results into
// outputs and lse, even if the keys are one part. Each pass has a layout and sets of its own.
#pragma once

#include <cstdint>
#include <vector>

#include "forward/layout.hpp"
#include "program/program.hpp"

namespace vkattn::detail {

/// What lies in a binding's place, in bytes from the beginning of the buffer.
struct GatheredPlace {
  std::uint32_t binding = 0;
  std::uint64_t byte = 0;
  std::uint64_t source_bytes = 0;  ///< that are copied; 0: none are
};

struct GatheredBuffer {
  std::vector<GatheredPlace> places;
  std::uint64_t bytes = 0;
};

/// Words of the buffer before its partial results.
[[nodiscard]] std::uint32_t first_partial(const LayoutRequest& request);
/// The buffer of a window.
[[nodiscard]] GatheredBuffer gathered_buffer(const LayoutRequest& request, const KvSplit& split,
                                             const Window& window);

/// Turns a program without passes that has a set for each window into one that gathers. Its `passes` (kernel,
/// combine, weights) are to be added with their numbers as layouts; set w of pass p is p * windows + w.
[[nodiscard]] Result<void> add_gathering(const LayoutRequest& request, const ForwardLayout& layout,
                                         std::uint32_t passes, ProgramDesc& program);

}  // namespace vkattn::detail
