// Pictures that tests draw, and numbers read from a PNG (specification, third edition, sections 5.2
// and 11.2.1).
#pragma once

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>

#include "picture/canvas.hpp"
#include "support/text.hpp"

namespace vkattn::tests {

inline constexpr std::size_t kPngWidth = 16,
                             kPngHeight = 20;  ///< the places of width and height, which are in pixels

/// The number in four bytes.
[[nodiscard]] inline std::uint32_t big_endian(const std::string& bytes, std::size_t at) {
  std::uint32_t value = 0;
  for (std::size_t i = 0; i < 4; ++i) value = value << 8U | static_cast<unsigned char>(bytes.at(at + i));
  return value;
}

/// Checks that a PNG has its first and its last bytes.
inline void expect_png(const std::string& png) {
  ASSERT_GT(png.size(), 1000U);
  EXPECT_EQ(png.substr(0, 8), "\x89PNG\r\n\x1a\n");
  EXPECT_EQ(png.substr(12, 4), "IHDR");
  EXPECT_EQ(png.substr(png.size() - 8, 4), "IEND");
}

/// Tests of pictures. If this build cannot draw, they are skipped or fail.
class Drawing : public testing::Test {
 protected:
  void SetUp() override {
    const Result<void> support = picture::check_support();
    if (support.ok()) return;
    EXPECT_TRUE(has(support.error().message, "libcairo2-dev"));
    EXPECT_FALSE(draws_anything());
    if (std::getenv("VKATTN_TEST_REQUIRE_PLOT") != nullptr) FAIL() << support.error().message;
    GTEST_SKIP() << support.error().message;
  }
  [[nodiscard]] virtual bool draws_anything() const = 0;
};

}  // namespace vkattn::tests
