// `vkattn run` on packed sequences: each gives what it gives alone, and what does not fit is refused.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "npy.hpp"
#include "tool.hpp"
#include "tool_run.hpp"

namespace vkattn::tests {
namespace {

using npy::ElementType;
using Words = std::vector<std::string>;

constexpr float kInfinity = std::numeric_limits<float>::infinity();

/// Rows `first` to `end` of an array (heads, rows, dim), or (rows, heads, dim) where `rows_first`.
std::vector<float> rows_of(const std::vector<float>& values, const Shape& shape, bool rows_first,
                           std::int64_t first, std::int64_t end) {
  const auto rows = static_cast<std::size_t>(shape[rows_first ? 0 : 1]);
  const auto inner = static_cast<std::size_t>(rows_first ? shape[1] * shape[2] : shape[2]);
  std::vector<float> part;
  for (std::size_t n = 0; n < values.size(); ++n) {
    const auto row = static_cast<std::int64_t>(n / inner % rows);
    if (row >= first && row < end) part.push_back(values[n]);
  }
  return part;
}

/// 4 query heads over 2 of keys; sequences of 4, 0 and 5 queries and of 6, 2 and 5 keys.
class ToolSequences : public ToolRun {
 protected:
  const std::vector<std::int32_t> query_ends_{0, 4, 4, 9};
  const std::vector<std::int32_t> key_ends_{0, 6, 8, 13};

