// A covering set of appends: every two choices of storage, dims, rotation, place, lengths and memory meet in
// one of them. cache_test.cpp and rotary_test.cpp test extreme values.
#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "gpu/cache_run.hpp"
#include "support/pairwise.hpp"

namespace vkattn::tests {
namespace {

enum Factor : std::size_t {
  kSource,
  kCache,
  kDims,
  kRotary,
  kPlace,
  kLengths,
  kPositions,
  kMemory,
  kLayout,
  kQueries,
  kWritesLengths,
  kPushes,
  kFactorCount,
};

constexpr std::array kSources{DataType::kFloat32, DataType::kFloat16, DataType::kBfloat16};

struct CacheTypes {
  DataType key, value;
};
constexpr std::array<CacheTypes, 7> kCaches{{{DataType::kFloat32, DataType::kFloat32},
                                             {DataType::kFloat16, DataType::kFloat16},
                                             {DataType::kBfloat16, DataType::kBfloat16},
                                             {DataType::kQ8_0, DataType::kQ8_0},
                                             {DataType::kQ4_0, DataType::kQ4_0},
                                             {DataType::kFloat8E4m3, DataType::kFloat8E4m3},
                                             {DataType::kQ8_0, DataType::kFloat16}}};

/// The dims of keys and values. In blocks they are rounded to multiples of 32.
struct Dims {
  std::int64_t head, value;
};
constexpr std::array<Dims, 5> kHeadDims{{{64, 32}, {7, 13}, {96, 44}, {36, 20}, {576, 1}}};

enum class Turned { kNothing, kAll, kSome };
struct Rotation {
  RotaryStyle style;
  Turned turned;
};
constexpr std::array<Rotation, 5> kRotations{{{RotaryStyle::kNone, Turned::kNothing},
                                              {RotaryStyle::kInterleaved, Turned::kAll},
                                              {RotaryStyle::kInterleaved, Turned::kSome},
                                              {RotaryStyle::kHalfSplit, Turned::kAll},
                                              {RotaryStyle::kHalfSplit, Turned::kSome}}};

constexpr std::size_t kRing = 1;  ///< value of kPlace; kPlace is contiguous, a ring, or pages
constexpr std::array<std::int64_t, 5> kRows{0, 4, 1, 3, 16};  ///< rows of the ring or of a page

struct Memory {
  std::uint32_t alignment;
  std::int64_t shift;
};
constexpr std::array<Memory, 4> kMemories{{{16, 0}, {0, 0}, {0, 1}, {0, 3}}};

constexpr std::array kLayouts{Layout::kBhsd, Layout::kBshd, Layout::kPackedQkv};
constexpr std::size_t kPadded = kLayouts.size();

enum QueryKind : std::size_t { kNoQueries, kToAnother, kToFloat32, kInPlace, kQueryKindCount };

const std::vector<std::size_t> kSizes{kSources.size(),
                                      kCaches.size(),
                                      kHeadDims.size(),
                                      kRotations.size(),
                                      kRows.size(),
                                      3,
                                      2,
                                      kMemories.size(),
                                      kPadded + 1,
                                      kQueryKindCount,
                                      2,
                                      2};

bool has_blocks(DataType type) {
  return block_elements(type) > 1;
}

std::int64_t in_whole_blocks(std::int64_t dims, DataType type) {
  return has_blocks(type) ? (dims + 31) / 32 * 32 : dims;
}

/// In blocks the dims of half-split pairs are a multiple of 8. Other dims need not be a multiple of 4.
void turn(AppendDesc& desc, const Rotation& rotation) {
  desc.rotary.style = rotation.style;
  const bool whole = rotation.turned == Turned::kAll;
  const std::int64_t some = desc.head_dim * 3 / 4;
  desc.rotary.dims = (whole                                       ? desc.head_dim
                      : rotation.style == RotaryStyle::kHalfSplit ? some
                                                                  : some - 1) /
                     2 * 2;
}

void place(AppendCase& test, std::size_t choice) {
  const std::int64_t rows = kRows[choice];
  if (choice == kRing) {
    use_ring(test, rows);
  } else if (choice > kRing) {
    use_pages(test, rows, 12 / rows + 1);
  }
}

/// Elements lie two apart, and free elements follow rows, heads and batch entries.
Strides padded(DataType type, const TensorExtents& e) {
  const std::int64_t dim = has_blocks(type) ? 1 : 2, free = has_blocks(type) ? 32 : 3;
  const std::int64_t row = e.dims * dim + free, head = row * e.rows + free;
  return {head * e.heads + free, head, row, dim};
}

void pad(AppendDesc& desc) {
  desc.key.strides = padded(desc.key.type, new_row_extents(desc, desc.kv_heads, desc.head_dim));
  desc.value.strides = padded(desc.value.type, new_row_extents(desc, desc.kv_heads, desc.value_dim));
  desc.query.strides = padded(desc.query.type, new_row_extents(desc, desc.query_heads, desc.head_dim));
  desc.cache_key.strides = padded(desc.cache_key.type, cache_extents(desc, desc.head_dim));
  desc.cache_value.strides = padded(desc.cache_value.type, cache_extents(desc, desc.value_dim));
}

/// Three batch entries with up to 5 new rows, for 12 or more positions.
AppendCase case_of(const FactorRow& row) {
  const CacheTypes& types = kCaches[row[kCache]];
  AppendCase test = small_append(kSources[row[kSource]], types.key);
  AppendDesc& desc = test.desc;
  desc.cache_value.type = types.value;
  desc.head_dim = in_whole_blocks(kHeadDims[row[kDims]].head, types.key);
  desc.value_dim = in_whole_blocks(kHeadDims[row[kDims]].value, types.value);
  turn(desc, kRotations[row[kRotary]]);
  place(test, row[kPlace]);
  desc.new_lengths = std::array{Lengths::kUniform, Lengths::kPerEntry, Lengths::kPacked}[row[kLengths]];
  if (desc.new_lengths == Lengths::kPerEntry) test.new_lengths = {3, 0, 5};
  if (desc.new_lengths == Lengths::kPacked) use_packed(test, {1, 4, 4, 9}, 11);
  desc.position = 4;
  if (row[kPositions] == 1) {
    desc.has_positions = true;
    const bool far = row[kPlace] == kRing && desc.rotary.style == RotaryStyle::kNone;
    test.positions = {0, 3, far ? 2'000'000'001 : 7};
  }
  desc.query_heads = row[kQueries] == kNoQueries ? 0 : 2;
  desc.query.type = desc.query_output.type = kSources[row[kSource]];
  if (row[kQueries] == kToFloat32) desc.query_output.type = DataType::kFloat32;
  promise_alignment(desc, kMemories[row[kMemory]].alignment);
  test.shift = kMemories[row[kMemory]].shift;
  if (row[kLayout] == kPadded) {
    pad(desc);
  } else {
    desc.set_layout(kLayouts[row[kLayout]]);
  }
  desc = desc.resolved();
  test.in_place = row[kQueries] == kInPlace;
  if (test.in_place) desc.query_output = desc.query;
  desc.writes_kv_lengths = row[kWritesLengths] == 1;
  test.push_descriptors = row[kPushes] == 1;
  return test;
}

using CachePairs = AppendTest;

TEST_F(CachePairs, OfAppends) {
  std::uint64_t seed = 0;
  for (const FactorRow& row : pairwise_rows(kSizes, 1984)) {
    AppendCase test = case_of(row);
    test.seed = ++seed;
    test.push_descriptors = test.push_descriptors && capabilities().push_descriptors;
    expect_right(test, testing::PrintToString(row));
  }
}

}  // namespace
}  // namespace vkattn::tests
