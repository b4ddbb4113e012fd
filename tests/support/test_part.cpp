// Parts of tests: see test_part.hpp.
#include "support/test_part.hpp"

#include <gtest/gtest.h>

#include <charconv>
#include <cstdint>
#include <cstdio>
#include <cstdlib>

namespace vkattn::tests {
namespace {

/// FNV-1a. Unlike std::hash it is the same everywhere, so parts that run on several machines make a whole.
std::uint32_t stable_hash(std::string_view text) {
  std::uint32_t hash = 2166136261U;
  for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 16777619U;
  return hash;
}

}  // namespace

std::optional<TestPart> parse_test_part(std::string_view text) {
  TestPart part;
  if (text.empty()) return part;
  const char* const end = text.data() + text.size();
  const auto index = std::from_chars(text.data(), end, part.index);
  if (index.ec != std::errc() || index.ptr == end || *index.ptr != '/') return std::nullopt;
  const auto count = std::from_chars(index.ptr + 1, end, part.count);
  if (count.ec != std::errc() || count.ptr != end) return std::nullopt;
  if (part.index < 1 || part.index > part.count) return std::nullopt;
  return part;
}

TestPart wanted_test_part() {
  const char* const wanted = std::getenv("VKATTN_TEST_PART");
  if (wanted == nullptr) return {};
  const auto part = parse_test_part(wanted);
  if (part.has_value()) return *part;
  std::fprintf(stderr, "VKATTN_TEST_PART is '%s' but must be k/n with k from 1 to n, such as 1/4\n", wanted);
  std::exit(EXIT_FAILURE);
}

bool long_tests_are_wanted() {
  const char* const wanted = std::getenv("VKATTN_LONG_TESTS");
  return wanted != nullptr && std::string_view(wanted) == "1";
}

std::vector<std::size_t> places_of_part(std::size_t size, const TestPart& part, std::string_view salt) {
  std::vector<std::size_t> places;
  const std::size_t offset = stable_hash(salt) % part.count;
  for (std::size_t place = 0; place < size; ++place) {
    if (part.has(place + offset)) places.push_back(place);
  }
  if (places.empty() && size > 0) places.push_back((part.index - 1 + offset) % size);
  return places;
}

std::string running_test() {
  const testing::TestInfo* const test = testing::UnitTest::GetInstance()->current_test_info();
  return test != nullptr ? std::string(test->test_suite_name()) + "." + test->name() : "";
}

}  // namespace vkattn::tests
