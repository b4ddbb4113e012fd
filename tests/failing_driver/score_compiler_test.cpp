// Compiles a score function while memory is missing. Most allocations are glslang's. If one fails, glslang
// leaks memory, and may take the failure for the end of the text. So this test checks statuses and what works
// afterwards, but not memory that is left.
#include <vkattn/vkattn.h>
#include <vkattn/score_function.hpp>

#include <gtest/gtest.h>

#include <string>

#include "failing_driver/c_interface.hpp"
#include "failing_driver/host_memory.hpp"

namespace vkattn::tests {
namespace {

constexpr const char* kScore = "float score(float s, Position p) { return s + table(p.key); }\n";

vkattn_result compile(OwnedScoreFunction& function, vkattn_error& error) {
  const vkattn_score_buffer table{"table", VKATTN_SCORE_BUFFER_FLOAT};
  vkattn_score_function_desc desc = initial(vkattn_score_function_desc_init);
  desc.source = kScore;
  desc.buffers = &table;
  desc.buffer_count = 1;
  return vkattn_score_function_compile(&desc, function.target(), &error);
}

/// Calls `run`, which returns whether it succeeded, while each `stride`-th allocation fails. It must not
/// succeed without all of its memory, because the function would be incomplete.
template <class Run>
void fail_allocations(std::uint64_t stride, const Run& run) {
  std::uint64_t tried = 0;
  for (std::uint64_t n = 1;; n += stride, ++tried) {
    SCOPED_TRACE("allocation " + std::to_string(n));
    fail_allocation(n);
    const bool is_success = run();
    const bool is_reached = allocation_failed();
    fail_allocation(0);
    ASSERT_EQ(is_success, !is_reached);
    ASSERT_TRUE(run()) << "afterwards";
    if (!is_reached) break;
  }
  EXPECT_GT(tried, 3U);
}

class ScoreCompiler : public testing::Test {
 protected:
  void SetUp() override {
#ifdef VKATTN_SANITIZED
    GTEST_SKIP() << "sanitizers find what glslang leaves";
#endif
  }
};

TEST_F(ScoreCompiler, GivesAStatusWhereMemoryIsMissing) {
  vkattn_error error = initial(vkattn_error_init);
  const auto run = [&] {
    OwnedScoreFunction function;
    const vkattn_result code = compile(function, error);
    if (code == VKATTN_SUCCESS) return function.get() != nullptr;
    EXPECT_TRUE(code == VKATTN_ERROR_OUT_OF_MEMORY || code == VKATTN_ERROR_INVALID_ARGUMENT) << code;
    EXPECT_EQ(function.get(), nullptr);
    EXPECT_STRNE(error.message, "");
    return false;
  };
  ASSERT_TRUE(run());  // creates glslang's tables
  fail_allocations(1, run);
}

TEST_F(ScoreCompiler, KernelsGiveAStatusToo) {
  ScoreFunctionDesc desc;
  desc.source = kScore;
  desc.buffers = {{"table", ScoreBufferType::kFloat}};
  const auto run = [&] {
    const auto function = ScoreFunction::create(desc);
    return function.ok() && (*function)->binary("attention_lane_features").ok();
  };
  ASSERT_TRUE(run());
  fail_allocations(2003, run);
}

}  // namespace
}  // namespace vkattn::tests
