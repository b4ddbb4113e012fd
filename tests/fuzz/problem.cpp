// Problem strings: one that is taken is valid, and is written as a string that means the same.
#include "problem/problem.hpp"

#include "fuzz/fuzz.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using vkattn::fuzz::require;
  const auto problem = vkattn::bench::parse_problem(vkattn::fuzz::text_of(data, size));
  if (!problem.ok()) {
    require(!problem.error().message.empty(), "a refusal says why");
    return 0;
  }
  require(vkattn::validate(problem->desc).ok(), "a problem that is taken is valid");
  const std::string text = vkattn::bench::to_string(*problem);
  const auto again = vkattn::bench::parse_problem(text);
  require(again.ok(), "a problem that is written can be read");
  require(vkattn::bench::to_string(*again) == text, "a problem that is written is read as the same");
  return 0;
}
