// Sentences of errors: their pieces, exceptions that are thrown inside of the library, and paths.
#include "common/message.hpp"

#include <gtest/gtest.h>

#include <cstdint>
#include <limits>
#include <stdexcept>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

#include "common/path_text.hpp"
#include "support/must.hpp"

namespace vkattn::detail {
namespace {

template <class Thrown>
Error error_of(const Thrown& thrown) {
  const Result<int> result = without_exceptions([&]() -> Result<int> { throw thrown; });
  return result.ok() ? Error{} : result.error();
}

TEST(Message, TextStaysAsItIs) {
  const std::string owned = "query";
  EXPECT_EQ(message("", owned, '_', std::string_view("length").substr(0, 3), owned.c_str(), ""),
            "query_lenquery");
}

TEST(Message, IntegersHaveAllTheirDigits) {
  EXPECT_EQ(message(std::numeric_limits<std::int64_t>::min(), " ", std::numeric_limits<std::uint64_t>::max()),
            "-9223372036854775808 18446744073709551615");
  EXPECT_EQ(message(std::uint8_t{65}, " ", std::int8_t{-1}, " ", true, " ", VK_ERROR_DEVICE_LOST),
            "65 -1 1 -4");
  EXPECT_EQ(
      message("0x", MessagePart::hex(std::numeric_limits<std::uint64_t>::max()), " ", MessagePart::hex(0)),
      "0xffffffffffffffff 0");
}

TEST(Message, RealNumbersHaveTheDigitsAskedFor) {
  const double infinity = std::numeric_limits<double>::infinity();
  EXPECT_EQ(message(0.5F, " ", 1234567.0, " ", -1e-300, " ", -infinity), "0.5 1.23457e+06 -1e-300 -inf");
  EXPECT_EQ(message(MessagePart(12.345, 3), " ms"), "12.3 ms");
  EXPECT_EQ(message(MessagePart(-std::numeric_limits<double>::max(), 17)), "-1.7976931348623157e+308");
}

TEST(Message, RealNumbersHaveAPointInEveryLocale) {
  const auto with_its_point = [](std::string text) {
    text.resize(static_cast<std::size_t>(with_point(text.data(), text.data() + text.size()) - text.data()));
    return text;
  };
  EXPECT_EQ(with_its_point("12,5"), "12.5");
  EXPECT_EQ(with_its_point("-1\xd9\xab"
                           "25e-07"),
            "-1.25e-07")
      << "the Arabic separator has two bytes";
  for (const char* const text : {"12.5", "7", "-inf", "nan", "1e+300", ""})
    EXPECT_EQ(with_its_point(text), text);
}

TEST(WithoutExceptions, LackOfMemoryHasItsCode) {
  EXPECT_EQ(error_of(std::bad_alloc()).code, ErrorCode::kOutOfMemory);
  // A container cannot be that long.
  const Result<int> longer = without_exceptions([]() -> Result<int> {
    std::vector<int> numbers;
    numbers.resize(numbers.max_size() + 1);
    return 0;
  });
  EXPECT_TRUE(tests::is_refused(longer, ErrorCode::kOutOfMemory, {}));
  EXPECT_EQ(tests::message_of(longer), "out of memory");
}

TEST(WithoutExceptions, WhateverIsThrownBecomesAnError) {
  const Error lock = error_of(std::system_error(std::make_error_code(std::errc::operation_not_permitted)));
  EXPECT_TRUE(tests::names(lock, ErrorCode::kIo, {"the host failed: "}));
  EXPECT_EQ(error_of(std::runtime_error("no more")).message, "the host failed: no more");
  EXPECT_EQ(error_of(42).message, "the host failed: an exception of an unknown type");
}

TEST(WithoutExceptions, ResultsPassThrough) {
  EXPECT_EQ(tests::must(without_exceptions([]() -> Result<int> { return 7; })), 7);
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
