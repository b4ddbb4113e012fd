/// @file
/// What a plan needs to know of a score function of the user's own: the core library compiles nothing, so the
/// component vkattn::score_functions (vkattn/score_function.hpp) hands it kernels with the function in them.
#pragma once

#include <vkattn/result.hpp>
#include <vkattn/shared.hpp>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace vkattn {

/// Elements of a score function's buffer, 4 bytes each.
enum class ScoreBufferType : std::uint32_t {
  kFloat,  ///< GLSL's float
  kInt,    ///< GLSL's int
  kUint,   ///< GLSL's uint
};

/// A table of the score function.
struct ScoreBuffer {
  std::string name;                                ///< how its GLSL reads it: element i is name(i)
  ScoreBufferType type = ScoreBufferType::kFloat;  ///< of its elements
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
  /// For classes that derive from it.
  /// @{
  ScoreShaders() = default;
  ScoreShaders(const ScoreShaders&) = default;
  ScoreShaders& operator=(const ScoreShaders&) = default;
  /// @}
};

/// The kernels of a score function as bytes to keep: with them a program needs no compiler where it runs.
/// `shaders` are names of binaries (PipelineInfo::shader of plans with the function); none: all of this
/// build. Of all, a kernel that does not compile is left out; a named kernel that does not compile is an
/// error.
[[nodiscard]] Result<std::vector<std::byte>> save_score_shaders(const ScoreShaders& function,
                                                                std::span<const std::string> shaders = {});

/// The same function from those bytes. They are code, so they must come from where the program's own code
/// comes from. Errors: torn bytes, or bytes of a library with other shaders. A plan whose kernel was left out
/// is refused by its name, or gets another kernel.
[[nodiscard]] Result<Shared<const ScoreShaders>> load_score_shaders(std::span<const std::byte> saved);

}  // namespace vkattn
