// `vkattn run --rotary` gives the same as queries and keys that were turned in float64. Also its refusals.
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "npy.hpp"
#include "tool_run.hpp"

namespace vkattn::tests {
namespace {

using Values = std::vector<float>;
using Integers = std::vector<std::int32_t>;

/// The dims that are turned together, and their speed.
struct Rotary {
  bool interleaved = false;
  std::size_t dims = 16;
  double base = 10000;
};

/// Rows of 16 elements, each turned by its position.
Values turned_rows(Values values, const Integers& positions, const Rotary& rotary) {
  for (std::size_t row = 0; row < positions.size(); ++row) {
    const Values before(values.begin() + static_cast<std::ptrdiff_t>(row * 16),
                        values.begin() + static_cast<std::ptrdiff_t>(row * 16 + 16));
    for (std::size_t pair = 0; pair < rotary.dims / 2; ++pair) {
      const std::size_t a = rotary.interleaved ? 2 * pair : pair;
      const std::size_t b = rotary.interleaved ? 2 * pair + 1 : pair + rotary.dims / 2;
      const double angle = positions[row] * std::pow(rotary.base, -2.0 * static_cast<double>(pair) /
                                                                      static_cast<double>(rotary.dims));
      const auto x = static_cast<double>(before[a]), y = static_cast<double>(before[b]);
      values[row * 16 + a] = static_cast<float>(x * std::cos(angle) - y * std::sin(angle));
      values[row * 16 + b] = static_cast<float>(x * std::sin(angle) + y * std::cos(angle));
    }
  }
  return values;
}

/// The positions of all rows of an array (entries, heads, rows, 16), by entry and row. The heads of a row
/// share a position.
template <class Position>
Integers positions_of(std::size_t entries, std::size_t heads, std::size_t rows, const Position& position) {
  Integers all;
  for (std::size_t n = 0; n < entries * heads * rows; ++n)
    all.push_back(static_cast<std::int32_t>(position(n / (heads * rows), n % rows)));
  return all;
}

/// Queries (2, 4, 9, 16), keys (2, 2, 13, 16), values (2, 2, 13, 8).
class ToolRotary : public ToolRun {
 protected:
  /// The output for turned arrays without --rotary.
  [[nodiscard]] Values output_of_turned(const Integers& query, const Integers& key, const Rotary& rotary,
                                        const std::string& options) const {
    write("turned_query", shape("query"), turned_rows(values("query"), query, rotary));
    write("turned_key", shape("key"), turned_rows(values("key"), key, rotary));
    static_cast<void>(
        printed("run --query turned_query.npy --key turned_key.npy --value value.npy --output "
                "out.npy --check " +
                options));
    return values("out");
  }
};

TEST_F(ToolRotary, TurnsByThePlacesAmongTheKeys) {
  const Integers keys = positions_of(2, 2, 13, [](std::size_t, std::size_t j) { return j; });
  for (const std::size_t first : {std::size_t{0}, std::size_t{4}}) {
    const Integers queries = positions_of(2, 4, 9, [&](std::size_t, std::size_t i) { return i + first; });
    const std::string options = first == 0 ? "--causal" : "--causal --align bottom-right";
    const Values expected = output_of_turned(queries, keys, {}, options);
    EXPECT_NE(expected, output_of(options));
    expect_near(output_of(options + " --rotary half-split"), expected);
    if (first == 0) continue;
    const std::string uncausal = "--align bottom-right --rotary half-split";
    expect_near(output_of(uncausal), output_of_turned(queries, keys, {}, ""));
  }
}

TEST_F(ToolRotary, TakesPositionsFromFiles) {
  const Rotary rotary{true, 8, 100};
  const auto query_position = [](std::size_t, std::size_t i) { return 1000 - 7 * i; };
  const auto key_position = [](std::size_t entry, std::size_t j) { return 50 * entry + j * j; };
  const Values expected = output_of_turned(positions_of(2, 4, 9, query_position),
                                           positions_of(2, 2, 13, key_position), rotary, "");
  write_list("at_q", positions_of(1, 1, 9, query_position));
  write("at_k", {2, 13}, positions_of(2, 1, 13, key_position));
  const std::string files = "--query-positions at_q.npy --key-positions at_k.npy ";
  expect_near(output_of("--rotary interleaved --rotary-dims 8 --rotary-base 100 " + files), expected);
  Values frequencies;
  for (int pair = 0; pair < 4; ++pair)
    frequencies.push_back(static_cast<float>(std::pow(100.0, -pair / 4.0)));
  write_list("frequencies", frequencies);
  expect_near(output_of("--rotary interleaved --rotary-dims 8 --rotary-frequencies frequencies.npy " + files),
              expected, 1e-4F);
}

/// Arrays (batch, length, heads, dim), and keys that serve all entries.
TEST_F(ToolRotary, TurnsInAnyOrderOfAxes) {
  write_inputs({2, 9, 4, 16}, {1, 13, 2, 16}, {1, 13, 2, 8});
  Integers queries, keys;
  for (int n = 0; n < 2 * 9 * 4; ++n) queries.push_back(n / 4 % 9);
  for (int n = 0; n < 13 * 2; ++n) keys.push_back(n / 2);
  const Values expected = output_of_turned(queries, keys, {}, "--layout bshd");
  expect_near(output_of("--layout bshd --rotary half-split"), expected);
}

/// The positions of each sequence start at its own beginning.
TEST_F(ToolRotary, TurnsPackedSequences) {
  write_inputs({4, 9, 16}, {2, 13, 16}, {2, 13, 8});
  write_list("ends_q", Integers{0, 3, 9});
  write_list("ends_k", Integers{0, 6, 13});
  Integers queries, keys;
  for (int n = 0; n < 4 * 9; ++n) queries.push_back(n % 9 < 3 ? n % 9 + 3 : n % 9 - 3 + 1);
  for (int n = 0; n < 2 * 13; ++n) keys.push_back(n % 13 < 6 ? n % 13 : n % 13 - 6);
  const std::string packed =
      "--cumulative-query-lengths ends_q.npy --cumulative-kv-lengths ends_k.npy --causal --align "
      "bottom-right ";
  const Values expected = output_of_turned(queries, keys, {}, packed);
  expect_near(output_of(packed + "--rotary half-split"), expected);
}

using ToolRotaryRefusals = RunFolder;

TEST_F(ToolRotaryRefusals, AreOneSentence) {
  write_inputs({2, 4, 9, 32}, {2, 2, 5, 32}, {2, 2, 5, 32});
  write_list("four", Integers{0, 1, 2, 3});
  write_list("negative", Integers{0, 1, 2, -3, 4});
  write_list<float>("floats", {0, 1, 2, 3, 4});
  const std::string half = "--rotary half-split ";
  expect_refused(
      attend(""),
      {{"--rotary neox", "--rotary"},
       {"--query-positions four.npy", "are for --rotary; give its style with it"},
       {"--rotary-base 7", "are for --rotary; give its style with it"},
       {half + "--key-positions four.npy",
        "four.npy: shape (4,) does not fit --key-positions; one position for each row is needed, so shape "
        "(5,) "
        "or (2, 5)"},
       {half + "--key-positions negative.npy", "position -3 at index 3 is not from 0 to 1073741824"},
       {half + "--key-positions floats.npy", "the elements are float32; integers are needed"},
       {half + "--rotary-frequencies four.npy", "four.npy: shape (4,) does not fit --rotary-frequencies"},
       {half + "--rotary-dims 0", "--rotary-dims is 0 but must be an even number from 2"},
       {half + "--rotary-dims 7", "rotary.dims is 7 but must be even and from 2 to head_dim"},
       {half + "--causal --align bottom-right",
        "query 0 of batch entry 0 lies at -4 among the keys, which is no position for --rotary"},
       {half + "--kv-type q8_0", "--kv-type q8_0 stores them in blocks; turn them beforehand"},
       {half + "--page-table t", "--rotary turns keys in one piece"},
       {half + "--grad-output g --grad-query d", "gradients are those of turned queries and keys"}},
      kNoDevice);
}

}  // namespace
}  // namespace vkattn::tests
