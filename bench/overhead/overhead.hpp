// What the files of this benchmark share.
#pragma once

#include <vkattn/runtime.hpp>

namespace vkattn {

extern const Runtime* runtime;  ///< the device that all of it runs on, made by main()

}  // namespace vkattn
