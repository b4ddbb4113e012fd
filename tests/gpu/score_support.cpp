// Score functions for tests.
#include "gpu/score_support.hpp"

#include <algorithm>
#include <bit>
#include <utility>

namespace vkattn::tests {

ScoreSetup setup(const char* source, std::vector<ScoreBuffer> buffers,
                 std::vector<std::vector<std::uint32_t>> tables, const Score& score) {
  const auto function = ScoreFunction::create({source, "test.glsl", std::move(buffers)});
  EXPECT_TRUE(function.ok()) << function.error().message;
  if (!function.ok()) return {};
  return {*function, std::move(tables),
          [score](const reference::RowIndex& row, std::int64_t first_key, std::span<double> scores) {
            for (double& s : scores) s = score(s, row, first_key++);
          }};
}

std::vector<std::uint32_t> bits(const std::vector<float>& values) {
  std::vector<std::uint32_t> words;
  for (const float value : values) words.push_back(std::bit_cast<std::uint32_t>(value));
  return words;
}

ScoreSetup prefix() {
  return setup(R"(bool visible(Position p) { return p.key <= p.query || p.key < prefix(p.batch); })",
               {{"prefix", ScoreBufferType::kUint}}, {{20, 7}},
               [](double s, const reference::RowIndex& row, std::int64_t key) {
                 return key <= row.query || key < (row.batch == 0 ? 20 : 7) ? s : kHidden;
               });
}

std::int64_t document(std::int64_t token) {
  return token < 3 ? 5 : token < 33 ? -1 : token < 73 ? 9 : 2;
}

ScoreSetup documents() {
  std::vector<std::uint32_t> table;
  for (std::int64_t i = 0; i < 200; ++i) table.push_back(static_cast<std::uint32_t>(document(i)));
  return setup(R"(bool visible(Position p) { return document(p.key) == document(p.query); })",
               {{"document", ScoreBufferType::kInt}}, {table},
               [](double s, const reference::RowIndex& row, std::int64_t key) {
                 return document(key) == document(row.query) ? s : kHidden;
               });
}

ScoreSetup relative_bias() {
  std::vector<float> table;
  for (int i = 0; i < 8 * 17; ++i) table.push_back(static_cast<float>(i % 13) * 0.25F - 1.0F);
  const char* const source = R"(
    float score(float s, Position p) {
      int distance = clamp(int(p.key) - int(p.query), -8, 8);
      return s + bias(int(p.head) * 17 + distance + 8);
    })";
  return setup(source, {{"bias", ScoreBufferType::kFloat}}, {bits(table)},
               [table](double s, const reference::RowIndex& row, std::int64_t key) {
                 const std::int64_t distance = std::clamp<std::int64_t>(key - row.query, -8, 8);
                 return s +
                        static_cast<double>(table[static_cast<std::size_t>(row.head * 17 + distance + 8)]);
               });
}

ScoreSetup both() {
  const char* const source = R"(
    const uint kStride = 3;
    uint number(Position p) { return p.batch * 7 + p.head * 5 + p.query; }
    float score(float s, Position p) { return 0.5 * s - 0.125 * float((number(p) + p.key) % 5); }
    bool visible(Position p) { return number(p) % 4 != 0 && p.key % kStride != 1; })";
  return setup(source, {}, {}, [](double s, const reference::RowIndex& row, std::int64_t key) {
    const std::int64_t number = row.batch * 7 + row.head * 5 + row.query;
    if (number % 4 == 0 || key % 3 == 1) return kHidden;
    return 0.5 * s - 0.125 * static_cast<double>((number + key) % 5);
  });
}

}  // namespace vkattn::tests
