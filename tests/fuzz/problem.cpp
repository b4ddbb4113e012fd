// Problem strings: an accepted string is valid, and is written as a string with the same meaning.
#include "problem/problem.hpp"

#include "fuzz/fuzz.hpp"
#include "problem/gradients.hpp"

namespace {

using vkattn::bench::Operation, vkattn::bench::Problem;

bool is_valid(const Problem& problem) {
  if (problem.operation == Operation::kMatmul) return vkattn::validate(problem.matmul).ok();
  if (problem.operation == Operation::kForward) return vkattn::validate(problem.desc).ok();
  return vkattn::validate(vkattn::bench::with_all_gradients(problem.desc)).ok();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using vkattn::fuzz::require;
  const auto problem = vkattn::bench::parse_problem(vkattn::fuzz::text_of(data, size));
  if (!problem.ok()) {
    require(!problem.error().message.empty(), "a refusal says why");
    return 0;
  }
  require(is_valid(*problem), "a problem that is taken is valid");
  const std::string text = vkattn::bench::to_string(*problem);
  const auto again = vkattn::bench::parse_problem(text);
  require(again.ok(), "a problem that is written can be read");
  require(vkattn::bench::to_string(*again) == text, "a problem that is written is read as the same");
  return 0;
}
