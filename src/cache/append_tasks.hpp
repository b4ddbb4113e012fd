// What an append does: the conversion of rows of each tensor, and the writing of lengths, each a pass on a
// set of its own.
#pragma once

#include <vkattn/cache.hpp>

#include "program/program.hpp"

namespace vkattn::detail {

/// Everything that is recorded. Errors: a limit of the device, with both numbers; a shader that the build
/// lacks.
[[nodiscard]] Result<ProgramDesc> append_program(const AppendDesc& desc, const Capabilities& capabilities);

}  // namespace vkattn::detail