  void write_array(const std::string& name, const Shape& shape, const std::vector<float>& values) {
    write_npy(file(name), ElementType::kFloat32, shape, values);
  }
  void write_ends() {
    write_npy(file("ends_q"), ElementType::kInt32, {4}, query_ends_);
    write_npy(file("ends_k"), ElementType::kInt64, {4},
              std::vector<std::int64_t>(key_ends_.begin(), key_ends_.end()));
  }
  [[nodiscard]] Words outputs(const std::string& suffix, Words more) const {
    more.insert(more.end(), {"--output", file("out" + suffix).string(), "--lse",
                             file("lse" + suffix).string(), "--weights", file("weights" + suffix).string()});
    return more;
  }
  static Shape shape_of(bool rows_first, std::int64_t rows, std::int64_t heads, std::int64_t dim) {
    return rows_first ? Shape{rows, heads, dim} : Shape{heads, rows, dim};
  }
  static void expect_near(const std::vector<float>& a, const std::vector<float>& b) {
    ASSERT_EQ(a.size(), b.size());
    for (std::size_t i = 0; i < a.size(); ++i) {
      if (a[i] == b[i]) continue;  // infinities too
      ASSERT_NEAR(a[i], b[i], 1e-5F) << i;
    }
  }
  /// The packed outputs against those of one sequence alone, in the files that end in "_alone".
  void expect_sequence(std::size_t b, bool rows_first, std::int64_t keys) const {
    const std::int64_t first = query_ends_[b], end = query_ends_[b + 1];
    const Array out = read_npy(file("out")), lse = read_npy(file("lse")), weights = read_npy(file("weights"));
    expect_near(rows_of(out.values, out.shape, rows_first, first, end), read_npy(file("out_alone")).values);
    expect_near(rows_of(lse.values, {4, 9, 1}, false, first, end), read_npy(file("lse_alone")).values);
    const std::vector<float> alone = read_npy(file("weights_alone")).values;
    const auto longest_keys = weights.shape[3];
    ASSERT_EQ(weights.shape, (Shape{3, 4, 5, longest_keys}));
    for (std::int64_t n = 0; n < 4 * 5 * longest_keys; ++n) {
      const std::int64_t h = n / (5 * longest_keys), i = n / longest_keys % 5, j = n % longest_keys;
      const bool there = i < end - first && j < keys;
      const float expected =
          there ? alone[static_cast<std::size_t>((h * (end - first) + i) * keys + j)] : 0.0F;
      const auto at = static_cast<std::size_t>(static_cast<std::int64_t>(b) * 4 * 5 * longest_keys + n);
      ASSERT_NEAR(weights.values[at], expected, 1e-5F)
          << "sequence " << b << ", " << h << ", " << i << ", " << j;
    }
  }
};

TEST_F(ToolSequences, EachGivesWhatItGivesAlone) {
  write_ends();
  for (const bool rows_first : {false, true}) {
    const Words options = {"--layout", rows_first ? "bshd" : "bhsd", "--causal", "--align", "bottom-right"};
    const Shape query = shape_of(rows_first, 9, 4, 16), key = shape_of(rows_first, 13, 2, 16),
                value = shape_of(rows_first, 13, 2, 8);
    const std::vector<float> q = noise(query, 1), k = noise(key, 2), v = noise(value, 3);
    write_array("query", query, q);
    write_array("key", key, k);
    write_array("value", value, v);
    Words packed = outputs("", options);
    packed.insert(packed.end(), {"--cumulative-query-lengths", file("ends_q").string(),
                                 "--cumulative-kv-lengths", file("ends_k").string()});
    expect_checked(packed);
    EXPECT_EQ(read_npy(file("out")).shape, shape_of(rows_first, 9, 4, 8));
    EXPECT_EQ(read_npy(file("lse")).shape, (Shape{4, 9}));
    for (const std::size_t b : {std::size_t{0}, std::size_t{2}}) {
      const std::int64_t queries = query_ends_[b + 1] - query_ends_[b];
      const std::int64_t keys = key_ends_[b + 1] - key_ends_[b];
      write_array("query", shape_of(rows_first, queries, 4, 16),
                  rows_of(q, query, rows_first, query_ends_[b], query_ends_[b + 1]));
      write_array("key", shape_of(rows_first, keys, 2, 16),
                  rows_of(k, key, rows_first, key_ends_[b], key_ends_[b + 1]));
      write_array("value", shape_of(rows_first, keys, 2, 8),
                  rows_of(v, value, rows_first, key_ends_[b], key_ends_[b + 1]));
      expect_checked(outputs("_alone", options));
      expect_sequence(b, rows_first, keys);
    }
  }
}

/// As in continuous batching: the keys keep their batch axis, lengths and a past.
TEST_F(ToolSequences, PackedQueriesOverPaddedKeys) {
  write_ends();
  const std::vector<std::int32_t> lengths = {7, 3, 11};
  write_npy(file("lengths"), ElementType::kInt32, {3}, lengths);
  for (const bool rows_first : {false, true}) {
    const Words options = {"--layout", rows_first ? "bshd" : "bhsd", "--causal", "--align", "bottom-right"};
    const Shape query = shape_of(rows_first, 9, 4, 16), key = shape_of(rows_first, 11, 2, 16);
    const std::vector<float> q = noise(query, 1);
    const auto cache = [](const Shape& one, std::int64_t rows, bool bshd) {
      Shape shape = one;
      shape[bshd ? 0 : 1] = rows;
      shape.insert(shape.begin(), 3);
      return shape;
    };
    const Shape past = cache(key, 6, rows_first), now = cache(key, 5, rows_first);
    const std::vector<float> past_values = noise(past, 4), now_values = noise(now, 5);
    write_array("query", query, q);
    write_array("key", now, now_values);
    write_array("value", now, now_values);
    write_array("past", past, past_values);
    Words packed = outputs("", options);
    packed.insert(packed.end(),
                  {"--cumulative-query-lengths", file("ends_q").string(), "--kv-lengths",
                   file("lengths").string(), "--past-key", file("past").string(), "--past-value",
                   file("past").string(), "--present-key", file("present").string()});
    expect_checked(packed);
    const Array present = read_npy(file("present"));
    ASSERT_EQ(present.shape, cache(key, 11, rows_first));
    for (const std::size_t b : {std::size_t{0}, std::size_t{2}}) {
      const std::int64_t queries = query_ends_[b + 1] - query_ends_[b];
      write_array("query", shape_of(rows_first, queries, 4, 16),
                  rows_of(q, query, rows_first, query_ends_[b], query_ends_[b + 1]));
      const std::size_t entry = present.values.size() / 3;
      const std::vector<float> keys(present.values.begin() + static_cast<std::ptrdiff_t>(b * entry),
                                    present.values.begin() + static_cast<std::ptrdiff_t>((b + 1) * entry));
      for (const char* const name : {"key", "value"}) {
        write_array(name, shape_of(rows_first, lengths[b], 2, 16),
                    rows_of(keys, key, rows_first, 0, lengths[b]));
      }
      expect_checked(outputs("_alone", options));
      expect_sequence(b, rows_first, lengths[b]);
    }
  }
}

TEST_F(ToolSequences, FortranOrderOneHeadAndNothingAtAll) {
  write_ends();
  Words packed = {"--cumulative-query-lengths",
                  file("ends_q").string(),
                  "--cumulative-kv-lengths",
                  file("ends_k").string(),
                  "--output",
                  file("out").string()};
  write("query", {4, 9, 16});
  write("key", {2, 13, 16});
  write("value", {2, 13, 8});
  expect_checked(packed);
  const std::vector<float> expected = read_npy(file("out")).values;
  const std::vector<float> keys = read_npy(file("key")).values;
  std::vector<float> turned(keys.size());
  for (std::size_t n = 0; n < keys.size(); ++n) {
    turned[n / (13 * 16) + 2 * (n / 16 % 13) + 26 * (n % 16)] = keys[n];
  }
  write_array("key", {2, 13, 16}, turned);
  std::string content = read_file(file("key"));
  content.replace(content.find("False"), 5, "True ");
  write_file(file("key"), content);
  expect_checked(packed);
  EXPECT_EQ(read_npy(file("out")).values, expected);

  write("query", {9, 16});
  write("key", {13, 16});
  write("value", {13, 8});
  expect_checked(outputs("", packed = {packed.begin(), packed.begin() + 4}));
  EXPECT_EQ(read_npy(file("out")).shape, (Shape{9, 8}));
  EXPECT_EQ(read_npy(file("lse")).shape, Shape{9});
  EXPECT_EQ(read_npy(file("weights")).shape, (Shape{3, 1, 5, 6}));

  // No sequences, and sequences of nothing.
  write("query", {4, 0, 16});
  write("key", {2, 0, 16});
  write("value", {2, 0, 8});
  for (const std::int64_t ends : {1, 3}) {
    for (const char* const name : {"ends_q", "ends_k"}) {
      write_npy(file(name), ElementType::kInt32, {ends},
                std::vector<std::int32_t>(static_cast<std::size_t>(ends)));
    }
    const ToolResult result = run_tool(words(outputs("", packed)));
    EXPECT_EQ(result.exit_code, 0) << result.err;
    EXPECT_EQ(read_npy(file("out")).shape, (Shape{4, 0, 8}));
    EXPECT_EQ(read_npy(file("weights")).shape, (Shape{ends - 1, 4, 0, 0}));
  }
}

/// Lengths without keys leave rows that see nothing; a sequence without queries leaves no row.
TEST_F(ToolSequences, SequencesWithoutKeys) {
  write_npy(file("ends_q"), ElementType::kInt32, {3}, std::vector<std::int32_t>{0, 4, 9});
  write_npy(file("ends_k"), ElementType::kInt32, {3}, std::vector<std::int32_t>{0, 0, 13});
  write("query", {4, 9, 16});
  write("key", {2, 13, 16});
  write("value", {2, 13, 8});
  expect_checked(outputs("", {"--cumulative-query-lengths", file("ends_q").string(),
                              "--cumulative-kv-lengths", file("ends_k").string()}));
  const std::vector<float> out = read_npy(file("out")).values, lse = read_npy(file("lse")).values;
  for (std::size_t n = 0; n < out.size(); ++n) EXPECT_EQ(out[n] == 0, n / 8 % 9 < 4) << n;
  for (std::size_t n = 0; n < lse.size(); ++n) EXPECT_EQ(lse[n] == -kInfinity, n % 9 < 4) << n;
}

/// Whatever of this needs no device: the host refuses before it opens one.
class ToolSequenceRefusals : public ToolRun {
 protected:
  void SetUp() override {
    write("query", {4, 9, 16});
    write("key", {2, 13, 16});
    write("value", {2, 13, 8});
    write_numbers("q", {0, 4, 4, 9});
    write_numbers("k", {0, 6, 8, 13});
  }
  void write_numbers(const std::string& name, const std::vector<std::int32_t>& numbers) {
    write_npy(file(name), ElementType::kInt32, {static_cast<std::int64_t>(numbers.size())}, numbers);
  }
  void refuses(Words more, const std::string& part) const {
    const std::string no_device = "VK_DRIVER_FILES=/nonexistent VK_ICD_FILENAMES=/nonexistent";
    expect_refusal(words(more), 2, part, no_device);
  }
  /// With the numbers of q and k.
  void refuses_packed(const std::string& part, Words more = {}) const {
    more.insert(more.begin(), {"--cumulative-query-lengths", file("q").string(), "--cumulative-kv-lengths",
                               file("k").string()});
    refuses(more, part);
  }
};

TEST_F(ToolSequenceRefusals, NumbersThatDoNotFitTheArrays) {
  write_numbers("q", {1, 4, 4, 9});
  refuses_packed("--cumulative-query-lengths begins with 1, but the first sequence begins at row 0");
  write_numbers("q", {0, 4, 3, 9});
  refuses_packed("--cumulative-query-lengths falls from 4 to 3 at index 2");
  write_numbers("q", {0, 4, 4, 8});
  refuses_packed("ends at 8, but query " + file("query").string() + " (4, 9, 16) has 9 rows");
  write_numbers("q", {0, 4, 4, 9});
  refuses_packed(
      "ends at 9, but query " + file("query").string() +
          " (4, 9, 16) has 4 rows, as --layout bshd reads it; --layout bhsd takes (heads, rows, dim)",
      {"--layout", "bshd"});
  write_numbers("k", {0, 6, 13});
  refuses_packed("k.npy has 2 sequences");
  write_numbers("k", {});
  refuses_packed("shape (0,) does not fit --cumulative-kv-lengths");
  write_npy(file("k"), ElementType::kInt32, {2, 2}, std::vector<std::int32_t>{0, 6, 8, 13});
  refuses_packed("shape (2, 2) does not fit --cumulative-kv-lengths");
  write_npy(file("k"), ElementType::kFloat32, {4}, std::vector<float>{0, 6, 8, 13});
  refuses_packed("float32, but --cumulative-kv-lengths needs int32");
  refuses({"--cumulative-query-lengths", file("q").string()},
          "has 3 sequences but key " + file("key").string() +
              " (2, 13, 16) has batch size 1; where keys are packed too, give --cumulative-kv-lengths");
  write("query", {1, 4, 9, 16});
  write("key", {1, 2, 13, 16});
  write("value", {1, 2, 13, 8});
  refuses_packed("has rank 4, but packed sequences have no batch axis");
}

TEST_F(ToolSequenceRefusals, OptionsThatDoNotGoTogether) {
  const std::string f = file("q").string();
  refuses({"--cumulative-kv-lengths", f}, "give --cumulative-query-lengths with it");
  refuses({"--cumulative-query-lengths", f, "--query-lengths", f}, "leave out --query-lengths");
  refuses_packed("leave out --kv-lengths", {"--kv-lengths", f});
  refuses_packed("--cumulative-kv-lengths packs these", {"--past-key", f, "--past-value", f});
  refuses_packed("would overwrite the file of --cumulative-kv-lengths", {"--output", file("k").string()});
  refuses_packed("would overwrite the file of --cumulative-query-lengths", {"--lse", f});
  write_npy(file("mask"), ElementType::kBool, {9, 13}, std::vector<std::uint8_t>(9 * 13));
  refuses_packed("does not broadcast to the scores (3, 4, 5, 6)", {"--mask", file("mask").string()});
}

}  // namespace
}  // namespace vkattn::tests
