// The passes of a matrix multiplication.
#pragma once

#include <vkattn/matmul.hpp>

#include "matmul/matmul_kernel.hpp"
#include "operation/options.hpp"
#include "program/program.hpp"

namespace vkattn::detail {

/// How `inner` is cut into parts, whose sums are added by a pass of their own.
struct InnerSplit {
  std::int64_t parts = 1;
  std::int64_t inner = 0;  ///< of a part; the last may have fewer
};

/// `wanted` parts, or if that is 0 as many as keep the device busy. Too many parts are an error.
[[nodiscard]] Result<InnerSplit> choose_inner_split(const MatmulConfig& config,
                                                    const Capabilities& capabilities, std::uint32_t wanted);

/// The program of a valid and resolved descriptor.
[[nodiscard]] Result<ProgramDesc> matmul_program(const MatmulDesc& desc, const MatmulConfig& config,
                                                 const InnerSplit& split, const PlanOptions& options,
                                                 const Capabilities& capabilities);

/// The options that it uses.
inline constexpr OptionSet kMatmulOptions(Option::kKernel, Option::kRefusals, Option::kMatmulTile,
                                          Option::kInnerSplits, Option::kCopies);

}  // namespace vkattn::detail
