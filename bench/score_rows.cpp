// Computes rows of scores on the device with score_rows.comp.
#include "score_rows.hpp"

#include <algorithm>
#include <limits>
#include <utility>

namespace vkattn::bench {
namespace {

namespace shared {
using uint = std::uint32_t;
#include "shared/attention_constants.h"
#include "shared/score_rows_params.h"
}  // namespace shared

constexpr std::int64_t kMostKeys = 1 << 20;  // keys in one dispatch

}  // namespace

Result<std::shared_ptr<ScoreRows>> ScoreRows::create(const Runtime& runtime, const ScoreShaders& function,
                                                     const std::array<BufferRange, kMaxScoreBuffers>& buffers,
                                                     std::int64_t kv_length) {
  const auto keys = static_cast<std::size_t>(std::clamp<std::int64_t>(kv_length, 1, kMostKeys));
  auto scores = runtime.create_buffer(keys * sizeof(float));
  if (!scores.ok()) return scores.error();
  // A binding that the shader does not read gets the buffer of the scores.
  std::vector<BufferRange> bindings(VKATTN_BINDING_USER + kMaxScoreBuffers, scores->range());
  for (std::size_t i = 0; i < function.buffers().size(); ++i) bindings[VKATTN_BINDING_USER + i] = buffers[i];
  const auto words = function.binary("score_rows");
  if (!words.ok()) return words.error();
  auto pass = ComputePass::create(runtime, *words, {}, bindings, sizeof(shared::ScoreRowsParams));
  if (!pass.ok()) return pass.error();
  return std::shared_ptr<ScoreRows>(
      new ScoreRows(runtime, std::move(pass).value(), std::move(scores).value(), keys));
}

reference::ScoreHook ScoreRows::hook(std::shared_ptr<ScoreRows> rows) {
  return [rows = std::move(rows)](const reference::RowIndex& row, std::int64_t first_key,
                                  std::span<double> scores) {
    if (rows->evaluate(row, first_key, scores).ok()) return;
    std::fill(scores.begin(), scores.end(), std::numeric_limits<double>::quiet_NaN());
  };
}

Result<void> ScoreRows::evaluate(const reference::RowIndex& row, std::int64_t first_key,
                                 std::span<double> scores) {
  const std::scoped_lock lock(mutex_);
  while (!scores.empty()) {
    const std::size_t count = std::min(scores.size(), piece_.size());
    if (Result<void> status = evaluate_piece(row, first_key, scores.first(count)); !status.ok())
      return status;
    first_key += static_cast<std::int64_t>(count);
    scores = scores.subspan(count);
  }
  return {};
}

Result<void> ScoreRows::evaluate_piece(const reference::RowIndex& row, std::int64_t first_key,
                                       std::span<double> scores) {
  const std::span<float> piece = std::span(piece_).first(scores.size());
  std::transform(scores.begin(), scores.end(), piece.begin(), [](double s) { return static_cast<float>(s); });
  if (Result<void> status = runtime_.write(scores_, 0, std::as_bytes(piece)); !status.ok()) return status;
  shared::ScoreRowsParams params{};
  params.batch = static_cast<std::uint32_t>(row.batch);
  params.head = static_cast<std::uint32_t>(row.head);
  params.query = static_cast<std::uint32_t>(row.query);
  params.first_key = static_cast<std::uint32_t>(first_key);
  params.count = static_cast<std::uint32_t>(piece.size());
  const std::uint32_t groups =
      (params.count + VKATTN_SCORE_ROWS_WORKGROUP_SIZE - 1) / VKATTN_SCORE_ROWS_WORKGROUP_SIZE;
  const auto record = [&](VkCommandBuffer commands) {
    pass_.record(commands, std::as_bytes(std::span(&params, 1)), groups);
  };
  if (auto time = runtime_.execute(record); !time.ok()) return time.error();
  if (Result<void> status = runtime_.read(scores_, 0, std::as_writable_bytes(piece)); !status.ok())
    return status;
  std::copy(piece.begin(), piece.end(), scores.begin());
  return {};
}

}  // namespace vkattn::bench
