// Tests thinned where there is no time for all: the part that an environment variable names, as k/n.
#pragma once

#include <cstddef>
#include <initializer_list>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace vkattn::tests {

/// The index-th of `count` parts of something, from 1 on.
struct TestPart {
  std::size_t index = 1;
  std::size_t count = 1;

  /// Whether what is counted as `place`, from 0 on, is in the part.
  [[nodiscard]] bool has(std::size_t place) const { return place % count == index - 1; }
};

/// From "k/n" with k from 1 to n; nothing where the text is not such. Empty text is the whole.
[[nodiscard]] std::optional<TestPart> parse_test_part(std::string_view text);

/// The part that VKATTN_TEST_PART names, the whole where it is not set. Ends the program where it makes no
/// sense: this is asked before any test could fail, and less than what was meant must not pass for it.
[[nodiscard]] TestPart wanted_test_part();

/// VKATTN_LONG_TESTS is 1: what takes minutes runs too.
[[nodiscard]] bool long_tests_are_wanted();

/// Which of so many things a part has: every count-th, and one in any case. What is in one part is not in
/// another, but for that. Counting begins elsewhere for each `salt`, so that the kernels of one test, which
/// go through the same list, have different ones.
[[nodiscard]] std::vector<std::size_t> places_of_part(std::size_t size, const TestPart& part,
                                                      std::string_view salt);
/// The full name of the test that runs; empty before any does.
[[nodiscard]] std::string running_test();

/// Of the things that a test goes through, those of the wanted part. Not one in another: of two factors most
/// pairs would be in no part, so their pairs have to be the list.
template <class T>
[[nodiscard]] std::vector<T> part_of(std::span<const T> whole) {
  std::vector<T> part;
  for (const std::size_t place : places_of_part(whole.size(), wanted_test_part(), running_test())) {
    part.push_back(whole[place]);
  }
  return part;
}
template <class T>
[[nodiscard]] std::vector<T> part_of(std::initializer_list<T> whole) {
  return part_of(std::span<const T>(whole.begin(), whole.size()));
}

}  // namespace vkattn::tests
