// `vkattn run` with packed sequences: each gives the same as it does alone. Arrays that do not fit are
// refused.
#include <string>
#include <utility>
#include <vector>

#include "npy.hpp"
#include "support/special_numbers.hpp"
#include "tool_run.hpp"

namespace vkattn::tests {
namespace {

using Values = std::vector<float>;
using Integers = std::vector<std::int32_t>;

const std::string kPackedQueries = "--cumulative-query-lengths ends_q.npy ";
const std::string kPacked = kPackedQueries + "--cumulative-kv-lengths ends_k.npy ";

/// The order of elements in arrays of (heads, rows, dim), or of (rows, heads, dim) if rows come first.
struct Order {
  bool rows_first = false;

  [[nodiscard]] Shape shape(std::int64_t rows, std::int64_t heads, std::int64_t dim) const {
    return rows_first ? Shape{rows, heads, dim} : Shape{heads, rows, dim};
  }
  /// Rows `first` to `end` of an array of that shape.
  [[nodiscard]] Values rows(const Values& values, const Shape& shape, std::int64_t first,
                            std::int64_t end) const {
    const std::int64_t rows = shape[rows_first ? 0 : 1], inner = rows_first ? shape[1] * shape[2] : shape[2];
    Values part;
    for (std::size_t n = 0; n < values.size(); ++n) {
      const std::int64_t row = static_cast<std::int64_t>(n) / inner % rows;
      if (row >= first && row < end) part.push_back(values[n]);
    }
    return part;
  }
  [[nodiscard]] std::string options() const {
    return std::string("--causal --align bottom-right --layout ") + (rows_first ? "bshd " : "bhsd ");
  }
};

/// Options for the three outputs, in files whose names end with the suffix.
std::string outputs(const std::string& suffix) {
  return "--output out" + suffix + ".npy --lse lse" + suffix + ".npy --weights weights" + suffix + ".npy ";
}

/// 4 query heads over 2 heads of keys. Sequences have 4, 0 and 5 queries, and 6, 2 and 5 keys.
class ToolSequences : public ToolRun {
 protected:
  const Integers query_ends_{0, 4, 4, 9}, key_ends_{0, 6, 8, 13};

