// What a probe found of accumulators becomes constants: made-up layouts, as drivers have them and as none
// has.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <functional>
#include <numeric>
#include <random>
#include <vector>

#include "kernels/row_layout.hpp"
#include "made_up_device.hpp"
#include "shared/attention_constants.h"
#include "shared/row_probe_constants.h"
#include "support/must.hpp"
#include "vkattn_core_shaders.hpp"
#include "vulkan/shader_code.hpp"

namespace vkattn::tests {
namespace {

using namespace detail;

/// The row and column of a component of a lane.
struct Place {
  std::uint32_t row = 0, column = 0;
};
using PlaceOf = std::function<Place(std::uint32_t lane, std::uint32_t component)>;

/// The words that one subgroup of a probe would write.
std::vector<std::uint32_t> words_of_subgroup(const RowLayout& sizes, const PlaceOf& scores,
                                             const PlaceOf& sums) {
  const std::uint32_t score_count = sizes.rows * sizes.score_columns / sizes.lanes;
  const std::uint32_t sum_count = sizes.rows * sizes.sum_columns / sizes.lanes;
  std::vector<std::uint32_t> words{score_count, sum_count, sizes.lanes};
  for (std::uint32_t lane = 0; lane < sizes.lanes; ++lane) {
    const auto add = [&](const PlaceOf& place, std::uint32_t count, std::uint32_t columns) {
      for (std::uint32_t i = 0; i < count; ++i) {
        const Place at = place(lane, i);
        words.push_back(at.row * columns + at.column);
      }
    };
    add(scores, score_count, sizes.score_columns);
    add(sums, sum_count, sizes.sum_columns);
  }
  return words;
}

/// The words of a probe whose subgroups all find the same.
std::vector<std::uint32_t> in_all_subgroups(const std::vector<std::uint32_t>& one) {
  std::vector<std::uint32_t> words;
  for (int i = 0; i < VKATTN_PROBE_SUBGROUPS; ++i) words.insert(words.end(), one.begin(), one.end());
  return words;
}
std::vector<std::uint32_t> words_of(const RowLayout& sizes, const PlaceOf& scores, const PlaceOf& sums) {
  return in_all_subgroups(words_of_subgroup(sizes, scores, sums));
}

constexpr RowLayout sizes_of(std::uint32_t rows, std::uint32_t score_columns, std::uint32_t sum_columns,
                             std::uint32_t lanes) {
  return {.rows = rows, .score_columns = score_columns, .sum_columns = sum_columns, .lanes = lanes};
}

/// m16n8 of NVIDIA's mma: a quad of lanes shares rows lane / 4 and lane / 4 + 8. Larger matrices are rows of
/// such tiles, `by_rows`, or columns of them.
PlaceOf nvidia(std::uint32_t rows, std::uint32_t columns, bool by_rows = true) {
  return [=](std::uint32_t lane, std::uint32_t i) -> Place {
    const std::uint32_t tile = i / 4;
    const std::uint32_t tile_row = by_rows ? tile / (columns / 8) : tile % (rows / 16);
    const std::uint32_t tile_column = by_rows ? tile % (columns / 8) : tile / (rows / 16);
    return {tile_row * 16 + lane / 4 + i / 2 % 2 * 8, tile_column * 8 + lane % 4 * 2 + i % 2};
  };
}

TEST(RowLayouts, OfNvidia) {
  const RowLayout sizes = sizes_of(16, 64, 16, 32);
  const RowLayout one = decode_row_layout(sizes, words_of(sizes, nvidia(16, 64), nvidia(16, 16)));
  EXPECT_EQ(one, (RowLayout{16, 64, 16, 32, 2, 3, 1, 1}));
  EXPECT_TRUE(is_usable(one));
  // 32 rows: tiles of scores in rows, those of sums in columns.
  const RowLayout wide = sizes_of(32, 32, 16, 32);
  const RowLayout two = decode_row_layout(wide, words_of(wide, nvidia(32, 32), nvidia(32, 16, false)));
  EXPECT_EQ(two, (RowLayout{32, 32, 16, 32, 4, 3, 1 | 4 << 4, 1 | 2 << 4}));
  EXPECT_TRUE(is_usable(two));
  // Sums in which other bits stand for rows 8 and 16 further down: their order follows from the rows.
  const PlaceOf exchanged = [](std::uint32_t lane, std::uint32_t i) {
    return nvidia(32, 16, false)(lane, (i & ~6U) | (i >> 1U & 1U) << 2U | (i >> 2U & 1U) << 1U);
  };
  EXPECT_EQ(decode_row_layout(wide, words_of(wide, nvidia(32, 32), exchanged)),
            (RowLayout{32, 32, 16, 32, 4, 3, 1 | 4 << 4, 2 | 1 << 4}));
  // 48 columns: the number of components is no power of two, and the bits of rows are below it.
  const RowLayout odd = sizes_of(32, 48, 16, 32);
  EXPECT_EQ(decode_row_layout(odd, words_of(odd, nvidia(32, 48, false), nvidia(32, 16))).score_row_bits,
            1U | 2U << 4U);
  // With tiles in rows, row 1 begins at component 24, which is no bit.
  EXPECT_EQ(decode_row_layout(odd, words_of(odd, nvidia(32, 48), nvidia(32, 16))).lane_rows, 0U);
}

TEST(RowLayouts, OfAmd) {
  const RowLayout sizes = sizes_of(16, 16, 16, 32);
  const PlaceOf rdna3 = [](std::uint32_t lane, std::uint32_t i) -> Place {
    return {2 * i + lane / 16, lane % 16};
  };
  EXPECT_EQ(decode_row_layout(sizes, words_of(sizes, rdna3, rdna3)),
            (RowLayout{16, 16, 16, 32, 8, 15, 0x210, 0x210}));
  const PlaceOf rdna4 = [](std::uint32_t lane, std::uint32_t i) -> Place {
    return {lane / 16 * 8 + i, lane % 16};
  };
  EXPECT_EQ(decode_row_layout(sizes, words_of(sizes, rdna4, rdna4)),
            (RowLayout{16, 16, 16, 32, 8, 15, 0x210, 0x210}));
  // Transposed, a lane has half of one row.
  const PlaceOf across = [](std::uint32_t lane, std::uint32_t i) -> Place {
    return {lane % 16, lane / 16 * 8 + i};
  };
  EXPECT_EQ(decode_row_layout(sizes, words_of(sizes, across, across)),
            (RowLayout{16, 16, 16, 32, 1, 16, 0, 0}));
  // Scores one way and sums the other: no lane has the same rows of both.
  EXPECT_EQ(decode_row_layout(sizes, words_of(sizes, rdna4, across)).lane_rows, 0U);
  EXPECT_EQ(decode_row_layout(sizes, words_of(sizes, rdna4, rdna3)).lane_rows, 0U);
}

TEST(RowLayouts, OfLavapipe) {
  // A lane is a column; tiles of 8 x 8 lie in rows.
  const auto place = [](std::uint32_t columns) -> PlaceOf {
    return [=](std::uint32_t lane, std::uint32_t i) -> Place {
      const std::uint32_t tile = i / 8;
      return {tile / (columns / 8) * 8 + i % 8, tile % (columns / 8) * 8 + lane};
    };
  };
  const RowLayout sizes = sizes_of(32, 16, 8, 8);
  EXPECT_EQ(decode_row_layout(sizes, words_of(sizes, place(16), place(8))),
            (RowLayout{32, 16, 8, 8, 32, 7, 0x54210, 0x43210}));
}

/// Which rows a lane has, and in which columns, does not matter.
TEST(RowLayouts, PermutedRowsAndColumns) {
  const RowLayout sizes = sizes_of(32, 32, 16, 32);
  for (std::uint32_t seed = 0; seed < 20; ++seed) {
    std::mt19937 random(seed);
    const auto permutation = [&](std::uint32_t count) {
      std::vector<std::uint32_t> order(count);
      std::iota(order.begin(), order.end(), 0U);
      std::ranges::shuffle(order, random);
      return order;
    };
    const auto rows = permutation(32), score_columns = permutation(32), sum_columns = permutation(16);
    const auto permuted = [&](const PlaceOf& from, const std::vector<std::uint32_t>& columns) -> PlaceOf {
      return [&, from](std::uint32_t lane, std::uint32_t i) -> Place {
        const Place at = from(lane, i);
        return {rows[at.row], columns[at.column]};
      };
    };
    const auto words = words_of(sizes, permuted(nvidia(32, 32), score_columns),
                                permuted(nvidia(32, 16, false), sum_columns));
    const RowLayout layout = decode_row_layout(sizes, words);
    EXPECT_TRUE(is_usable(layout)) << seed;
    EXPECT_EQ(layout.lane_bits, 3U);
    // The bits stand in one order for scores and sums, whichever that is.
    const auto row_of = [&](std::uint32_t component, std::uint32_t bits) {
      return (component >> (bits & 15U) & 1U) | (component >> (bits >> 4U & 15U) & 1U) << 1U;
    };
    for (std::uint32_t lane = 0; lane < 32; ++lane) {
      for (std::uint32_t a = 0; a < 32; ++a) {
        for (std::uint32_t b = 0; b < 16; ++b) {
          EXPECT_EQ(nvidia(32, 32)(lane, a).row == nvidia(32, 16, false)(lane, b).row,
                    row_of(a, layout.score_row_bits) == row_of(b, layout.sum_row_bits));
        }
      }
    }
  }
}

/// Layouts that the constants cannot tell are not used.
TEST(RowLayouts, NonsenseIsNotUsed) {
  const RowLayout sizes = sizes_of(16, 16, 16, 32);
  const auto good = words_of_subgroup(sizes, nvidia(16, 16), nvidia(16, 16));
  ASSERT_NE(decode_row_layout(sizes, in_all_subgroups(good)).lane_rows, 0U);
  const auto is_refused = [&](const char* what, const std::vector<std::uint32_t>& words) {
    const RowLayout layout = decode_row_layout(sizes, words);
    EXPECT_EQ(layout, sizes) << what;
    EXPECT_FALSE(is_usable(layout)) << what;
  };
  const auto refused = [&](const char* what, const std::function<void(std::vector<std::uint32_t>&)>& change) {
    std::vector<std::uint32_t> words = good;
    change(words);
    is_refused(what, in_all_subgroups(words));
  };
  constexpr std::size_t kFirst = VKATTN_PROBE_FIRST_NUMBER;
  refused("nothing was written", [](auto& words) { std::ranges::fill(words, ~0U); });
  refused("zeros", [](auto& words) { std::ranges::fill(words, 0U); });
  refused("too few words", [](auto& words) { words.pop_back(); });
  refused("too many words", [](auto& words) { words.push_back(0); });
  refused("another number of components", [](auto& words) { words[VKATTN_PROBE_SCORE_COMPONENTS] = 16; });
  refused("another number of components", [](auto& words) { words[VKATTN_PROBE_SUM_COMPONENTS] = 4; });
  refused("another subgroup", [](auto& words) { words[VKATTN_PROBE_SUBGROUP_SIZE] = 64; });
  refused("an element twice", [](auto& words) { words[kFirst] = words[kFirst + 1]; });
  refused("an element beyond the last", [](auto& words) { words[kFirst] = 256; });
  // 16 words a lane. Two rows of one lane change places, in scores alone.
  refused("lanes differ", [](auto& words) {
    for (const std::size_t at : {0U, 1U, 4U, 5U})
      std::swap(words[kFirst + 16 + at], words[kFirst + 16 + at + 2]);
  });
  refused("components differ", [](auto& words) { std::swap(words[kFirst], words[kFirst + 2]); });
  refused("a lane differs in components that no other number follows from",
          [](auto& words) { std::swap(words[kFirst + 16 + 1], words[kFirst + 16 + 3]); });
  refused("lanes share rows in another way", [](auto& words) {
    std::swap_ranges(words.begin() + kFirst + 16, words.begin() + kFirst + 32, words.begin() + kFirst + 64);
  });
  refused("anything",
          [](auto& words) { std::shuffle(words.begin() + kFirst, words.end(), std::mt19937(1)); });
  // One subgroup of several wrote nothing, or a layout that would do if all had it.
  const PlaceOf other = [](std::uint32_t lane, std::uint32_t i) {
    return nvidia(16, 16)(lane, (i & ~3U) | (i & 1U) << 1U | (i >> 1U & 1U));
  };
  ASSERT_NE(decode_row_layout(sizes, words_of(sizes, other, other)).lane_rows, 0U);
  for (const auto& last : {std::vector(good.size(), ~0U), words_of_subgroup(sizes, other, other)}) {
    auto words = in_all_subgroups(good);
    std::ranges::copy(last, words.end() - static_cast<std::ptrdiff_t>(last.size()));
    is_refused("subgroups differ", words);
    std::rotate(words.begin(), words.end() - static_cast<std::ptrdiff_t>(last.size()), words.end());
    is_refused("subgroups differ", words);
  }
  // More rows than five bits tell.
  const RowLayout many = sizes_of(64, 8, 8, 8);
  const PlaceOf column = [](std::uint32_t lane, std::uint32_t i) -> Place { return {i, lane}; };
  EXPECT_EQ(decode_row_layout(many, words_of(many, column, column)).lane_rows, 0U);
  // Sizes that divide by nothing.
  for (const RowLayout& bad : {sizes_of(0, 16, 16, 32), sizes_of(16, 16, 16, 0), sizes_of(16, 16, 16, 24),
                               sizes_of(1, 16, 8, 32), sizes_of(65536, 65536, 16, 32)}) {
    EXPECT_EQ(decode_row_layout(bad, {}).lane_rows, 0U);
    EXPECT_FALSE(is_usable(bad));
  }
}

/// NVIDIA's device with matrices of the layout that a probe found.
Capabilities probed(const RowLayout& layout) {
  return changed(with_workgroup_scope(), [&](Capabilities& c) {
    c.subgroup_shuffle = c.subgroup_vote = true;
    c.row_layouts = {layout};
  });
}

TEST(RowLayouts, AreUsedWhereBlockSizesAskForThem) {
  const RowLayout layout{32, 32, 16, 32, 4, 3, 1 | 4 << 4, 1 | 2 << 4};
  const AttentionDesc desc = desc_of("h8 1024x1024 d128 f16");
  const TileSizes tile{0, 4, 4, 32, 32, 0};
  const KernelConfig config = must(configure_matrix2(desc, probed(layout), {&tile, 1}));
  EXPECT_EQ(config.shader, "attention_matrix2_staged_lanes");
  EXPECT_EQ(config.tile, tile);
  EXPECT_EQ(config.rows_per_workgroup, 128U);
  EXPECT_LE(config.shared_bytes, 49152U);
  EXPECT_TRUE(has(config.summary, "numbers of 4 rows in a lane, queries of 32 of 128 dims in registers"));
  for (const auto& [id, value] : {std::pair{VKATTN_SPEC_LANE_ROWS_COUNT, 4U},
                                  {VKATTN_SPEC_LANE_ROWS_LANE_BITS, 3U},
                                  {VKATTN_SPEC_LANE_ROWS_SCORE_BITS, 0x41U},
                                  {VKATTN_SPEC_LANE_ROWS_SUM_BITS, 0x21U},
                                  {VKATTN_SPEC_MATRIX2_HELD_BLOCKS, 2U},
                                  {VKATTN_SPEC_MATRIX_SUBGROUP_SIZE, 32U}})
    EXPECT_EQ(constant(config, static_cast<std::uint32_t>(id)), value);

  const auto reason = [&](const Capabilities& c) {
    const auto chosen = configure_matrix2(desc, c, {&tile, 1});
    return chosen.ok() ? std::string() : chosen.error().message;
  };
  EXPECT_TRUE(has(reason(with_workgroup_scope()), "subgroup shuffles"));
  EXPECT_TRUE(
      has(reason(changed(probed(layout), [](auto& c) { c.subgroup_vote = false; })), "subgroup votes"));
  EXPECT_TRUE(has(reason(changed(probed(layout), [](auto& c) { c.row_layouts.clear(); })), "need a probe"));
  EXPECT_TRUE(has(reason(probed(sizes_of(32, 32, 16, 32))), "lie in another way"));
  RowLayout other = layout;
  other.lane_bits = 11;  // 8 lanes share rows, of which each then has twice as many
  other.lane_rows = 8;
  EXPECT_TRUE(has(reason(probed(other)), "8 lanes share a row"));
  for (const auto change :
       {+[](RowLayout& l) { l.lane_rows = 3; }, +[](RowLayout& l) { l.lane_rows = 64; },
        +[](RowLayout& l) { l.lane_bits = 35; }, +[](RowLayout& l) { l.lane_bits = 0; }}) {
    RowLayout impossible = layout;
    change(impossible);
    EXPECT_TRUE(has(reason(probed(impossible)), "lie in another way"));
  }
}

TEST(RowLayouts, ScoresATileAheadAreForNarrowHeads) {
  const Capabilities device = probed({32, 32, 16, 32, 4, 3, 1 | 4 << 4, 1 | 2 << 4});
  const auto configure = [&](const char* problem, const TileSizes& tile) {
    return configure_matrix2(desc_of(problem), device, {&tile, 1});
  };
  const TileSizes ahead{0, 4, 4, 32, 32, 64};
  const KernelConfig config = must(configure("h8 1024x1024 d64 f16", ahead));
  EXPECT_EQ(config.tile, ahead);
  EXPECT_EQ(config.shader, "attention_matrix2_staged_lanes");
  EXPECT_EQ(config.shared_bytes, 18432U);
  EXPECT_TRUE(has(config.summary, "queries of 64 of 64 dims in registers, scores a tile ahead"));
  EXPECT_EQ(constant(config, VKATTN_SPEC_MATRIX2_SCORES_AHEAD), 1U);
  const KernelConfig without = must(configure("h8 1024x1024 d64 f16", {0, 4, 4, 32, 32, 0}));
  EXPECT_EQ(constant(without, VKATTN_SPEC_MATRIX2_SCORES_AHEAD), 0U);
  EXPECT_EQ(without.shared_bytes, config.shared_bytes);
  // Scores of two tiles leave fewer registers for queries.
  const KernelConfig wide = must(configure("h8 1024x1024 d112 f16", {0, 4, 4, 32, 32, 112}));
  EXPECT_LT(constant(wide, VKATTN_SPEC_MATRIX2_HELD_BLOCKS),
            constant(must(configure("h8 1024x1024 d112 f16", {0, 4, 4, 32, 32, 0})),
                     VKATTN_SPEC_MATRIX2_HELD_BLOCKS));
  EXPECT_TRUE(is_refused(configure("h8 1024x1024 d65 f16", ahead), ErrorCode::kUnsupported,
                         {"dims 64", "heads have 65 dims"}));
  for (const TileSizes& other : {TileSizes{0, 4, 0, 16, 64, 64}, TileSizes{128, 0, 0, 64, 64, 64}}) {
    EXPECT_TRUE(
        is_refused(configure("h8 1024x1024 d64 f16", other), ErrorCode::kUnsupported, {"columns is 0"}));
  }
}

/// No GPU has measured the form, so it is a candidate for tuning, and nobody's default.
TEST(RowLayouts, AreNoDefault) {
  const Capabilities device =
      changed(probed({32, 32, 16, 32, 4, 3, 0x41, 0x21}), [](auto& c) { c.matrix2_workgroup_scope = false; });
  for (const auto& [problem, forms] :
       {std::pair{"h8 1024x1024 d64 f16", 2U}, {"h8 1024x1024 d128 f16 page=16", 1U}, {"4x4 d128 f16", 1U}}) {
    const AttentionDesc desc = desc_of(problem);
    const KernelConfig config = must(configure_matrix2(desc, device, table_tiles("matrix2", desc, device)));
    EXPECT_EQ(config.tile.columns, 0U) << problem;
    if (!built_shader(shader_binaries(), "attention_matrix2_staged_lanes")) continue;  // no candidate either
    std::size_t found = 0;
    for (const KernelTile& candidate : tuning_candidates(desc, device)) found += candidate.tile.columns == 4;
    EXPECT_EQ(found, forms) << problem << ": the one whose layout is known, and with scores a tile ahead";
    found = 0;
    for (const KernelTile& candidate : tuning_candidates(desc, with_workgroup_scope()))
      found += candidate.tile.columns == 4;
    EXPECT_EQ(found, 0U) << problem;
  }
}

}  // namespace
}  // namespace vkattn::tests
