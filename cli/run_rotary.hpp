// Rotary positions in `vkattn run`: queries and keys are turned on the device before attention.
#pragma once

#include "run_inputs.hpp"
#include "run_transfer.hpp"

namespace vkattn::cli {

/// Turns the rows that open_rotary() has read positions for.
void turn_rows(const Transfer& transfer, const RunInputs& inputs);

}  // namespace vkattn::cli
