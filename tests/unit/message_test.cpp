// What becomes of what is thrown in the library, and of paths in its messages.
#include "common/message.hpp"

#include <gtest/gtest.h>

#include <stdexcept>
#include <system_error>
#include <vector>

#include "common/path_text.hpp"

namespace vkattn::detail {
namespace {

template <class Thrown>
Error error_of(const Thrown& thrown) {
  const Result<int> result = without_exceptions([&]() -> Result<int> { throw thrown; });
  return result.ok() ? Error{} : result.error();
}

TEST(WithoutExceptions, LackOfMemoryHasItsCode) {
  EXPECT_EQ(error_of(std::bad_alloc()).code, ErrorCode::kOutOfMemory);
  // A container that cannot be that long.
  const Result<int> longer = without_exceptions([]() -> Result<int> {
    std::vector<int> numbers;
    numbers.resize(numbers.max_size() + 1);
    return 0;
  });
  ASSERT_FALSE(longer.ok());
  EXPECT_EQ(longer.error().code, ErrorCode::kOutOfMemory);
  EXPECT_EQ(longer.error().message, "out of memory");
}

TEST(WithoutExceptions, WhateverIsThrownBecomesAnError) {
  const Error lock = error_of(std::system_error(std::make_error_code(std::errc::operation_not_permitted)));
  EXPECT_EQ(lock.code, ErrorCode::kIo);
  EXPECT_NE(lock.message.find("the host failed: "), std::string::npos) << lock.message;
  EXPECT_EQ(error_of(std::runtime_error("no more")).message, "the host failed: no more");
  EXPECT_EQ(error_of(42).message, "the host failed: an exception of an unknown type");
}

TEST(WithoutExceptions, ResultsPassThrough) {
  const Result<int> seven = without_exceptions([]() -> Result<int> { return 7; });
  ASSERT_TRUE(seven.ok());
  EXPECT_EQ(*seven, 7);
}

TEST(PathText, IsUtf8) {
  EXPECT_EQ(path_text({}), "");
  EXPECT_EQ(path_text("folder.npy"), "folder.npy");
  const std::u8string name = u8"d\u00e9p\u00f4t \u20ac \U0001d11e.npy";
  EXPECT_EQ(path_text(std::filesystem::path(name)), std::string(name.begin(), name.end()));
}

#ifdef _WIN32
TEST(PathText, HalfAPairIsReplaced) {
  EXPECT_EQ(path_text(std::filesystem::path(L"a\xd834")), "a\xef\xbf\xbd");
  EXPECT_EQ(path_text(std::filesystem::path(L"\xdd1e\xd834\xdd1e")), "\xef\xbf\xbd\xf0\x9d\x84\x9e");
}
#endif

}  // namespace
}  // namespace vkattn::detail
