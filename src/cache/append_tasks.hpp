// The program of an append: it converts the rows of each tensor, and writes lengths, each by a pass with a
// set of its own. Also sizes that follow from its descriptor.
#pragma once

#include <vkattn/cache.hpp>

#include <cstdint>

#include "program/program.hpp"

namespace vkattn::detail {

/// Key positions that the cache has room for.
[[nodiscard]] std::int64_t append_capacity(const AppendDesc& desc);

/// The most new rows that one batch entry can have.
[[nodiscard]] std::int64_t most_new_rows(const AppendDesc& desc);

/// Everything that is recorded. Errors: a limit of the device, with both numbers; a shader that the build
/// lacks.
[[nodiscard]] Result<ProgramDesc> append_program(const AppendDesc& desc, const Capabilities& capabilities);

}  // namespace vkattn::detail
