// Pictures that tests draw, and what they read out of a PNG (specification, third edition, sections 5.2 and
// 11.2.1).
#pragma once

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>

#include "picture/canvas.hpp"
#include "support/text.hpp"

namespace vkattn::tests {

inline constexpr std::size_t kPngWidth = 16, kPngHeight = 20;  ///< where these are, in pixels

/// The number of four bytes.
[[nodiscard]] inline std::uint32_t big_endian(const std::string& bytes, std::size_t at) {
  std::uint32_t value = 0;
  for (std::size_t i = 0; i < 4; ++i) value = value << 8U | static_cast<unsigned char>(bytes.at(at + i));
  return value;
}

/// That a PNG has its first bytes and its last.
inline void expect_png(const std::string& png) {
  ASSERT_GT(png.size(), 1000U);
  EXPECT_EQ(png.substr(0, 8), "\x89PNG\r\n\x1a\n");
  EXPECT_EQ(png.substr(12, 4), "IHDR");
  EXPECT_EQ(png.substr(png.size() - 8, 4), "IEND");
}

/// Tests of what this build may be unable to draw: they are skipped then, or fail.
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
