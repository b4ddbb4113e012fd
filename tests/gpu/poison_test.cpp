// NaN in every key and value that no row sees, however it is hidden: none may reach an output.
#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "gpu/support.hpp"
#include "harness/tensor_memory.hpp"
#include "reference/positions.hpp"
#include "reference/reference.hpp"

namespace vkattn::tests {
namespace {

/// Every kind of hiding, so that some keys are hidden from all rows.
constexpr std::array kHiding{
    "mask=f32:k hidden=0.5 block=4 lse",
    "mask=f32:bhqk hidden=0.95 block=64 lse",
    "mask=f16:bk hidden=0.7 block=1",
    "mask=bytes:bhk hidden=0.5 block=8 lse",
    "mask=bits:bhk hidden=0.5 block=3",
    "mask=bits:bhqk hidden=0.95 block=64 lse",
    "causal lse",
    "causal align=-20",
    "window=5,3 lse",
    "window=10,0 align=bottom-right",
    "kv_lengths=40,129 causal lse",
    "query_lengths=2,0 causal align=7",
    "ring=64 kv_lengths=129,40 lse",
    "ring=120 kv_lengths=129,120 window=9,0 align=bottom-right",
    "page=16 kv_lengths=100,3 lse",
    "page=7 window=20,0 align=bottom-right",
    "sequences query_lengths=2,3 kv_lengths=30,50 causal lse",
    "sequences=queries query_lengths=2,3 kv_lengths=100,30 page=16 causal align=bottom-right lse",
    "mask=bytes:k hidden=0.5 block=4 causal window=60,0 align=bottom-right kv_lengths=120,77 alibi softcap=4 "
    "sinks weights=probabilities lse",
    "dropout=0.3 mask=bits:k hidden=0.5 block=5 lse",
};

/// The same in storage that matrix2 does not take.
constexpr std::array kQuantisedHiding{
    "cache=q8_0 mask=bits:k hidden=0.5 block=8 lse",
    "cache=q4_0 page=16 kv_lengths=100,3",
    "cache=e4m3 window=5,3 lse",
};

using KeyRows = std::set<std::tuple<std::int64_t, std::int64_t, std::int64_t>>;

/// Rows of K's memory (batch entry or page, KV head, row) that some query sees.
KeyRows seen_rows(const AttentionDesc& desc, const reference::Inputs& inputs) {
  AttentionDesc with_weights = desc;
  with_weights.weights = WeightsStage::kMasked;  // -inf where a key is hidden
  const std::int64_t group = desc.query_heads / desc.kv_heads;
  KeyRows seen;
  for (std::int64_t b = 0; b < desc.batch; ++b) {
    for (std::int64_t h = 0; h < desc.query_heads; ++h) {
      for (std::int64_t i = 0; i < reference::query_length(desc, inputs, b); ++i) {
        const reference::Row row = reference::compute_row(with_weights, inputs, {b, h, i});
        for (std::int64_t j = 0; j < desc.kv_length; ++j) {
          if (std::isinf(row.weights[static_cast<std::size_t>(j)])) continue;
          const reference::KeyPlace place = reference::stored_key(desc, inputs, b, j);
          seen.insert({place.batch, h / group, place.row});
        }
      }
    }
  }
  return seen;
}

/// Writes NaN into all other rows of a tensor; how many elements, or blocks.
Result<std::size_t> poison_unseen(const Runtime& runtime, const harness::ProblemRun::Tensor& tensor,
                                  const harness::TensorShape& shape, const KeyRows& seen) {
  // A block of 32 is NaN by its scale, which comes first.
  const harness::Pattern nan = harness::input_filler(shape.desc.type);
  const harness::TensorShape blocks = harness::in_blocks(shape);
  const std::size_t size = block_bytes(shape.desc.type);
  std::vector<std::byte> bytes = read_back(runtime, tensor);
  std::size_t poisoned = 0;
  harness::AddressOrder(blocks).for_each([&](std::int64_t offset, const harness::Position& p) {
    if (seen.count({p.batch, p.head, p.row}) != 0) return;
    std::byte* const element = bytes.data() + tensor.offset + static_cast<std::size_t>(offset) * size;
    for (std::size_t i = 0; i < std::min(size, nan.size()); ++i) element[i] = nan[i];
    ++poisoned;
  });
  if (Status status = runtime.write(tensor.buffer, 0, bytes); !status.ok()) return status.error();
  return poisoned;
}

testing::AssertionResult hides_nan(const Runtime& runtime, const std::string& text, const char* kernel,
                                   bool in_values) {
  RunOptions options{kernel};
  options.prepare = [&](harness::ProblemRun& run) -> Status {
    const AttentionDesc& desc = run.problem().desc;
    KeyRows seen;
    Status status =
        run.visit_inputs([&](const reference::Inputs& inputs) { seen = seen_rows(desc, inputs); });
    if (!status.ok()) return status;
    const auto keys = poison_unseen(runtime, run.key(), harness::key_shape(desc), seen);
    if (!keys.ok()) return keys.error();
    EXPECT_GT(*keys, 0U) << "nothing is hidden from all rows: " << text;
    if (!in_values) return {};
    const auto values = poison_unseen(runtime, run.value(), harness::value_shape(desc), seen);
    return values.ok() ? Status() : Status(values.error());
  };
  return runs_right(runtime, text, options);
}

std::string sized(const char* words, bool few_rows, const char* sizes) {
  return std::string(few_rows ? "3x129 " : "70x129 ") + sizes + " " + words;
}

class Poison : public KernelTest {};
class MatrixPoison : public MatrixKernelTest {};

TEST_P(Poison, HiddenFromAllRowsNeverLeaks) {
  const bool few = kernel() == "decode";
  for (const char* const words : part_of<const char*>(kHiding)) {
    EXPECT_TRUE(hides_nan(runtime(), sized(words, few, "b2 hq4 hkv2 d20 dv12"), GetParam(), true));
  }
  for (const char* const words : part_of<const char*>(kQuantisedHiding)) {
    EXPECT_TRUE(hides_nan(runtime(), sized(words, few, "b2 hq4 hkv2 d32"), GetParam(), true));
  }
}

// Of V it is promised only where no row of a block sees the key.
TEST_P(MatrixPoison, HiddenKeysNeverLeak) {
  for (const char* const words : part_of<const char*>(kHiding)) {
    EXPECT_TRUE(hides_nan(runtime(), sized(words, false, "b2 hq4 hkv2 d24 dv16 f16"), GetParam(), false));
  }
  for (const char* const words : part_of<const char*>(kQuantisedHiding)) {
    const std::string text = sized(words, false, "b2 hq4 hkv2 d32 f16");
    if (!reason_against(runtime(), GetParam(), text).empty()) continue;
    // A NaN as the scale of a hidden block reaches nothing, in V either.
    const bool in_values = text.find("e4m3") == std::string::npos;
    EXPECT_TRUE(hides_nan(runtime(), text, GetParam(), in_values));
  }
}

INSTANTIATE_TEST_SUITE_P(Kernels, Poison, testing::ValuesIn(kKernelNames), kernel_test_name);
INSTANTIATE_TEST_SUITE_P(Matrix, MatrixPoison, testing::ValuesIn(kMatrixKernelNames), kernel_test_name);

}  // namespace
}  // namespace vkattn::tests
