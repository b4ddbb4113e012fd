// The published grids: see published_grid.hpp. Each is a product of words; their order is the problem
// string's.
#include "support/published_grid.hpp"

#include <algorithm>
#include <map>
#include <string_view>

#include "support/pairwise.hpp"

namespace vkattn::tests {
namespace {

using Words = std::vector<std::string_view>;

/// A project's product. The first factor is the head dimensions.
struct Source {
  std::string_view name;
  std::vector<Words> factors;
};

const Words kFlashDims{"d32",  "d40",  "d59",  "d64",  "d80",  "d96",
                       "d111", "d128", "d160", "d192", "d224", "d256"};
const Words kFlashHeads{"h4", "hq4 hkv1", "hq4 hkv2"};
const Words kFlashTypes{"f16", "bf16"};

/// FlashAttention, tests/test_flash_attn.py: lengths, each with everything else that its tests vary.
Source flash_attention() {
  return {"flash",
          {kFlashDims,
           {"b2 113x203", "b2 128x217", "b2 113x211", "b2 108x256", "b1 256x512", "b1 512x256",
            "b1 1024x1024", "b1 1023x1024", "b1 1024x1023", "b1 2048x2048"},
           kFlashHeads,
           kFlashTypes,
           {"", "causal align=bottom-right", "window=64,32 align=bottom-right",
            "causal window=100,0 align=bottom-right"},
           {"", "alibi"},
           {"", "softcap=50"},
           {"", "dropout=0.17 dropout_seed=3"},
           {"lse"}}};
}

Source flash_attention_causal() {
  return {"flash_causal",
          {kFlashDims,
           {"b2 1x239", "b2 3x799", "b2 127x512", "b2 127x513"},
           kFlashHeads,
           kFlashTypes,
           {"causal align=bottom-right", "causal window=100,0 align=bottom-right"},
           {"", "alibi"},
           {"", "softcap=50"},
           {"", "dropout=0.17 dropout_seed=3"},
           {"lse"}}};
}

/// Its caches, contiguous and in pages.
Source flash_cache() {
  return {"flash_cache",
          {kFlashDims,
           {"b2 1x128", "b2 1x339", "b2 3x1024", "b2 64x800", "b2 64x256", "b2 3x799", "b2 64x2048",
            "b1 16x20000", "b1 1x131072", "b1 16x131072"},
           {"h2", "hq4 hkv1", "hq4 hkv2"},
           kFlashTypes,
           {"", "causal align=bottom-right", "window=64,0 align=bottom-right"},
           {"", "alibi"},
           {"", "page=16", "page=256"}}};
}

/// ggml, tests/test-backend-ops.cpp. Its bias of 8 is that of the standard slopes.
Source ggml() {
  return {"ggml",
          {{"d40", "d64", "d72", "d80", "d96", "d128", "d192", "d256", "d512", "d192 dv128", "d320 dv256",
            "d576 dv512"},
           {"1x", "3x", "32x", "75x"},
           {"113", "512", "1024", "1025", "4096", "16384"},
           {"hq1", "hq4", "hq8", "hq12", "hq16", "hq20", "hq32"},
           {"f16", "f32", "bf16", "f16 cache=q8_0", "f16 cache=q4_0"},
           {"", "mask=f16"},
           {"", "sinks"},
           {"", "alibi"},
           {"", "softcap=10"}}};
}

/// PyTorch, test/test_transformers.py.
Source pytorch() {
  return {"pytorch",
          {{"d8", "d16", "d21", "d32", "d64", "d72", "d96", "d128", "d160", "d192", "d203", "d256"},
           {"4x", "8x", "64x", "143x", "256x", "512x", "1024x", "2048x"},
           {"4", "8", "64", "128", "256", "587", "1024", "2048"},
           {"h2", "hq4 hkv2"},
           {"f32", "f16", "bf16"},
           {"", "causal"},
           {"", "mask=f32"},
           {"lse"}}};
}

/// Blocks of 32 elements do not fit every head dimension: those problems do not exist there either.
bool exists(const Source& source, const FactorRow& row) {
  if (source.name != "ggml" || source.factors[4][row[4]].find("cache=") == std::string_view::npos)
    return true;
  const std::string_view dims = source.factors[0][row[0]];
  return dims != "d40" && dims != "d72" && dims != "d80";
}

std::string problem_string(const Source& source, const FactorRow& row, std::uint64_t seed) {
  std::string text;
  for (std::size_t factor = 0; factor < row.size(); ++factor) {
    const std::string_view word = source.factors[factor][row[factor]];
    if (word.empty()) continue;
    // "75x" and "1025" are one word.
    if (!text.empty() && text.back() != 'x') text += ' ';
    text += word;
  }
  return text + " seed=" + std::to_string(seed);
}

std::vector<std::size_t> sizes_of(const Source& source) {
  std::vector<std::size_t> sizes;
  for (const Words& words : source.factors) sizes.push_back(words.size());
  return sizes;
}

/// Every row of the product.
std::vector<FactorRow> whole_product(const std::vector<std::size_t>& sizes) {
  std::vector<FactorRow> rows;
  FactorRow row(sizes.size(), 0);
  for (;;) {
    rows.push_back(row);
    std::size_t factor = 0;
    while (factor < sizes.size() && ++row[factor] == sizes[factor]) row[factor++] = 0;
    if (factor == sizes.size()) return rows;
  }
}

std::string group_name(const Source& source, std::string_view dims) {
  std::string name = std::string(source.name) + "_" + std::string(dims);
  std::replace(name.begin(), name.end(), ' ', '_');
  return name;
}

}  // namespace

std::vector<PublishedGroup> published_part(const std::vector<PublishedGroup>& groups, const TestPart& part) {
  std::vector<PublishedGroup> result;
  std::size_t number = 0;
  for (const PublishedGroup& group : groups) {
    PublishedGroup chosen{group.name, {}};
    for (const std::string& problem : group.problems) {
      if (part.has(number++)) chosen.problems.push_back(problem);
    }
    if (!chosen.problems.empty()) result.push_back(std::move(chosen));
  }
  return result;
}

std::vector<PublishedGroup> published_grid(bool thinned) {
  std::vector<PublishedGroup> groups;
  for (const Source& source :
       {flash_attention(), flash_attention_causal(), flash_cache(), ggml(), pytorch()}) {
    const std::vector<std::size_t> sizes = sizes_of(source);
    std::map<std::size_t, PublishedGroup> by_dims;
    std::uint64_t seed = 0;
    for (const FactorRow& row : thinned ? pairwise_rows(sizes, 5) : whole_product(sizes)) {
      if (!exists(source, row)) continue;
      PublishedGroup& group = by_dims[row.front()];
      group.name = group_name(source, source.factors.front()[row.front()]);
      group.problems.push_back(problem_string(source, row, ++seed));
    }
    for (auto& [dims, group] : by_dims) groups.push_back(std::move(group));
  }
  return groups;
}

}  // namespace vkattn::tests
