// The factors of the grid and how their values become problem strings.
#include "support/grid.hpp"

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdlib>
#include <iterator>
#include <map>
#include <set>
#include <string_view>
#include <utility>

#include "harness/data.hpp"
#include "support/pairwise.hpp"

namespace vkattn::tests {
namespace {

/// Factors that make another pipeline come first; the rest varies within a group.
enum Factor : std::size_t {
  kKernel,
  kDims,
  kTypes,
  kCausal,
  kLse,
  kLengths,
  kAligned,
  kQueryClass,
  kKeyClass,
  kPipelineFactors,
  kQueryLength = kPipelineFactors,
  kKeyLength,
  kHeads,
  kBatch,
  kLayout,
  kSpace,
  kScale,
  kData,
  kMagnitude,
  kOffset,
  kPattern,
  kFactors,
};

// Decode has rows of its own: see the covering and the full grid below.
constexpr std::array<std::string_view, 3> kKernels{"lane", "tile", "decode"};
constexpr std::size_t kDecode = 2;

struct Dims {
  int head, value;
};
constexpr std::array<Dims, 20> kDimValues{{{1, 1},     {3, 3},     {8, 8},     {16, 16},   {31, 31},
                                           {32, 32},   {40, 40},   {64, 64},   {65, 65},   {72, 72},
                                           {80, 80},   {96, 96},   {111, 111}, {128, 128}, {160, 160},
                                           {192, 128}, {256, 256}, {320, 256}, {576, 512}, {33, 576}}};

constexpr std::array<std::string_view, 7> kTypeWords{"f32",
                                                     "f16",
                                                     "bf16",
                                                     "query=f16 key=bf16 value=f32 output=f16",
                                                     "query=f32 key=f16 value=bf16 output=bf16",
                                                     "query=bf16 key=f32 value=f16 output=f32",
                                                     "f16 output=f32"};

constexpr std::array<std::string_view, 3> kCausalNames{"full", "offset", "right"};
constexpr std::array<std::string_view, 4> kOffsetWords{"causal", "causal align=-5", "causal align=7",
                                                       "causal align=100"};

/// Lengths around the edges of tiles, and the classes in which kernels tend to change their shape.
struct Length {
  int value;
  std::size_t length_class;
};
constexpr std::array<Length, 15> kQueryLengths{{{1, 0},
                                                {2, 0},
                                                {7, 0},
                                                {8, 0},
                                                {9, 0},
                                                {31, 1},
                                                {32, 1},
                                                {33, 1},
                                                {63, 1},
                                                {64, 1},
                                                {65, 1},
                                                {127, 1},
                                                {128, 1},
                                                {129, 1},
                                                {203, 1}}};
constexpr std::array<Length, 17> kKeyLengths{{{0, 0},
                                              {1, 0},
                                              {7, 0},
                                              {8, 0},
                                              {9, 0},
                                              {31, 0},
                                              {32, 1},
                                              {33, 1},
                                              {63, 1},
                                              {64, 1},
                                              {65, 1},
                                              {113, 1},
                                              {127, 1},
                                              {128, 2},
                                              {129, 2},
                                              {256, 2},
                                              {257, 2}}};

struct Heads {
  int query, kv;
};
constexpr std::array<Heads, 5> kHeadValues{{{1, 1}, {3, 3}, {4, 1}, {8, 2}, {5, 1}}};
constexpr std::array<std::string_view, 3> kLayoutWords{"", "layout=bshd", "layout=packed"};
/// Free elements after rows and before tensors. Multiples of 8 keep 16-byte loads of 16-bit types possible.
constexpr std::array<std::string_view, 4> kSpaceWords{"", "pad=3 shift=1", "pad=8", "shift=5"};
constexpr std::array<std::string_view, 4> kAlignedSpaceWords{"", "pad=8 shift=8", "pad=8", "pad=3"};
constexpr std::array<std::string_view, 4> kScaleWords{"", "scale=-0.2", "scale=3", "scale=0.01"};
constexpr std::array<std::string_view, 4> kDataWords{"", "data=uniform", "data=dominant", "data=equal"};
constexpr std::array<std::string_view, 5> kMagnitudeWords{"", "magnitude=1e-06", "magnitude=0.001",
                                                          "magnitude=10", "magnitude=1000"};
constexpr std::size_t kMagnitudeTiny = 1, kMagnitudeLarge = 3;
constexpr std::size_t kPatterns = 4;
constexpr std::size_t kQueryClasses = 2, kKeyClasses = 3;

std::vector<std::size_t> factor_sizes() {
  return {kKernels.size(),
          kDimValues.size(),
          kTypeWords.size(),
          kCausalNames.size(),
          2,
          2,
          2,
          kQueryClasses,
          kKeyClasses,
          kQueryLengths.size(),
          kKeyLengths.size(),
          kHeadValues.size(),
          3 /* batch */,
          kLayoutWords.size(),
          kSpaceWords.size(),
          kScaleWords.size(),
          kDataWords.size(),
          kMagnitudeWords.size(),
          kOffsetWords.size(),
          kPatterns};
}

/// Keeps what belongs together: lengths in their class, and nothing that would leave the comparison without
/// force.
bool allowed(const FactorRow& pipeline, std::size_t factor, std::size_t value) {
  if (factor == kQueryLength) return kQueryLengths[value].length_class == pipeline[kQueryClass];
  if (factor == kKeyLength) return kKeyLengths[value].length_class == pipeline[kKeyClass];
  const bool has_half = kTypeWords[pipeline[kTypes]].find("=f16") != std::string_view::npos ||
                        kTypeWords[pipeline[kTypes]].substr(0, 3) == "f16";
  if (factor == kMagnitude && value == kMagnitudeTiny) return !has_half;
  return true;
}

void append(std::string& text, std::string_view word) {
  if (word.empty()) return;
  if (!text.empty()) text += ' ';
  text += word;
}

std::string key_lengths_word(int batch, int kv_length, std::size_t pattern) {
  const std::array<int, 6> lengths{kv_length, 0, kv_length / 2, 1, kv_length + 5, kv_length - 1};
  std::string word = "kv_lengths=";
  for (int b = 0; b < batch; ++b) {
    if (b > 0) word += ',';
    word += std::to_string(lengths[(static_cast<std::size_t>(b) + pattern) % lengths.size()]);
  }
  return word;
}

struct Sizes {
  int batch;
  Heads heads;
  int query_length, kv_length;
};

/// Batch and heads shrink where a problem would take long on a CPU.
Sizes sizes_of(const FactorRow& row) {
  Sizes sizes{static_cast<int>(row[kBatch]) + 1, kHeadValues[row[kHeads]],
              kQueryLengths[row[kQueryLength]].value, kKeyLengths[row[kKeyLength]].value};
  const Dims dims = kDimValues[row[kDims]];
  // Decode holds 16 rows of one KV head: long queries are folded into as many lengths as there are.
  const int most = 16 / (sizes.heads.query / sizes.heads.kv);
  if (row[kKernel] == kDecode) sizes.query_length = (sizes.query_length - 1) % most + 1;
  const auto work = [&] {
    return 1.0 * sizes.batch * sizes.heads.query * sizes.query_length * sizes.kv_length *
           (dims.head + dims.value);
  };
  constexpr double kMostWork = 3e7;
  while (work() > kMostWork && sizes.batch > 1) --sizes.batch;
  if (work() > kMostWork && sizes.heads.query > 4) sizes.heads = {2, 1};
  if (work() > kMostWork && sizes.heads.query > 2) sizes.heads = {sizes.heads.kv == 1 ? 2 : 1, 1};
  return sizes;
}

/// Packed QKV is one tensor: where lengths, dims or types differ the layout is bshd.
std::string_view layout_word(const FactorRow& row, const Sizes& sizes) {
  const Dims dims = kDimValues[row[kDims]];
  const bool one_type = row[kTypes] < 3 || row[kTypes] == 6;
  const bool can_pack = sizes.query_length == sizes.kv_length && dims.head == dims.value && one_type;
  return row[kLayout] == 2 && !can_pack ? kLayoutWords[1] : kLayoutWords[row[kLayout]];
}

std::string problem_string(const FactorRow& row, std::uint64_t seed) {
  const Dims dims = kDimValues[row[kDims]];
  const Sizes sizes = sizes_of(row);
  std::string text = "b" + std::to_string(sizes.batch) + " hq" + std::to_string(sizes.heads.query) + " hkv" +
                     std::to_string(sizes.heads.kv) + " " + std::to_string(sizes.query_length) + "x" +
                     std::to_string(sizes.kv_length) + " d" + std::to_string(dims.head) + " dv" +
                     std::to_string(dims.value);
  append(text, kTypeWords[row[kTypes]]);
  if (row[kCausal] == 1) append(text, kOffsetWords[row[kOffset]]);
  if (row[kCausal] == 2) append(text, "causal align=bottom-right");
  // A steep scale and large values together leave scores whose rounding says everything about the result.
  const bool steep = row[kScale] == 2 && row[kMagnitude] >= kMagnitudeLarge;
  if (!steep) append(text, kScaleWords[row[kScale]]);
  if (row[kLse] == 1) append(text, "lse");
  if (row[kLengths] == 1) append(text, key_lengths_word(sizes.batch, sizes.kv_length, row[kPattern]));
  append(text, layout_word(row, sizes));
  append(text, row[kAligned] == 1 ? kAlignedSpaceWords[row[kSpace]] : kSpaceWords[row[kSpace]]);
  append(text, row[kAligned] == 1 ? "aligned=16" : "aligned=0");
  append(text, kDataWords[row[kData]]);
  // A key that towers already needs no large numbers, and with them float32 could not tell its score from
  // others.
  const bool towering = row[kData] == 2 && row[kMagnitude] > kMagnitudeLarge;
  append(text, kMagnitudeWords[towering ? kMagnitudeLarge : row[kMagnitude]]);
  append(text, "seed=" + std::to_string(seed));
  return text;
}

std::string group_name(const FactorRow& row) {
  const Dims dims = kDimValues[row[kDims]];
  constexpr std::array<std::string_view, 7> kTypeNames{"f32",        "f16",        "bf16",    "f16bf16f32f16",
                                                       "f32f16bf16", "bf16f32f16", "f16tof32"};
  std::string name = std::string(kKernels[row[kKernel]]) + "_d" + std::to_string(dims.head);
  if (dims.value != dims.head) name += "_dv" + std::to_string(dims.value);
  name += "_" + std::string(kTypeNames[row[kTypes]]) + "_" + std::string(kCausalNames[row[kCausal]]);
  if (row[kLse] == 1) name += "_lse";
  if (row[kLengths] == 1) name += "_lengths";
  if (row[kAligned] == 1) name += "_aligned";
  return name + (row[kQueryClass] == 0 ? "_few" : "_many") + "_k" + std::to_string(row[kKeyClass]);
}

/// Adds `count` problems to the pipeline factors of a row.
GridGroup make_group(const FactorRow& pipeline, std::size_t count, std::uint64_t seed,
                     PairCoverage& coverage) {
  GridGroup group{std::string(kKernels[pipeline[kKernel]]), group_name(pipeline), {}};
  PartialRow partial(kFactors);
  for (std::size_t f = 0; f < kPipelineFactors; ++f) partial[f] = pipeline[f];
  for (std::size_t i = 0; i < count; ++i) {
    const FactorRow row =
        complete_row(coverage, partial, seed * 1000 + 2 * i,
                     [&](std::size_t factor, std::size_t value) { return allowed(pipeline, factor, value); });
    coverage.cover(row);
    group.problems.push_back(problem_string(row, seed * 10 + i + 1));
  }
  return group;
}

constexpr std::size_t kProblemsPerGroup = 5;

std::vector<GridGroup> build_covering_grid(PairCoverage& coverage) {
  std::vector<std::size_t> sizes = factor_sizes();
  sizes.resize(kPipelineFactors);
  std::vector<GridGroup> groups;
  sizes[kKernel] = kDecode;
  for (const FactorRow& pipeline : pairwise_rows(sizes, 1)) {
    groups.push_back(make_group(pipeline, kProblemsPerGroup, groups.size() + 1, coverage));
  }
  // A set of its own for decode, which groups the factors in its own way.
  sizes[kKernel] = 1;
  for (FactorRow pipeline : pairwise_rows(sizes, 2)) {
    pipeline[kKernel] = kDecode;
    groups.push_back(make_group(pipeline, kProblemsPerGroup, groups.size() + 1, coverage));
  }
  return groups;
}

/// Pairs that no row can hold: lengths outside of their class, and float16 at magnitudes below it.
bool possible(std::size_t f, std::size_t a, std::size_t g, std::size_t b) {
  FactorRow row(kFactors, 0);
  row[kKeyClass] = kKeyLengths[0].length_class;
  row[f] = a;
  row[g] = b;
  const auto bound = [&](std::size_t factor, std::size_t value, std::size_t other) {
    const bool depends = (factor == kQueryLength && other == kQueryClass) ||
                         (factor == kKeyLength && other == kKeyClass) ||
                         (factor == kMagnitude && other == kTypes);
    return !depends || allowed(row, factor, value);
  };
  return bound(f, a, g) && bound(g, b, f);
}

bool is_float16(const GridGroup& group) {
  return group.name.find("_f16_") != std::string::npos || group.name.find("_f16tof32_") != std::string::npos;
}

/// The wanted groups as another kernel's, each set of pipeline factors once.
std::vector<GridGroup> groups_for(const std::string& kernel, std::vector<GridGroup> whole,
                                  bool (*wanted)(const GridGroup&)) {
  std::vector<GridGroup> groups;
  std::set<std::string> names;
  for (GridGroup& group : whole) {
    if (!wanted(group)) continue;
    const std::string name = kernel + group.name.substr(group.kernel.size());
    if (names.insert(name).second) groups.push_back({kernel, name, std::move(group.problems)});
  }
  return groups;
}

}  // namespace

std::vector<GridGroup> covering_grid() {
  PairCoverage coverage(factor_sizes());
  return build_covering_grid(coverage);
}

std::vector<GridGroup> full_grid() {
  PairCoverage coverage(factor_sizes());
  std::vector<GridGroup> groups;
  for (std::size_t dims = 0; dims < kDimValues.size(); ++dims) {
    for (std::size_t types = 0; types < kTypeWords.size(); ++types) {
      for (std::size_t rest = 0; rest < kKernels.size() * kCausalNames.size() * kQueryClasses * kKeyClasses;
           ++rest) {
        FactorRow row(kPipelineFactors, 0);
        row[kDims] = dims;
        row[kTypes] = types;
        row[kKernel] = rest % 3;
        row[kCausal] = rest / 3 % 3;
        row[kQueryClass] = rest / 9 % 2;
        row[kKeyClass] = rest / 18;
        const std::uint64_t bits = harness::random_bits(7, groups.size());
        row[kLse] = bits & 1U;
        row[kLengths] = bits >> 1U & 1U;
        row[kAligned] = bits >> 2U & 1U;
        groups.push_back(make_group(row, 4, 100000 + groups.size(), coverage));
      }
    }
  }
  return groups;
}

std::vector<GridGroup> float16_grid(const std::string& kernel) {
  return groups_for(kernel, covering_grid(), is_float16);
}

std::vector<GridGroup> full_float16_grid(const std::string& kernel) {
  return groups_for(kernel, full_grid(), is_float16);
}

bool full_grid_is_wanted() {
  const char* const wanted = std::getenv("VKATTN_FULL_GRID");
  return wanted != nullptr && std::string_view(wanted) == "1";
}

std::vector<GridGroup> grid_part(const std::vector<GridGroup>& groups, const TestPart& part) {
  // Counted by name, which is by kernel, dimensions and types: in the order of the grid each type comes back
  // after so many groups that a part may never have it.
  std::map<std::string_view, std::set<std::string_view>> names;
  for (const GridGroup& group : groups) names[group.kernel].insert(group.name);
  std::set<std::string_view> chosen;
  for (const auto& [kernel, of_kernel] : names) {
    std::size_t place = 0;
    for (const std::string_view name : of_kernel) {
      if (part.has(place++)) chosen.insert(name);
    }
  }
  std::vector<GridGroup> result;
  std::copy_if(groups.begin(), groups.end(), std::back_inserter(result),
               [&](const GridGroup& group) { return chosen.count(group.name) != 0; });
  return result;
}

GridCoverage covering_grid_coverage() {
  PairCoverage coverage(factor_sizes());
  (void)build_covering_grid(coverage);
  const std::vector<std::size_t> sizes = factor_sizes();
  GridCoverage result;
  for (std::size_t f = 0; f < kFactors; ++f) {
    for (std::size_t g = f + 1; g < kFactors; ++g) {
      for (std::size_t a = 0; a < sizes[f]; ++a) {
        for (std::size_t b = 0; b < sizes[g]; ++b) {
          if (!possible(f, a, g, b)) continue;
          ++result.pairs;
          if (coverage.covered(f, a, g, b)) continue;
          ++result.open_pairs;
          if (g < kPipelineFactors) ++result.open_pipeline_pairs;
          if (f == kQueryLength && g == kKeyLength) ++result.open_length_pairs;
        }
      }
    }
  }
  return result;
}

}  // namespace vkattn::tests
