// The runtime of a program whose options choose the device.
#pragma once

#include <string>

#include "decoder/arrays.hpp"

namespace decoder {

// `device` is a number or a part of a device's name; empty: the best. `validation` collects messages of the
// validation layer. Ends the program if there is no such runtime.
[[nodiscard]] inline vkattn::Runtime make_runtime(const std::string& device, bool validation) {
  vkattn::RuntimeOptions options;
  options.device = device;
  options.validation = validation;
  return checked(vkattn::Runtime::create(options));
}

}  // namespace decoder
