// `vkattn run` with keys in rings, in pages, and of one batch entry for all. Each gives the same as the keys
// in one piece. Arrays that do not fit are refused.
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "npy.hpp"
#include "tool_run.hpp"

namespace vkattn::tests {
namespace {

using Values = std::vector<float>;
using Integers = std::vector<std::int32_t>;

/// An array of keys, (entries, 2 heads, rows, dim), or with the heads after the rows.
struct Keys {
  std::int64_t entries, rows, dim;
  bool heads_last = false;

  [[nodiscard]] Shape shape() const {
    return heads_last ? Shape{entries, rows, 2, dim} : Shape{entries, 2, rows, dim};
  }
  [[nodiscard]] std::size_t at(std::int64_t entry, std::int64_t head, std::int64_t row) const {
    const std::int64_t place = heads_last ? (entry * rows + row) * 2 + head : (entry * 2 + head) * rows + row;
    return static_cast<std::size_t>(place * dim);
  }
};

/// Queries (2, 4, 9, 16), keys (2, 2, 13, 16), values (2, 2, 13, 8).
class ToolCaches : public ToolRun {
 protected:
  /// The entry and row of one key in two arrays.
  struct Move {
    std::int64_t to_entry, to_row, from_entry, from_row;
  };
  /// Writes an array with rows of another array. The other rows have numbers that must not matter.
  void write_moved(const std::string& name, const Keys& to, const Values& values, const Keys& from,
                   const std::vector<Move>& moves) const {
    Values moved(element_count(to.shape()), 1e3F);
    for (const Move& move : moves) {
      for (std::int64_t head = 0; head < 2; ++head) {
        const std::size_t source = from.at(move.from_entry, head, move.from_row);
        const std::size_t target = to.at(move.to_entry, head, move.to_row);
        for (std::size_t d = 0; d < static_cast<std::size_t>(to.dim); ++d)
          moved[target + d] = values[source + d];
      }
    }
    write(name, to.shape(), moved);
  }
};

/// A ring of 13: in one entry the last 13 of 20 keys exist, in the other 7 keys do not fill the ring.
TEST_F(ToolCaches, RingsHaveTheLastKeys) {
  const std::string options = "--causal --align bottom-right --window 6,0 --alibi ";
  write_list("lengths", Integers{13, 7});
  const Values expected = output_of(options + "--kv-lengths lengths.npy");
  std::vector<Move> moves;
  for (std::int64_t key = 7; key < 20; ++key) moves.push_back({0, key % 13, 0, key - 7});
  for (std::int64_t key = 0; key < 7; ++key) moves.push_back({1, key, 1, key});
  for (const auto& [name, dim] : {std::pair("key", 16), std::pair("value", 8)}) {
    const Keys keys{2, 13, dim};
    write_moved(name, keys, values(name), keys, moves);
  }
  write_list("had", std::vector<std::int64_t>{20, 7});
  expect_near(output_of(options + "--ring-lengths had.npy --weights weights.npy"), expected);
  EXPECT_EQ(shape("weights"), (Shape{2, 4, 9, 20}));
}

/// 13 and 6 keys in pages of 4, in any order. Entries of the table after the used ones may hold anything.
TEST_F(ToolCaches, PagesHaveTheKeysOfTheirTable) {
  write_list("lengths", Integers{13, 6});
  const std::string options = "--causal --align bottom-right --kv-lengths lengths.npy ";
  const Values expected = output_of(options);
  const Integers table = {5, 0, 3, 6, 1, 4, -1, 99};
  const std::vector<std::int64_t> lengths = {13, 6};
  std::vector<Move> moves;
  for (std::int64_t entry = 0; entry < 2; ++entry) {
    for (std::int64_t key = 0; key < lengths[static_cast<std::size_t>(entry)]; ++key) {
      const std::int64_t page = table[static_cast<std::size_t>(entry * 4 + key / 4)];
      moves.push_back({page, key % 4, entry, key});
    }
  }
  write("table", {2, 4}, table);
  const Values key = values("key"), value = values("value"), query = values("query");
  for (const bool heads_last : {false, true}) {
    write_moved("key", {7, 4, 16, heads_last}, key, {2, 13, 16}, moves);
    write_moved("value", {7, 4, 8, heads_last}, value, {2, 13, 8}, moves);
    if (!heads_last) {
      expect_near(output_of(options + "--page-table table.npy"), expected);
      expect_checked(options + "--page-table table.npy --kv-type e4m3");
      continue;
    }
    Values turned_query;
    for (std::size_t n = 0; n < query.size(); ++n) {
      const std::size_t dim = n % 16, head = n / 16 % 4, row = n / 64 % 9, entry = n / 576;
      turned_query.push_back(query[((entry * 4 + head) * 9 + row) * 16 + dim]);
    }
    write("query", {2, 9, 4, 16}, turned_query);
    const Values out = output_of(options + "--page-table table.npy --layout bshd");
    for (std::size_t n = 0; n < out.size(); ++n) {
      const std::size_t dim = n % 8, head = n / 8 % 4, row = n / 32 % 9, entry = n / 288;
      ASSERT_NEAR(out[n], expected[((entry * 4 + head) * 9 + row) * 8 + dim], 1e-5F);
    }
  }
}

/// The packed queries of two sequences over pages.
TEST_F(ToolCaches, PagesServePackedQueries) {
  write_inputs({4, 9, 16}, {2, 2, 8, 16}, {2, 2, 8, 8});
  write_list("ends", Integers{0, 3, 9});
  const std::string options = "--cumulative-query-lengths ends.npy --causal --align bottom-right ";
  const Values expected = output_of(options);
  write("table", {2, 1}, std::vector<std::uint8_t>{0, 1});
  EXPECT_EQ(output_of(options + "--page-table table.npy"), expected);
}

/// Keys of a single entry give the same as a copy of them for each entry.
TEST_F(ToolCaches, KeysOfOneEntryAreForAll) {
  write_noise("past_key", {1, 2, 5, 16});
  write_noise("past_value", {1, 2, 5, 8});
  write_noise("one_key", {1, 2, 13, 16});
  write_noise("one_value", {1, 2, 13, 8});
  for (const std::string name : {"past_key", "past_value", "one_key", "one_value"}) {
    const Values once = values(name);
    Values twice = once;
    twice.insert(twice.end(), once.begin(), once.end());
    Shape both = shape(name);
    both[0] = 2;
    write("both_" + name, both, twice);
  }
  const auto output = [&](const std::string& key, const std::string& value, const std::string& options) {
    static_cast<void>(printed("run --query query.npy --key " + key + ".npy --value " + value +
                              ".npy --check --output out.npy " + options));
    return values("out");
  };
  for (const std::string options : {"", "--causal --align bottom-right", "--kv-type e4m3"}) {
    const Values expected = output("both_one_key", "both_one_value", options);
    EXPECT_EQ(output("one_key", "one_value", options), expected) << options;
    EXPECT_EQ(output("both_one_key", "one_value", options), expected) << options;
  }
  const Values expected = output("both_one_key", "both_one_value",
                                 "--past-key both_past_key.npy --past-value both_past_value.npy");
  EXPECT_EQ(output("one_key", "one_value",
                   "--past-key past_key.npy --past-value past_value.npy --present-key new.npy"),
            expected);
  EXPECT_EQ(shape("new"), (Shape{1, 2, 18, 16}));
  const auto inspected_entry = inspected("--query query.npy --key one_key.npy --batch 1");
  EXPECT_EQ(inspected_entry["heads"],
            inspected("--query query.npy --key both_one_key.npy --batch 1")["heads"]);
}

using ToolCacheRefusals = RunFolder;

TEST_F(ToolCacheRefusals, AreOneSentence) {
  write_inputs({2, 4, 9, 16}, {2, 2, 4, 16}, {2, 2, 4, 8});
  write_noise("flat", {2, 4, 16});
  write_noise("more", {3, 2, 4, 8});
  write_list("list", Integers{0, 1});
  write("three", {3, 2}, Integers{0, 1, 0, 1, 0, 1});
  write("table", {2, 2}, Integers{0, 1, 1, 2});
  write<float>("floats", {2, 2}, {0, 1, 1, 0});
  write_list("lengths", Integers{8, 4});
  write_list("longer", Integers{9, 4});
  write_list("negative", Integers{3, -1});
  write_noise("grad", {2, 4, 9, 8});
  expect_refused(
      attend(""),
      {{"--page-table list.npy",
        "list.npy: shape (2,) does not fit --page-table; a row of pages for each "
        "batch entry is needed, so shape (2, pages)"},
       {"--page-table three.npy", "shape (3, 2) does not fit --page-table"},
       {"--page-table floats.npy", "the elements are float32; integers are needed"},
       {"--page-table table.npy",
        "table.npy: page 2 at index (1, 1) is not from 0 to 1, the pages of key key.npy (2, 2, 4, 16)"},
       {"--page-table table.npy --kv-lengths longer.npy",
        "length 9 at index 0 is not from 0 to 8, the length of a row of --page-table"},
       {"--ring-lengths negative.npy", "length -1 at index 1 is not from 0 to 1073741824"},
       {"--ring-lengths three.npy", "does not fit --ring-lengths; one length for each batch entry"}},
      kNoDevice);
  const std::string other = "run --query query.npy --key key.npy --value more.npy ";
  refuses(other, "differ in batch size: 2 and 3; give the latter as many entries, or one for all", 2,
          kNoDevice);
  refuses(other + "--page-table table.npy", "has 2 pages and value more.npy (3, 2, 4, 8) 3", 2, kNoDevice);
  refuses("run --query flat.npy --key flat.npy --value flat.npy --page-table table.npy",
          "has rank 3, but the pages of --page-table are (pages, heads, keys of a page, dim)", 2, kNoDevice);
  write_inputs({2, 4, 9, 16}, {1, 2, 4, 16}, {1, 2, 4, 8});
  const std::string gradients = attend("--grad-output grad.npy ");
  refuses(gradients + "--grad-key dk.npy",
          "--grad-key is a gradient for each batch entry, but key key.npy (1, 2, 4, 16) is one entry for 2",
          2, kNoDevice);
  refuses(gradients + "--grad-value dv.npy", "--grad-value is a gradient for each batch entry", 2, kNoDevice);
}

}  // namespace
}  // namespace vkattn::tests
