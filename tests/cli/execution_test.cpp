// The text of an execution's time.
#include "execution.hpp"

#include <gtest/gtest.h>

#include <deque>

namespace vkattn::tests {
namespace {

/// Stands for a run whose executions take these times.
struct TimedRun {
  std::deque<double> times;
  Result<double> execute(int /*plan*/) {
    const double time = times.front();
    times.pop_front();
    return time;
  }
};

std::string text_of(TimedRun run, double flops = 1e6) {
  return cli::execution_text(cli::execute_timed(run, 0, flops));
}

TEST(ExecutionText, NamesTheDriversCompilation) {
  EXPECT_EQ(text_of({{2e6}}), "2.00 ms for the first execution");
  EXPECT_EQ(text_of({{18.5e9, 12.1e6}}),
            "18.5 s for the first execution, most of it the driver's compilation (12.1 ms for the second)");
  EXPECT_EQ(text_of({{3.2e9, 3.1e9}}), "3.20 s for the first execution and 3.10 s for the second");
  EXPECT_EQ(text_of({{18.5e9}}, 1e10), "18.5 s for the first execution") << "long work is not repeated";
}

}  // namespace
}  // namespace vkattn::tests
