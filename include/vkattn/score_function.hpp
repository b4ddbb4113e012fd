/// @file
/// Score functions of the user's own: a few lines of GLSL that change scores or hide keys, compiled into
/// every kernel. Link vkattn::score_functions, which is built where VKATTN_BUILD_SCORE_FUNCTIONS is on and
/// brings the glslang compiler with it. docs/score_functions.md has the rules and examples.
#pragma once

#include <vkattn/score_shaders.hpp>
#include <vkattn/shared.hpp>

#include <memory>
#include <string>
#include <vector>

namespace vkattn {

namespace detail {
struct ScoreFunctionState;
}  // namespace detail

// clang-format off
/// GLSL that defines one of these functions or both:
///
///     float score(float s, Position p)   // the new score; s is scale * Q K^T after softcap, before mask and ALiBi
///     bool visible(Position p)           // whether the key may be seen
///
/// with struct Position { uint batch, head, query, key; } of the whole problem: what FlexAttention calls
/// score_mod and mask_mod. Results may depend on nothing but the arguments and the buffers. A score of -inf
/// hides the key too, but only visible() lets kernels pass by blocks of keys.
// clang-format on
struct ScoreFunctionDesc {
  std::string source;                   ///< GLSL
  std::string name = "score function";  ///< in messages, before the line: a file's name, say
  std::vector<ScoreBuffer> buffers;     ///< read as name(i); i is clamped to the elements that are bound
};

/// A compiled score function, for AttentionDesc::score_function of any number of problems. Kernels are
/// compiled when a plan first asks for them, and kept. Safe to share across threads.
class ScoreFunction final : public ScoreShaders {
 public:
  /// Checks the source. Faults come back as kInvalidArgument with the lines of the source:
  /// "bias.glsl:3: 'foo' : undeclared identifier".
  [[nodiscard]] static Result<Shared<const ScoreFunction>> create(const ScoreFunctionDesc& desc);

  ~ScoreFunction() override;
  ScoreFunction(const ScoreFunction&) = delete;
  ScoreFunction& operator=(const ScoreFunction&) = delete;

  [[nodiscard]] std::string_view name() const noexcept override;
  [[nodiscard]] const std::vector<ScoreBuffer>& buffers() const noexcept override;
  [[nodiscard]] bool hides_keys() const noexcept override;
  [[nodiscard]] Result<std::span<const std::uint32_t>> binary(
      std::string_view shader) const noexcept override;

 private:
  explicit ScoreFunction(std::unique_ptr<detail::ScoreFunctionState> state);
  std::unique_ptr<detail::ScoreFunctionState> state_;
};

}  // namespace vkattn
