// Any number at all in lengths, cumulative lengths and page tables: it is clamped on the device as in the
// reference, and nothing outside of the caller's buffers is read or written. Every third problem runs as if
// on a GPU of a family. Meant for VKATTN_VALIDATION=gpu too.
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "gpu/any_kernel.hpp"
#include "gpu/gpu_family.hpp"
#include "harness/data.hpp"
#include "harness/quantise.hpp"
#include "support/cache_reference.hpp"
#include "support/feature_problems.hpp"
#include "support/special_numbers.hpp"

namespace vkattn::tests {
namespace {

using Numbers = std::vector<std::int32_t>;
constexpr std::array kGarbage{kLeast, -1, kMost, 1 << 30, -77, 130, kMost - 1, kLeast + 1, 40, 0};

/// The garbage from one of its numbers on, as many as wanted.
Numbers garbage(std::size_t first, std::size_t count) {
  Numbers numbers;
  for (std::size_t i = 0; i < count; ++i) numbers.push_back(kGarbage[(first + i) % kGarbage.size()]);
  return numbers;
}

void write_numbers(const Runtime& runtime, const harness::ProblemRun::Tensor& tensor,
                   const Numbers& numbers) {
  must(runtime.write(tensor.buffer, tensor.offset, std::as_bytes(std::span(numbers))));
}

/// Stores as many values as a block has.
void store_block(DataType type, std::span<const float> values, std::span<std::byte> block) {
  if (block_elements(type) > 1) return harness::quantise_block(type, values, block);
  const std::uint32_t bits = encoded(type, values[0]);
  std::memcpy(block.data(), &bits, block.size());
}

/// Finite numbers in all of a tensor: garbage may lead to rows that hold nothing of the problem.
void fill_whole(const Runtime& runtime, const harness::ProblemRun::Tensor& tensor, DataType type,
                std::uint64_t seed) {
  std::vector<std::byte> bytes(tensor.bytes);
  const std::size_t size = block_bytes(type);
  const std::uint64_t stream = harness::stream_of(seed, 1000);
  std::vector<float> values(block_elements(type));
  std::uint64_t number = 0;
  for (std::size_t at = 0; at + size <= bytes.size(); at += size) {
    for (float& value : values) value = static_cast<float>(harness::random_uniform(stream, number++) - 0.5);
    store_block(type, values, std::span(bytes).subspan(at, size));
  }
  must(runtime.write(tensor.buffer, tensor.offset, bytes));
}

/// K and V. A ring whose slots were written for other lengths holds NaN.
void fill_cache(const Runtime& runtime, const harness::ProblemRun& run, std::uint64_t seed) {
  const AttentionDesc& desc = run.problem().desc;
  fill_whole(runtime, run.key(), desc.key.type, seed);
  fill_whole(runtime, run.value(), desc.value.type, seed + 1);
}

/// Garbage from one of its numbers on, where the problem has the tensor.
void write_garbage(const Runtime& runtime, const harness::ProblemRun& run,
                   BufferRange AttentionTensors::*tensor, std::size_t first) {
  const std::size_t count = run.tensor(tensor).bytes / sizeof(std::int32_t);
  if (count != 0) write_numbers(runtime, run.tensor(tensor), garbage(first, count));
}

class Garbage : public AnyKernelTest {
 protected:
  void TearDown() override {
    turns_.expect_some();
    AnyKernelTest::TearDown();
  }
  /// 3 rows for decode, 40 for the others, with three batch entries.
  [[nodiscard]] static std::string sized(std::string_view words, std::string_view dims = "d20 dv12") {
    std::string text = kernel() == "decode" ? "3x129" : "40x129";
    text.append(" b3 hq4 hkv2 lse ").append(dims).append(" ").append(words);
    if (is_on_matrix_units()) text += " f16";  // what these kernels take
    return text;
  }

  /// To run the next problem of the test.
  RunOptions next(std::string_view problem) {
    RunOptions options{kernel()};
    const AttentionDesc desc = parsed(problem).desc;
    const GpuFamily* const family = turns_.next(options, runtime(), desc);
    if (family != nullptr) run_as(*family, options, runtime(), desc);
    return options;
  }

  /// Runs with garbage in lengths and page tables, from every step-th of its numbers on.
  void run_from_each(const std::string& problem, std::size_t step) {
    run_from_each(next(problem), problem, step);
  }
  static void run_from_each(RunOptions options, const std::string& problem, std::size_t step) {
    for (std::size_t first = 0; first < kGarbage.size(); first += step) {
      options.prepare = [&](harness::ProblemRun& run) {
        fill_cache(runtime(), run, 1);
        write_garbage(runtime(), run, &AttentionTensors::page_table, first + 3);
        write_garbage(runtime(), run, &AttentionTensors::kv_lengths, first);
        write_garbage(runtime(), run, &AttentionTensors::query_lengths, first + 5);
      };
      EXPECT_TRUE(runs_right(runtime(), problem, options)) << "from number " << first;
    }
  }

