// What the driver that fails is given of shaders.
#pragma once

namespace vkattn::tests {

/// Of each shader's functions only the one that is run is kept, as a driver that does not compile needs no
/// more. With a real driver below, all are.
inline bool keeps_all_functions = false;

}  // namespace vkattn::tests
