// Computes a user's score function on the device, row by row. The float64 reference cannot run the function
// by itself.
#pragma once

#include <vkattn/runtime.hpp>
#include <vkattn/score_shaders.hpp>

#include <array>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "compute_pass.hpp"
#include "reference/reference.hpp"

namespace vkattn::bench {

class ScoreRows {
 public:
  /// For rows of up to `kv_length` keys. The Runtime, the function and its buffers must outlive the object.
  /// Each binding starts at the buffer's start.
  [[nodiscard]] static Result<std::shared_ptr<ScoreRows>> create(
      const Runtime& runtime, const ScoreShaders& function,
      const std::array<BufferRange, kMaxScoreBuffers>& buffers, std::int64_t kv_length);

  /// A hook that replaces the scores of a row. It keeps the object alive. Any thread may call it while
  /// nothing else uses the Runtime. After an error all scores are NaN.
  [[nodiscard]] static reference::ScoreHook hook(std::shared_ptr<ScoreRows> rows);

 private:
  ScoreRows(const Runtime& runtime, ComputePass pass, Buffer scores, std::size_t keys)
      : runtime_(runtime), pass_(std::move(pass)), scores_(std::move(scores)), piece_(keys) {}
  [[nodiscard]] Result<void> evaluate(const reference::RowIndex& row, std::int64_t first_key,
                                      std::span<double> scores);
  [[nodiscard]] Result<void> evaluate_piece(const reference::RowIndex& row, std::int64_t first_key,
                                            std::span<double> scores);

  const Runtime& runtime_;
  ComputePass pass_;
  Buffer scores_;
  std::vector<float> piece_;  ///< a piece of the scores, as the device stores them
  std::mutex mutex_;
};

}  // namespace vkattn::bench
