// Switches of tests with long loops for the layer of tests/rolled_loops.
#pragma once

#include <vkattn/attention.hpp>

#include <cstdint>
#include <cstdlib>
#include <functional>

namespace vkattn::tests {

/// The kind of plan, which decides how long the loops of its invocations are.
enum class LoopsOf : std::uint8_t {
  kLane,       ///< attention with the kernel lane
  kGradients,  ///< gradients with any kernel, after a forward pass with lane
  kOthers,     ///< attention with other kernels, whose threads share the keys
};

/// Whether keys times dims are so many that the invocations need UnrolledLoops.
[[nodiscard]] inline bool are_long(LoopsOf loops, const AttentionDesc& given) {
  const AttentionDesc desc = given.resolved();
  const double elements =
      static_cast<double>(desc.kv_length) * static_cast<double>(desc.head_dim + desc.value_dim);
  if (loops == LoopsOf::kLane) return elements >= 4e3;
  return elements >= (loops == LoopsOf::kGradients ? 5e3 : 8e4);
}

/// While an object lives, a driver may unroll the loops of new shaders, as it may without the layer.
/// Invocations with long loops need this: lavapipe before Mesa 25 stops them after 65535 iterations, counted
/// over all loops, and leaves wrong results. With the kernel lane that happens from about ten thousand keys
/// times dims on, with others from a hundred thousand on. The object changes the environment, so no other
/// thread may read it at that time.
class UnrolledLoops {
 public:
  explicit UnrolledLoops(bool wanted = true) : sets_(wanted && std::getenv(kName) == nullptr) {
    if (!sets_) return;
    setenv(kName, "1", 1);
    if (on_change) on_change();
  }
  ~UnrolledLoops() {
    if (!sets_) return;
    unsetenv(kName);
    if (on_change) on_change();
  }
  UnrolledLoops(const UnrolledLoops&) = delete;
  UnrolledLoops& operator=(const UnrolledLoops&) = delete;

  /// Called when loops start or cease to be unrolled. Plans must not get pipelines of the other kind then.
  inline static std::function<void()> on_change;

 private:
  static constexpr const char* kName = "VKATTN_TEST_UNROLLED_LOOPS";
  bool sets_;
};

}  // namespace vkattn::tests