  void SetUp() override {
    ToolRun::SetUp();
    if (IsSkipped()) return;
    write_list("ends_q", query_ends_);
    write_list("ends_k", std::vector<std::int64_t>(key_ends_.begin(), key_ends_.end()));
  }
  /// Compares the packed outputs with those of one sequence alone. `queries` are all queries. The files hold
  /// the keys of that sequence.
  void expect_sequence(std::size_t b, const Order& order, const Values& queries, std::int64_t keys) const {
    const std::int64_t first = query_ends_[b], end = query_ends_[b + 1];
    const Shape all = order.shape(9, 4, 16);
    write("query", order.shape(end - first, 4, 16), order.rows(queries, all, first, end));
    expect_checked(order.options() + outputs("_alone"));
    const Array out = read_npy(file("out")), weights = read_npy(file("weights"));
    expect_near(order.rows(out.values, out.shape, first, end), values("out_alone"));
    expect_near(Order{}.rows(values("lse"), {4, 9, 1}, first, end), values("lse_alone"));
    const Values alone = values("weights_alone");
    const std::int64_t most = weights.shape[3];
    ASSERT_EQ(weights.shape, (Shape{3, 4, 5, most}));
    for (std::int64_t n = 0; n < 4 * 5 * most; ++n) {
      const std::int64_t h = n / (5 * most), i = n / most % 5, j = n % most;
      const bool there = i < end - first && j < keys;
      const float expected =
          there ? alone[static_cast<std::size_t>((h * (end - first) + i) * keys + j)] : 0.0F;
      ASSERT_NEAR(weights.values[b * 4 * 5 * static_cast<std::size_t>(most) + static_cast<std::size_t>(n)],
                  expected, 1e-5F)
          << "sequence " << b << ", " << h << ", " << i << ", " << j;
    }
  }
};

TEST_F(ToolSequences, EachGivesWhatItGivesAlone) {
  for (const Order order : {Order{false}, Order{true}}) {
    const Shape query = order.shape(9, 4, 16), key = order.shape(13, 2, 16), value = order.shape(13, 2, 8);
    const Values q = noise(query, 1), k = noise(key, 2), v = noise(value, 3);
    write("query", query, q);
    write("key", key, k);
    write("value", value, v);
    expect_checked(order.options() + kPacked + outputs(""));
    EXPECT_EQ(shape("out"), order.shape(9, 4, 8));
    EXPECT_EQ(shape("lse"), (Shape{4, 9}));
    for (const std::size_t b : {std::size_t{0}, std::size_t{2}}) {
      const std::int64_t first = key_ends_[b], end = key_ends_[b + 1];
      write("key", order.shape(end - first, 2, 16), order.rows(k, key, first, end));
      write("value", order.shape(end - first, 2, 8), order.rows(v, value, first, end));
      expect_sequence(b, order, q, end - first);
    }
  }
}

/// As in continuous batching, keys keep their batch axis, lengths and a past.
TEST_F(ToolSequences, PackedQueriesOverPaddedKeys) {
  const Integers lengths = {7, 0, 11};
  write_list("lengths", lengths);
  for (const Order order : {Order{false}, Order{true}}) {
    const auto cache = [&](std::int64_t rows) {
      Shape shape = order.shape(rows, 2, 16);
      shape.insert(shape.begin(), 3);
      return shape;
    };
    const Shape query = order.shape(9, 4, 16);
    const Values q = noise(query, 1), now = noise(cache(5), 5);
    write("query", query, q);
    write("key", cache(5), now);
    write("value", cache(5), now);
    write("past", cache(6), noise(cache(6), 4));
    expect_checked(
        order.options() + kPackedQueries + outputs("") +
        "--kv-lengths lengths.npy --past-key past.npy --past-value past.npy --present-key present.npy");
    const Array present = read_npy(file("present"));
    ASSERT_EQ(present.shape, cache(11));
    for (const std::size_t b : {std::size_t{0}, std::size_t{2}}) {
      const auto entry = static_cast<std::ptrdiff_t>(present.values.size() / 3);
      const auto begin = present.values.begin() + static_cast<std::ptrdiff_t>(b) * entry;
      const Values keys = order.rows({begin, begin + entry}, order.shape(11, 2, 16), 0, lengths[b]);
      write("key", order.shape(lengths[b], 2, 16), keys);
      write("value", order.shape(lengths[b], 2, 16), keys);
      expect_sequence(b, order, q, lengths[b]);
    }
  }
}

TEST_F(ToolSequences, OneHeadAndNothingAtAll) {
  write_inputs({9, 16}, {13, 16}, {13, 8});
  expect_checked(kPacked + outputs(""));
  EXPECT_EQ(shape("out"), (Shape{9, 8}));
  EXPECT_EQ(shape("lse"), Shape{9});
  EXPECT_EQ(shape("weights"), (Shape{3, 1, 5, 6}));
  write_inputs({4, 0, 16}, {2, 0, 16}, {2, 0, 8});
  for (const char* const name : {"ends_q", "ends_k"}) write(name, {3}, Integers(3));
  static_cast<void>(printed(attend(kPacked + outputs(""))));
  EXPECT_EQ(shape("out"), (Shape{4, 0, 8}));
  EXPECT_EQ(shape("weights"), (Shape{2, 4, 0, 0}));
}

/// A sequence without keys leaves rows that see nothing. A sequence without queries leaves no row.
TEST_F(ToolSequences, SequencesWithoutKeys) {
  write_list<std::int32_t>("ends_q", {0, 4, 9});
  write_list<std::int32_t>("ends_k", {0, 0, 13});
  write_inputs({4, 9, 16}, {2, 13, 16}, {2, 13, 8});
  expect_checked(kPacked + outputs(""));
  const Values out = values("out"), lse = values("lse");
  for (std::size_t n = 0; n < out.size(); ++n) EXPECT_EQ(out[n] == 0, n / 8 % 9 < 4) << n;
  for (std::size_t n = 0; n < lse.size(); ++n) EXPECT_EQ(lse[n] == -kInfinity, n % 9 < 4) << n;
}

}  // namespace
}  // namespace vkattn::tests
