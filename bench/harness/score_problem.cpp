// The score functions of problems: see score_problem.hpp.
#include "harness/score_problem.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <functional>
#include <limits>
#include <utility>

#include "harness/data.hpp"

namespace vkattn::harness {
namespace {

using bench::ScoreKind;

constexpr double kHidden = -std::numeric_limits<double>::infinity();
constexpr std::int64_t kFarthest =
    128;  // the largest distance, in either direction, that has a bias of its own

using Score = std::function<double(double s, const reference::RowIndex& row, std::int64_t key)>;

reference::ScoreHook hook_of(Score score) {
  return [score = std::move(score)](const reference::RowIndex& row, std::int64_t first_key,
                                    std::span<double> scores) {
    for (double& s : scores) s = score(s, row, first_key++);
  };
}

std::vector<std::uint32_t> bits_of(const std::vector<float>& numbers) {
  std::vector<std::uint32_t> bits;
  bits.reserve(numbers.size());
  for (const float number : numbers) bits.push_back(std::bit_cast<std::uint32_t>(number));
  return bits;
}

ProblemScore alibi(const Problem& problem) {
  std::vector<float> slopes;
  for (std::int64_t head = 0; head < problem.desc.query_heads; ++head) {
    slopes.push_back(standard_alibi_slope(head, problem.desc.query_heads));
  }
  return {score_text(problem),
          {bits_of(slopes)},
          hook_of([slopes](double s, const reference::RowIndex& row, std::int64_t key) {
            return s - static_cast<double>(slopes[static_cast<std::size_t>(row.head)]) *
                           std::abs(static_cast<double>(row.query - key));
          })};
}

ProblemScore prefix(const Problem& problem) {
  const std::uint64_t stream = stream_of(problem.seed, kScoreStream);
  const auto keys = static_cast<std::uint64_t>(std::max<std::int64_t>(problem.desc.kv_length, 1));
  std::vector<std::uint32_t> lengths;
  for (std::int64_t b = 0; b < problem.desc.batch; ++b) {
    lengths.push_back(
        static_cast<std::uint32_t>(1 + random_bits(stream, static_cast<std::uint64_t>(b)) % keys));
  }
  return {score_text(problem),
          {lengths},
          hook_of([lengths](double s, const reference::RowIndex& row, std::int64_t key) {
            const bool in_prefix =
                key < static_cast<std::int64_t>(lengths[static_cast<std::size_t>(row.batch)]);
            return key <= row.query || in_prefix ? s : kHidden;
          })};
}

/// Makes about eight documents of 1 to twice the average length, numbered from -1.
std::vector<std::uint32_t> document_numbers(const Problem& problem) {
  const std::uint64_t stream = stream_of(problem.seed, kScoreStream);
  const auto tokens = static_cast<std::size_t>(
      std::max({problem.desc.kv_length, problem.desc.query_length, std::int64_t{1}}));
  const std::uint64_t longest = std::max<std::uint64_t>(tokens / 4, 1);
  std::vector<std::uint32_t> numbers;
  for (std::uint64_t document = 0; numbers.size() < tokens; ++document) {
    const std::size_t length = 1 + random_bits(stream, document) % longest;
    numbers.insert(numbers.end(), length, static_cast<std::uint32_t>(document) - 1U);
  }
  numbers.resize(tokens);
  return numbers;
}

ProblemScore documents(const Problem& problem) {
  const std::vector<std::uint32_t> numbers = document_numbers(problem);
  return {score_text(problem),
          {numbers},
          hook_of([numbers](double s, const reference::RowIndex& row, std::int64_t key) {
            return numbers[static_cast<std::size_t>(key)] == numbers[static_cast<std::size_t>(row.query)]
                       ? s
                       : kHidden;
          })};
}

ProblemScore bias(const Problem& problem) {
  constexpr std::int64_t kDistances = 2 * kFarthest + 1;
  NormalNumbers normal(stream_of(problem.seed, kScoreStream));
  std::vector<float> table;
  for (std::int64_t i = 0; i < problem.desc.query_heads * kDistances; ++i) {
    table.push_back(static_cast<float>(normal.at(static_cast<std::uint64_t>(i))));
  }
  return {score_text(problem),
          {bits_of(table)},
          hook_of([table](double s, const reference::RowIndex& row, std::int64_t key) {
            const std::int64_t distance = std::clamp(key - row.query, -kFarthest, kFarthest);
            const std::int64_t index = row.head * kDistances + distance + kFarthest;
            return s + static_cast<double>(table[static_cast<std::size_t>(index)]);
          })};
}

}  // namespace

ScoreText score_text(const Problem& problem) {
  switch (problem.score) {
    case ScoreKind::kNone:
      break;
    case ScoreKind::kAlibi:
      return {R"(float score(float s, Position p) {
  return s - slope(p.head) * abs(float(p.query) - float(p.key));
})",
              "score=alibi",
              {{"slope", ScoreBufferType::kFloat}}};
    case ScoreKind::kPrefix:
      return {R"(bool visible(Position p) { return p.key <= p.query || p.key < prefix(p.batch); })",
              "score=prefix",
              {{"prefix", ScoreBufferType::kUint}}};
    case ScoreKind::kDocuments:
      return {R"(bool visible(Position p) { return document(p.key) == document(p.query); })",
              "score=documents",
              {{"document", ScoreBufferType::kInt}}};
    case ScoreKind::kBias:
      return {R"(float score(float s, Position p) {
  int distance = clamp(int(p.key) - int(p.query), -128, 128);
  return s + bias(int(p.head) * 257 + distance + 128);
})",
              "score=bias",
              {{"bias", ScoreBufferType::kFloat}}};
  }
  return {};
}

ProblemScore make_score(const Problem& problem) {
  switch (problem.score) {
    case ScoreKind::kNone:
      break;
    case ScoreKind::kAlibi:
      return alibi(problem);
    case ScoreKind::kPrefix:
      return prefix(problem);
    case ScoreKind::kDocuments:
      return documents(problem);
    case ScoreKind::kBias:
      return bias(problem);
  }
  return {};
}

}  // namespace vkattn::harness
