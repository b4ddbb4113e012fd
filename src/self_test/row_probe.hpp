// The probe that finds where a device's lanes keep the rows of accumulators.
#pragma once

#include <vkattn/device.hpp>

#include <memory>

#include "program/program.hpp"

namespace vkattn::detail {

/// The compiled probe of matrices of these sizes, one dispatch. Its tensors are probe_numbers() numbers and
/// probe_words() words (kernels/row_layout.hpp).
[[nodiscard]] Result<std::shared_ptr<const Program>> row_probe(const Device& device, const RowLayout& sizes,
                                                               VkPipelineCache pipeline_cache);

}  // namespace vkattn::detail
