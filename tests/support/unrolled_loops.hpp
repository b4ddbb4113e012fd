// Switches of tests with long loops for the layer of tests/rolled_loops.
#pragma once

#include <vkattn/attention.hpp>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <functional>

namespace vkattn::tests {

/// The kind of plan, which decides how long the loops of its invocations are.
enum class LoopsOf : std::uint8_t {
  kLane,        ///< attention with the kernel lane
  kLaneDecode,  ///< attention with the kernel lane_decode, whose steps have 64 keys, however few there are
  kGradients,   ///< gradients with any kernel, after a forward pass with lane
  kOthers,      ///< attention with other kernels, whose threads share the keys
};

/// Whether keys times dims are so many that the invocations need UnrolledLoops.
[[nodiscard]] inline bool are_long(LoopsOf loops, const AttentionDesc& given) {
  const AttentionDesc desc = given.resolved();
  const double elements =
      static_cast<double>(desc.kv_length) * static_cast<double>(desc.head_dim + desc.value_dim);
  if (loops == LoopsOf::kLaneDecode) {
    // Iterations for a row and a dim of a step, counted in the shader: 17 over keys and 10 over values.
    const auto steps = static_cast<double>((desc.kv_length + 63) / 64);
    const auto rows = static_cast<double>(std::min<std::int64_t>(
        desc.query_length * (desc.query_heads / std::max<std::int64_t>(desc.kv_heads, 1)), 8));
    return steps * rows *
               (17 * static_cast<double>(desc.head_dim) + 10 * static_cast<double>(desc.value_dim)) >=
           4e4;
  }
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
