// Tensors in unusual memory: transposed, interleaved, repeated, at odd offsets, and without 16-bit storage.
#include "gpu/support.hpp"

namespace vkattn::tests {
namespace {

class StridesTest : public KernelTest {};

INSTANTIATE_TEST_SUITE_P(Kernels, StridesTest, testing::ValuesIn(kKernelNames), kernel_test_name);

const char* const kTypes[] = {"f32", "f16", "bf16"};

TEST_P(StridesTest, KeysTransposed) {
  for (const char* type : part_of<const char*>(kTypes)) {
    Problem problem = parsed(fitted(std::string("b2 h3 19x45 d24 shift=1 ") + type));
    problem.desc.key.strides = {3 * 24 * 47, 24 * 47, 1, 47};
    EXPECT_TRUE(runs_right(runtime(), problem, {kernel()})) << "key transposed";
  }
}

TEST_P(StridesTest, Float8KeysTransposedAndValuesInterleaved) {
  Problem problem = parsed(fitted("b2 h3 19x45 d24 dv17 key=e4m3 value=e4m3 lse"));
  problem.desc.key.strides = {3 * 24 * 47, 24 * 47, 1, 47};
  problem.desc.value.strides = {3 * 45 * 40, 45 * 40, 40, 2};
  EXPECT_TRUE(runs_right(runtime(), problem, {kernel()}));
}

TEST_P(StridesTest, ValuesInterleaved) {
  for (const char* type : part_of<const char*>(kTypes)) {
    Problem problem = parsed(fitted(std::string("b2 h3 19x45 d24 dv17 causal ") + type));
    problem.desc.value.strides = {3 * 45 * 40, 45 * 40, 40, 2};
    EXPECT_TRUE(runs_right(runtime(), problem, {kernel()})) << "value interleaved";
  }
}

TEST_P(StridesTest, QueriesAndOutputsTransposed) {
  for (const char* type : part_of<const char*>(kTypes)) {
    Problem problem = parsed(fitted(std::string("b2 h3 19x45 d24 dv17 lse ") + type));
    problem.desc.query.strides = {3 * 24 * 19, 24 * 19, 1, 19};
    problem.desc.output.strides = {3 * 17 * 20, 17 * 20, 1, 20};
    problem.desc.lse_strides = {1, 2, 6, 1};
    EXPECT_TRUE(runs_right(runtime(), problem, {kernel()})) << "query and output transposed";
  }
}

TEST_P(StridesTest, HeadsInnermost) {
  Problem problem = parsed(fitted("b2 h4 19x45 d8"));
  problem.desc.query.strides = {19 * 32, 1, 32, 4};
  problem.desc.key.strides = {45 * 32, 1, 32, 4};
  problem.desc.value.strides = {1, 2, 8 * 8, 8};
  problem.desc.output.strides = {19 * 40, 10, 40, 1};
  EXPECT_TRUE(runs_right(runtime(), problem, {kernel()}));
}

TEST_P(StridesTest, InputsRepeated) {
  Problem problem = parsed(fitted("b3 h4 19x45 d8"));
  problem.desc.key.strides->batch = 0;
  problem.desc.value.strides->head = 0;
  problem.desc.query.strides->batch = 0;
  EXPECT_TRUE(runs_right(runtime(), problem, {kernel()})) << "batch of K and Q, heads of V repeated";
  problem = parsed(fitted("b2 19x45 d8 f16"));
  problem.desc.key.strides->row = 0;  // one key for all positions
  EXPECT_TRUE(runs_right(runtime(), problem, {kernel()})) << "one key row for all positions";
}

TEST_P(StridesTest, PackedQkv) {
  for (const char* problem : part_of(
           {"b2 hq6 hkv2 31x31 d24 layout=packed", "b2 h2 65x65 d80 f16 causal layout=packed lse",
            "b2 hq3 hkv1 17x17 d7 bf16 layout=packed pad=3 shift=1", "hq8 hkv2 129x129 d64 layout=packed"})) {
    EXPECT_TRUE(runs_right(runtime(), fitted(problem), {kernel()}));
  }
}

/// As on devices without 16-bit storage: inputs by words and shifts at any stride and offset.
TEST_P(StridesTest, InputsWithout16BitStorage) {
  RunOptions options{kernel()};
  options.device = device_with([](Capabilities& c) { c.storage_buffer_16bit = false; });
  const char* const all_types[] = {"f16 output=f32", "bf16 output=f32", "query=f16 key=bf16", "value=f16"};
  std::vector<std::string> problems;
  for (const char* types : all_types) {
    for (const char* memory : {"", "shift=1", "pad=1 shift=3", "layout=bshd", "aligned=16"}) {
      problems.push_back(std::string("b2 hq4 hkv2 19x45 d17 dv9 causal lse ") + types + " " + memory);
    }
  }
  for (const std::string& problem : part_of<std::string>(problems)) {
    EXPECT_TRUE(runs_right(runtime(), fitted(problem), options)) << "without 16-bit storage";
  }
  for (const char* types : part_of<const char*>(all_types)) {
    Problem problem = parsed(fitted(std::string("19x45 d9 ") + types));
    problem.desc.key.strides->row = 1;
    problem.desc.key.strides->dim = 45;
    EXPECT_TRUE(runs_right(runtime(), problem, options)) << "without 16-bit storage, key transposed";
  }
}

/// Outputs likewise, where each 32-bit word belongs to one row. Where two rows share a word a kernel writes
/// it right all the same, or refuses by name.
TEST_P(StridesTest, OutputsWithout16BitStorage) {
  RunOptions options{kernel()};
  options.device = device_with([](Capabilities& c) { c.storage_buffer_16bit = false; });
  for (const char* problem : part_of({"b2 h2 19x45 d16 f16", "b2 h2 19x45 d16 bf16 shift=2 pad=2",
                                      "b2 h2 19x45 d16 f16 layout=bshd", "h2 65x45 d15 output=f16 pad=1"})) {
    EXPECT_TRUE(runs_right(runtime(), fitted(problem), options)) << "without 16-bit storage";
  }
  for (const char* text : part_of({"b2 h2 19x45 d15 f16", "b2 h2 19x45 d15 bf16 pad=2 shift=1",
                                   "h2 19x45 d16 f16 layout=bshd shift=1", "h3 129x45 d1 f16"})) {
    const Problem problem = parsed(fitted(text));
    const auto plan = make_plan(runtime(), problem.desc, options);
    if (plan.ok()) {
      EXPECT_TRUE(runs_right(runtime(), problem, options))
          << "without 16-bit storage, rows that share a word";
    } else {
      EXPECT_TRUE(names(plan.error(), ErrorCode::kUnsupported, {"32-bit word"})) << text;
    }
  }
}

}  // namespace
}  // namespace vkattn::tests
