// What a plan needs to know of a score function of the user's own: the core library compiles nothing, so the
// component vkattn::score_functions (vkattn/score_function.hpp) hands it kernels with the function in them.
#pragma once

#include <vkattn/result.hpp>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace vkattn {

/// Elements of a score function's buffer, 4 bytes each.
enum class ScoreBufferType : std::uint32_t { kFloat, kInt, kUint };

/// A table of the score function. `name` is how its GLSL reads it: element i is name(i).
struct ScoreBuffer {
  std::string name;
  ScoreBufferType type = ScoreBufferType::kFloat;
};

/// Most buffers of one score function.
inline constexpr std::size_t kMaxScoreBuffers = 4;

/// Every kernel with one score function compiled into it. Immutable to its users; its calls may come from any
/// thread.
class ScoreShaders {
 public:
  virtual ~ScoreShaders() = default;

  /// For messages and reports.
  [[nodiscard]] virtual std::string_view name() const noexcept = 0;
  /// At most kMaxScoreBuffers; AttentionTensors::score_buffers has one range for each, in this order.
  [[nodiscard]] virtual const std::vector<ScoreBuffer>& buffers() const noexcept = 0;
  /// That it says which keys are visible, besides what it may do to scores.
  [[nodiscard]] virtual bool hides_keys() const noexcept = 0;
  /// SPIR-V of a shader by its name in shaders/binaries.cmake; lives as long as this object.
  [[nodiscard]] virtual Result<std::span<const std::uint32_t>> binary(
      std::string_view shader) const noexcept = 0;

 protected:
  ScoreShaders() = default;
  ScoreShaders(const ScoreShaders&) = default;
  ScoreShaders& operator=(const ScoreShaders&) = default;
};

}  // namespace vkattn
