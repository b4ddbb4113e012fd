// What tests of long loops tell the layer of tests/rolled_loops.
#pragma once

#include <cstdlib>

namespace vkattn::tests {

/// Shaders that are given to a driver while one lives have their loops unrolled where the driver likes, as
/// without the layer: for invocations whose loops, all of them counted, would take more than the 65535
/// iterations after which lavapipe before Mesa 25 leaves them with wrong results. Those are of the
/// kernel lane where keys times dims are ten thousand, and of others where they are some hundred thousand.
/// Changes the environment: not while other threads read it.
class UnrolledLoops {
 public:
  explicit UnrolledLoops(bool wanted = true) : sets_(wanted && std::getenv(kName) == nullptr) {
    if (sets_) setenv(kName, "1", 1);
  }
  ~UnrolledLoops() {
    if (sets_) unsetenv(kName);
  }
  UnrolledLoops(const UnrolledLoops&) = delete;
  UnrolledLoops& operator=(const UnrolledLoops&) = delete;

 private:
  static constexpr const char* kName = "VKATTN_TEST_UNROLLED_LOOPS";
  bool sets_;
};

}  // namespace vkattn::tests
