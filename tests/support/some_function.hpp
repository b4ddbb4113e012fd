// A score function without code.
#pragma once

#include <vkattn/score_shaders.hpp>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

namespace vkattn::tests {

/// A score function for tests that only look at the descriptor.
class SomeFunction : public ScoreShaders {
 public:
  explicit SomeFunction(std::size_t buffers = 0) : buffers_(buffers) {}
  [[nodiscard]] std::string_view name() const noexcept override { return "some.glsl"; }
  [[nodiscard]] const std::vector<ScoreBuffer>& buffers() const noexcept override { return buffers_; }
  [[nodiscard]] bool hides_keys() const noexcept override { return false; }
  [[nodiscard]] Result<std::span<const std::uint32_t>> binary(std::string_view) const noexcept override {
    return std::span<const std::uint32_t>();
  }

 private:
  std::vector<ScoreBuffer> buffers_;
};

}  // namespace vkattn::tests
