// Makes structures of the C interface with their defaults in one line.
#pragma once

namespace vkattn::tests {

/// The structure as its init function leaves it.
template <class Struct>
[[nodiscard]] Struct initial(void (*init)(Struct*)) {
  Struct made;
  init(&made);
  return made;
}

}  // namespace vkattn::tests
