// Rotary positions of `vkattn run`: queries and keys turned on the device before attention.
#pragma once

#include "run_inputs.hpp"
#include "run_transfer.hpp"

namespace vkattn::cli {

/// Turns what open_rotary() has read.
void turn_rows(const Transfer& transfer, const RunInputs& inputs);

}  // namespace vkattn::cli
