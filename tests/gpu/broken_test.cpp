// Runs the harness with a kernel that is broken on purpose. The harness must find elements that the kernel
// leaves out and bytes that it writes beside the output on every device. Otherwise no other test here could
// be trusted.
#include <array>
#include <cmath>
#include <cstdint>
#include <span>

#include "compute_pass.hpp"
#include "gpu/support.hpp"
#include "vkattn_test_shaders.hpp"
#include "vulkan/shader_code.hpp"

namespace vkattn::tests {
namespace {

struct Faults {
  std::uint32_t skip = 0, before = 0, behind = 0;
};

struct Parameters {
  std::uint32_t first, count, skip, before, behind;
};

class Broken : public GpuTest {
 protected:
  /// Runs broken.comp on the output of a problem and returns the check's report.
  static harness::CheckReport report_of(const Faults& faults, const char* text = "h2 33x20 d16") {
    const Problem problem = parsed(text);
    const harness::ProblemRun run = ready_run(problem);
    execute(run.output(), faults);
    auto report = run.check();
    EXPECT_TRUE(report.ok());
    return std::move(report).value();
  }

 private:
  static void execute(const harness::ProblemRun::Tensor& output, const Faults& faults) {
    const auto code = detail::find_shader(shader_binaries(), "test_broken")->code();
    const std::array<BufferRange, 1> buffers{output.buffer.range()};
    const auto pass = must(bench::ComputePass::create(runtime(), code, {}, buffers, sizeof(Parameters)));
    const Parameters parameters{static_cast<std::uint32_t>(output.offset / 4),
                                static_cast<std::uint32_t>(output.bytes / 4), faults.skip, faults.before,
                                faults.behind};
    auto record = [&](VkCommandBuffer commands) {
      pass.record(commands, std::as_bytes(std::span(&parameters, 1)), 4);
    };
    EXPECT_TRUE(runtime().execute(record).ok());
  }
};

TEST_F(Broken, AnOutputOfZerosFailsByItsValues) {
  const harness::CheckReport report = report_of({});
  EXPECT_FALSE(report.passed());
  EXPECT_GT(report.largest_share, 1.0);
  EXPECT_TRUE(std::isfinite(report.largest_share));
  EXPECT_EQ(report.elements_unwritten, 0);
  EXPECT_TRUE(report.guard_intact);
  EXPECT_GT(report.elements_telling, report.elements_checked * 9 / 10);
}

TEST_F(Broken, UnwrittenElementsAreFound) {
  const harness::CheckReport report = report_of({7, 0, 0});
  EXPECT_FALSE(report.passed());
  EXPECT_TRUE(std::isinf(report.largest_share));
  EXPECT_EQ(report.elements_unwritten, 2 * 33 * 16 / 7);
  EXPECT_TRUE(report.guard_intact);
}

TEST_F(Broken, WritesBehindTheOutputAreFound) {
  for (const std::uint32_t behind : {1U, 16U, 64U}) {
    const harness::CheckReport report = report_of({0, 0, behind});
    EXPECT_FALSE(report.passed());
    EXPECT_FALSE(report.guard_intact);
    EXPECT_TRUE(has(report.guard_message, std::to_string(4 * behind) + " bytes outside"));
  }
}

TEST_F(Broken, WritesBeforeTheOutputAreFound) {
  for (const std::uint32_t before : {1U, 64U}) EXPECT_FALSE(report_of({0, before, 0}).guard_intact);
}

TEST_F(Broken, WritesBetweenRowsAreFound) {
  const harness::CheckReport report = report_of({}, "h2 33x20 d16 pad=1");
  EXPECT_FALSE(report.guard_intact);
  EXPECT_TRUE(has(report.guard_message, std::to_string(4 * (2 * 33 - 1)) + " bytes outside"));
}

TEST_F(Broken, WritesToRowsBeyondAQueryLengthAreFound) {
  const harness::CheckReport report = report_of({}, "b2 h2 33x20 d16 query_lengths=33,30");
  EXPECT_FALSE(report.guard_intact);
  EXPECT_TRUE(has(report.guard_message, std::to_string(4 * 2 * 3 * 16) + " bytes outside"));
}

TEST_F(Broken, WritesToRowsOfNoSequenceAreFound) {
  // The first sequence is longer than the problem's query length. Its last two rows belong to no query.
  const harness::CheckReport report =
      report_of({}, "b2 h2 8x20 d16 sequences query_lengths=10,5 kv_lengths=20,20");
  EXPECT_FALSE(report.guard_intact);
  EXPECT_TRUE(has(report.guard_message, std::to_string(4 * 2 * 2 * 16) + " bytes outside"));
}

TEST_F(Broken, AllFaultsAreReportedAtOnce) {
  const harness::CheckReport report = report_of({7, 1, 3});
  EXPECT_FALSE(report.passed());
  const std::string line = report.to_string();
  EXPECT_TRUE(has(line, "elements were never written"));
  EXPECT_TRUE(has(line, "16 bytes outside of output were written"));
  EXPECT_TRUE(has(line, "inf of the tolerance"));
}

}  // namespace
}  // namespace vkattn::tests
