// The shaders that the failing driver gets.
#pragma once

namespace vkattn::tests {

/// False: only the entry function of each shader is kept, which is enough for a driver that does not compile.
/// A real driver needs all functions.
inline bool keeps_all_functions = false;

}  // namespace vkattn::tests
