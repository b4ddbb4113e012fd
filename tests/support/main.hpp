// What a test program may tell its main().
#pragma once

#include <string>

namespace vkattn::tests {

/// Printed as the program's last, after its counts; nothing where empty.
[[nodiscard]] std::string& closing_line();

}  // namespace vkattn::tests
