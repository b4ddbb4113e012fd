// Any number at all in lengths, cumulative lengths and page tables: it is clamped on the device as in the
// reference, and nothing outside of the caller's buffers is read or written. With VKATTN_VALIDATION=gpu these
// run on a device of their own with the validation layer's checks inside of shaders.
#include <array>
#include <cstdint>
#include <limits>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "gpu/support.hpp"
#include "harness/data.hpp"

namespace vkattn::tests {
namespace {

using Numbers = std::vector<std::int32_t>;
constexpr std::int32_t kLeast = std::numeric_limits<std::int32_t>::min();
constexpr std::int32_t kMost = std::numeric_limits<std::int32_t>::max();
constexpr std::array kGarbage{kLeast, -1, kMost, 1 << 30, -77, 130, kMost - 1, kLeast + 1, 40, 0};

/// The garbage from one of its numbers on, as many as wanted.
Numbers garbage(std::size_t first, std::size_t count) {
  Numbers numbers;
  for (std::size_t i = 0; i < count; ++i) numbers.push_back(kGarbage[(first + i) % kGarbage.size()]);
  return numbers;
}

Status write_numbers(const Runtime& runtime, const harness::ProblemRun::Tensor& tensor,
                     const Numbers& numbers) {
  return runtime.write(tensor.buffer, tensor.offset, std::as_bytes(std::span(numbers)));
}

/// Finite numbers in all of a float32 tensor: garbage may lead to rows that hold nothing of the problem.
Status fill_whole(const Runtime& runtime, const harness::ProblemRun::Tensor& tensor, std::uint64_t seed) {
  std::vector<float> numbers(tensor.bytes / sizeof(float));
  const std::uint64_t stream = harness::stream_of(seed, 1000);
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    numbers[i] = static_cast<float>(harness::random_uniform(stream, i) - 0.5);
  }
  return runtime.write(tensor.buffer, tensor.offset, std::as_bytes(std::span(numbers)));
}

class Garbage : public KernelTest {
 protected:
  static void TearDownTestSuite() { own_.reset(); }

  void SetUp() override {
    KernelTest::SetUp();
    if (IsSkipped() || HasFatalFailure() || !is_gpu_assisted()) return;
    if (!own_) {
      RuntimeOptions options;
      options.validation = true;
      options.gpu_assisted_validation = true;
      options.pipeline_cache = false;
      auto made = Runtime::create(options);
      ASSERT_TRUE(made.ok()) << made.error().message;
      own_ = std::make_unique<Runtime>(*std::move(made));
    }
    messages_before_ = own_->validation_messages().size();
  }

  void TearDown() override {
    KernelTest::TearDown();
    if (!own_) return;
    const auto& messages = own_->validation_messages();
    for (std::size_t i = messages_before_; i < messages.size(); ++i) {
      ADD_FAILURE() << "GPU-assisted validation: " << messages[i];
    }
  }

  [[nodiscard]] static const Runtime& device() { return own_ ? *own_ : runtime(); }

  /// 3 rows for decode, 40 for the others, with three batch entries.
  [[nodiscard]] static std::string sized(const char* words) {
    return std::string(kernel() == "decode" ? "3x129 " : "40x129 ") + "b3 hq4 hkv2 d20 dv12 lse " + words;
  }

 private:
  static inline std::unique_ptr<Runtime> own_;
  std::size_t messages_before_ = 0;
};

INSTANTIATE_TEST_SUITE_P(Kernels, Garbage, testing::ValuesIn(kKernelNames), kernel_test_name);

TEST_P(Garbage, LengthsAreClamped) {
  for (const char* words : part_of({"kv_lengths=1,2,3", "query_lengths=1,2,3",
                                    "kv_lengths=1,2,3 query_lengths=1,2,3 causal "
                                    "align=bottom-right alibi",
                                    "ring=50 kv_lengths=1,2,3 window=20,4 align=bottom-right"})) {
    for (std::size_t first = 0; first < kGarbage.size(); first += 2) {
      RunOptions options{kernel()};
      options.prepare = [&](harness::ProblemRun& run) -> Status {
        // A ring whose slots were written for other lengths holds NaN.
        Status status = fill_whole(device(), run.key(), 1);
        if (status.ok()) status = fill_whole(device(), run.value(), 2);
        if (status.ok() && run.kv_lengths().bytes != 0)
          status = write_numbers(device(), run.kv_lengths(), garbage(first, 3));
        if (status.ok() && run.query_lengths().bytes != 0)
          status = write_numbers(device(), run.query_lengths(), garbage(first + 5, 3));
        return status;
      };
      EXPECT_TRUE(runs_right(device(), sized(words), options)) << "from number " << first;
    }
  }
}

TEST_P(Garbage, PageNumbersAreClamped) {
  for (const char* words :
       part_of({"page=16", "page=1 kv_lengths=100,129,7", "page=32 causal align=bottom-right"})) {
    for (std::size_t first = 0; first < kGarbage.size(); first += 3) {
      RunOptions options{kernel()};
      options.prepare = [&](harness::ProblemRun& run) -> Status {
        Status status = fill_whole(device(), run.key(), 3);
        if (status.ok()) status = fill_whole(device(), run.value(), 4);
        if (!status.ok()) return status;
        return write_numbers(device(), run.page_table(), garbage(first, run.page_table().bytes / 4));
      };
      EXPECT_TRUE(runs_right(device(), sized(words), options)) << "from number " << first;
    }
  }
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
                "sequences query_lengths=2,1,3 kv_lengths=60,0,129 causal align=bottom-right"})) {
    for (const Case& numbers : cases) {
      RunOptions options{kernel()};
      options.prepare = [&](harness::ProblemRun& run) -> Status {
        Status status = fill_whole(device(), run.query(), 5);
        if (status.ok()) status = fill_whole(device(), run.key(), 6);
        if (status.ok()) status = fill_whole(device(), run.value(), 7);
        if (status.ok()) status = write_numbers(device(), run.cumulative_query_lengths(), numbers.queries);
        if (status.ok()) status = write_numbers(device(), run.cumulative_kv_lengths(), numbers.keys);
        return status;
      };
      EXPECT_TRUE(runs_right(device(), sized(words), options))
          << testing::PrintToString(numbers.queries) << " " << testing::PrintToString(numbers.keys);
    }
  }
}

}  // namespace
}  // namespace vkattn::tests
