// Runs a part of the tests where there is no time for all. An environment variable names the part as k/n.
#pragma once

#include <cstddef>
#include <initializer_list>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace vkattn::tests {

/// One of `count` parts. `index` counts from 1.
struct TestPart {
  std::size_t index = 1;
  std::size_t count = 1;

  /// Whether the part contains the item with the number `place`, counted from 0.
  [[nodiscard]] bool has(std::size_t place) const { return place % count == index - 1; }
};

/// Reads "k/n" with k from 1 to n. Nothing if the text is anything else. An empty text is the whole.
[[nodiscard]] std::optional<TestPart> parse_test_part(std::string_view text);

/// The part that VKATTN_TEST_PART names, or the whole if the variable is not set. Ends the program if the
/// text cannot be read, because a part that runs less than was meant must not pass for it. Tests ask for the
/// part before anything can fail.
[[nodiscard]] TestPart wanted_test_part();

/// Whether VKATTN_LONG_TESTS is 1, so that tests of several minutes run too.
[[nodiscard]] bool long_tests_are_wanted();

/// The items of `size` that a part has: every count-th, and at least one. Otherwise no item is in two parts.
/// Each `salt` begins to count elsewhere, so that the kernels of one test, which go through the same list,
/// get different items.
[[nodiscard]] std::vector<std::size_t> places_of_part(std::size_t size, const TestPart& part,
                                                      std::string_view salt);
/// The full name of the running test. Empty before the first test.
[[nodiscard]] std::string running_test();

/// The items of a test that belong to the wanted part. Don't call it inside of another part_of(): most pairs
/// of two factors would be in no part. Call it once with a list of the pairs.
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
