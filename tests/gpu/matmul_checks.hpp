// What tests of matrix multiplication share.
#pragma once

#include <vkattn/matmul.hpp>

#include <cstdint>

#include "gpu/support.hpp"
#include "harness/matmul_run.hpp"

namespace vkattn::tests {

inline constexpr DataType kStoredTypes[] = {DataType::kFloat32, DataType::kFloat16, DataType::kBfloat16};

inline MatmulDesc sizes(std::int64_t rows, std::int64_t columns, std::int64_t inner, std::int64_t batch = 1) {
  return {.batch = batch, .rows = rows, .columns = columns, .inner = inner};
}

inline void set_types(MatmulDesc& desc, DataType a, DataType b, DataType output) {
  desc.a.type = a;
  desc.b.type = b;
  desc.output.type = output;
}

/// Compares the product with the float64 reference, and so many executions with one another.
inline void expect_right_and_repeatable(const Runtime& runtime, const MatmulPlan& plan,
                                        const harness::MatmulProblem& problem, int runs = 2) {
  auto run = must(harness::MatmulRun::create(runtime, problem));
  must(run.execute(plan));
  const auto check = must(run.check());
  EXPECT_TRUE(check.passed()) << check.to_string();
  if (check.elements_checked > 0) {
    EXPECT_GT(check.elements_telling, 0) << "zeros would have passed";
  }
  const auto first = must(run.output_bytes());
  for (int i = 1; i < runs; ++i) {
    must(run.poison_output());
    must(run.execute(plan));
    ASSERT_TRUE(must(run.output_bytes()) == first) << "run " << i << " differs";
  }
}

}  // namespace vkattn::tests
