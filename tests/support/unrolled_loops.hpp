// What tests of long loops tell the layer of tests/rolled_loops.
#pragma once

#include <vkattn/attention.hpp>

#include <cstdint>
#include <cstdlib>
#include <functional>

namespace vkattn::tests {

/// What a plan's invocations loop over, for the loops that are long.
enum class LoopsOf : std::uint8_t {
  kLane,       ///< attention by the kernel lane
  kGradients,  ///< gradients by any kernel, behind a forward pass of lane's
  kOthers,     ///< attention by other kernels, whose threads share the keys
};

/// Whether invocations come near the iterations that UnrolledLoops is for: by keys times dims.
[[nodiscard]] inline bool are_long(LoopsOf loops, const AttentionDesc& given) {
  const AttentionDesc desc = given.resolved();
  const double elements =
      static_cast<double>(desc.kv_length) * static_cast<double>(desc.head_dim + desc.value_dim);
  if (loops == LoopsOf::kLane) return elements >= 4e3;
  return elements >= (loops == LoopsOf::kGradients ? 5e3 : 8e4);
}

/// Shaders that are given to a driver while one lives have their loops unrolled where the driver likes, as
/// without the layer: for invocations whose loops, all of them counted, would take more than the 65535
/// iterations after which lavapipe before Mesa 25 leaves them with wrong results. Those are of the
/// kernel lane where keys times dims are ten thousand, and of others where they are a hundred thousand.
/// Changes the environment: not while other threads read it.
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

  /// Called as loops begin and cease to be unrolled: no plan may be given the other kind of pipeline then.
  inline static std::function<void()> on_change;

 private:
  static constexpr const char* kName = "VKATTN_TEST_UNROLLED_LOOPS";
  bool sets_;
};

}  // namespace vkattn::tests
