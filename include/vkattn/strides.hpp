/// @file
/// Where the elements of a tensor of attention lie.
#pragma once

#include <cstdint>

namespace vkattn {

/// Distances in elements (not bytes) between neighbours along each dimension of a rank-4 tensor
/// (batch, head, row, dim). A row is one query or key position. Inputs may repeat along a dimension with
/// stride 0; elements of an output must not overlap. Strides are never negative.
struct Strides {
  std::int64_t batch = 0;  ///< between batch entries; of pages, between pages
  std::int64_t head = 0;   ///< between heads
  std::int64_t row = 0;    ///< between queries, or keys
  std::int64_t dim = 1;    ///< between elements of a row

  bool operator==(const Strides&) const = default;  ///< equal in every member
};

}  // namespace vkattn