 private:
  FamilyTurns turns_;
};

INSTANTIATE_TEST_SUITE_P(Kernels, Garbage, testing::ValuesIn(kEveryFormName), kernel_test_name);

class PackedGarbage : public Garbage {};
INSTANTIATE_TEST_SUITE_P(Kernels, PackedGarbage, testing::Values("tile"), kernel_test_name);

// Keys and values that stay float16 in shared memory, as on one family of a few, are too rare to meet a turn.
TEST_P(PackedGarbage, LengthsAndPageNumbers) {
  const std::string problem = sized("f16 page=16 kv_lengths=1,2,3 query_lengths=1,2,3");
  RunOptions options{kernel()};
  run_as(kAdreno, options, runtime(), parsed(problem).desc);
  options.inspect = [](const AttentionPlan& plan) {
    EXPECT_TRUE(has(plan.describe(), "K and V in float16"));
  };
  run_from_each(options, problem, 3);
}

class GarbageInOneStep : public Garbage {};
INSTANTIATE_TEST_SUITE_P(Kernels, GarbageInOneStep, testing::Values("lane"), kernel_test_name);

// Problems that choose one step for all keys have more rows than the other tests' problems.
TEST_P(GarbageInOneStep, LengthsAndPageNumbers) {
  RunOptions options{kernel()};
  options.tile = TileSizes{0, 0, 0, 1, 80, 0};
  for (const char* const words : {"kv_lengths=1,2,3 query_lengths=1,2,3", "f16 page=7 kv_lengths=1,2,3"}) {
    run_from_each(options, "64x77 b3 hq4 hkv2 lse d20 dv12 " + std::string(words), 3);
  }
}

TEST_P(Garbage, LengthsAndPageNumbersOfFeatures) {
  const auto problem = [](const FeatureProblem& row) {
    const auto& rows = kernel() == "decode" ? kFewLengths : kManyLengths;
    return with_sizes(row.words, rows, "b2 hq4 hkv2 d20 dv12") + (is_on_matrix_units() ? " f16" : "");
  };
  const auto rows = feature_problems([&](const FeatureProblem& row) {
    const AttentionDesc desc = desc_of(problem(row));
    return desc.query_lengths != Lengths::kPacked &&
           (desc.kv_lengths == Lengths::kPerEntry || desc.query_lengths == Lengths::kPerEntry ||
            desc.cache.mapping == KeyMapping::kPaged);
  });
  for (const FeatureProblem& row : part_of<FeatureProblem>(rows)) run_from_each(problem(row), 2);
}

TEST_P(Garbage, LengthsAndPageNumbersOfQuantisedKeysAndValues) {
  for (const char* words : part_of({"cache=q8_0 kv_lengths=1,2,3 query_lengths=1,2,3",
                                    "cache=q4_0 page=16 kv_lengths=1,2,3 causal align=bottom-right",
                                    "cache=e4m3 ring=50 kv_lengths=1,2,3 weights=probabilities",
                                    "key=q8_0 value=f16 page=7 kv_lengths=1,2,3 weights=masked"})) {
    const std::string text = sized(words, "d64 dv32");
    if (takes_storage_of(parsed(text).desc)) run_from_each(text, 3);
  }
  run_from_each(sized("cache=e4m3 kv_lengths=1,2,3"), 3);  // rows end within a word
}

TEST_P(Garbage, CumulativeLengthsAreClamped) {
  struct Case {
    Numbers queries, keys;
  };
  // No two sequences share a query, for their rows would race.
  const Case cases[] = {{{kLeast, 2, 2, kMost}, {kLeast, kMost, kLeast, kMost}},
                        {{-7, 1 << 30, kMost, kMost}, {kMost, 0, 100, 90}},
                        {{kMost, 3, 3, 4}, {50, kLeast, 60, kLeast + 3}},
                        {{1, kLeast, 1, 3}, {-1, -1, 300, kMost - 1}}};
  for (const char* words :
       part_of({"sequences query_lengths=2,1,3 kv_lengths=60,0,129",
                "sequences query_lengths=2,1,3 kv_lengths=60,0,129 causal align=bottom-right",
                "sequences=queries query_lengths=2,1,3 kv_lengths=60,0,129 weights=probabilities",
                "sequences=queries query_lengths=2,1,3 kv_lengths=60,0,129 ring=50 causal align=bottom-right",
                "sequences=queries query_lengths=2,1,3 kv_lengths=60,0,129 page=16"})) {
    RunOptions options = next(sized(words));
    for (const Case& numbers : cases) {
      options.prepare = [&](harness::ProblemRun& run) {
        fill_whole(runtime(), run.query(), run.problem().desc.query.type, 5);
        fill_cache(runtime(), run, 6);
        write_numbers(runtime(), run.tensor(&AttentionTensors::cumulative_query_lengths), numbers.queries);
        const harness::ProblemRun::Tensor& keys = run.tensor(&AttentionTensors::cumulative_kv_lengths);
        if (keys.bytes != 0) return write_numbers(runtime(), keys, numbers.keys);
        write_garbage(runtime(), run, &AttentionTensors::kv_lengths, 2);
        write_garbage(runtime(), run, &AttentionTensors::page_table, 5);
      };
      EXPECT_TRUE(runs_right(runtime(), sized(words), options))
          << testing::PrintToString(numbers.queries) << " " << testing::PrintToString(numbers.keys);
    }
  }
}

}  // namespace
}  // namespace vkattn::tests
