// What a test program may pass to its main().
#pragma once

#include <string>

namespace vkattn::tests {

/// The program prints it last, after its counts. Nothing is printed if it is empty.
[[nodiscard]] std::string& closing_line();

}  // namespace vkattn::tests
