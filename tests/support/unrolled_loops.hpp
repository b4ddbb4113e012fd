// Switches of tests with long loops for the layer of tests/rolled_loops.
#pragma once

#include <vkattn/attention.hpp>

#include <algorithm>
#include <cmath>
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

/// Whether loops over keys, rows and dims are so long that the invocations need UnrolledLoops.
[[nodiscard]] inline bool are_long(LoopsOf loops, const AttentionDesc& given) {
  const AttentionDesc desc = given.resolved();
  const auto keys = static_cast<double>(desc.kv_length);
  const auto head_dim = static_cast<double>(desc.head_dim), value_dim = static_cast<double>(desc.value_dim);
  // Rows of a KV head.
  const auto rows =
      static_cast<double>(desc.query_length * (desc.query_heads / std::max<std::int64_t>(desc.kv_heads, 1)));
  const double elements = keys * (head_dim + value_dim);
  switch (loops) {
    case LoopsOf::kLane:
      return elements >= 4e3;
    case LoopsOf::kLaneDecode:
      // Iterations for a row and a dim of a step, counted in the shader: 17 over keys and 10 over values.
      return std::ceil(keys / 64) * std::min(rows, 8.0) * (17 * head_dim + 10 * value_dim) >= 4e4;
    case LoopsOf::kGradients:
      // Keys visit all rows, in two products.
      return elements >= 5e3 || rows * (head_dim + value_dim) >= 1e4;
    default:
      return elements >= 8e4;
  }
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
