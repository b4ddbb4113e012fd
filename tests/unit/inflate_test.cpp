// Unpacks gzip files that another program made: whole, cut off and damaged. The address sanitizer checks that
// nothing outside of a file or its output is touched.
#include "spirv/inflate.hpp"

#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "support/must.hpp"
#include "support/text.hpp"
#include "vulkan/shader_code.hpp"

namespace vkattn::detail {
namespace {

using Bytes = std::vector<std::uint8_t>;

// Made with Python's zlib: compressobj(level, DEFLATED, 31, 9, strategy) with level 0, with Z_FIXED, with the
// defaults, and with Z_FIXED again.
constexpr std::uint8_t kStored[] = {0x1f, 0x8b, 0x08, 0x00, 0x00, 0x00, 0x00, 0x00, 0x04, 0xff, 0x01,
                                    0x1f, 0x00, 0xe0, 0xff, 0x73, 0x6f, 0x66, 0x74, 0x6d, 0x61, 0x78,
                                    0x28, 0x73, 0x63, 0x61, 0x6c, 0x65, 0x20, 0x2a, 0x20, 0x51, 0x20,
                                    0x4b, 0x5e, 0x54, 0x20, 0x2b, 0x20, 0x6d, 0x61, 0x73, 0x6b, 0x29,
                                    0x20, 0x56, 0x70, 0x93, 0x61, 0xeb, 0x1f, 0x00, 0x00, 0x00};
constexpr std::uint8_t kFixed[] = {
    0x1f, 0x8b, 0x08, 0x00, 0x00, 0x00, 0x00, 0x00, 0x02, 0xff, 0x2b, 0xce, 0x4f, 0x2b, 0xc9, 0x4d, 0xac,
    0xd0, 0x28, 0x4e, 0x4e, 0xcc, 0x49, 0x55, 0xd0, 0x52, 0x08, 0x54, 0xf0, 0x8e, 0x0b, 0x51, 0xd0, 0x56,
    0xc8, 0x4d, 0x2c, 0xce, 0xd6, 0x54, 0x08, 0x03, 0x00, 0x70, 0x93, 0x61, 0xeb, 0x1f, 0x00, 0x00, 0x00};
constexpr std::uint8_t kDynamic[] = {
    0x1f, 0x8b, 0x08, 0x00, 0x00, 0x00, 0x00, 0x00, 0x02, 0xff, 0x35, 0xcf, 0xbb, 0x0d, 0x42, 0x31, 0x10,
    0x44, 0xd1, 0x56, 0x5e, 0x09, 0x78, 0xd7, 0xfb, 0x71, 0x39, 0x04, 0x44, 0x88, 0xe0, 0x81, 0x08, 0xe8,
    0x1e, 0xc1, 0x1d, 0x47, 0x96, 0x8e, 0x46, 0xe3, 0x9d, 0xf3, 0x7d, 0x7b, 0x7e, 0x2e, 0xc7, 0xe3, 0xfa,
    0xba, 0x7b, 0xfd, 0x9f, 0x9a, 0xc7, 0xf9, 0xc3, 0x81, 0x4e, 0xb4, 0xa5, 0x86, 0x06, 0xba, 0xa4, 0x8e,
    0x26, 0xea, 0xe0, 0x04, 0x0b, 0x1c, 0xd2, 0x40, 0x1b, 0x35, 0x69, 0xa2, 0x4b, 0x05, 0xd2, 0x52, 0x2d,
    0x87, 0x08, 0x1b, 0x1c, 0x68, 0x48, 0x17, 0x6a, 0x68, 0xfa, 0xde, 0xa0, 0x69, 0x70, 0xed, 0x30, 0x85,
    0x60, 0xef, 0x2c, 0x1a, 0xe8, 0x92, 0x1a, 0x9a, 0xa8, 0x69, 0x2e, 0x58, 0xe0, 0x90, 0x4e, 0xb4, 0x15,
    0x95, 0x06, 0xba, 0x50, 0x97, 0xa6, 0x3e, 0xe3, 0x10, 0x61, 0x81, 0x03, 0x0d, 0x69, 0xa3, 0x86, 0xa6,
    0x7d, 0x01, 0x97, 0x88, 0xcc, 0xf1, 0xb2, 0x01, 0x00, 0x00};
constexpr std::uint8_t kRuns[] = {0x1f, 0x8b, 0x08, 0x00, 0x00, 0x00, 0x00, 0x00, 0x02, 0xff, 0x4b, 0x4c,
                                  0x4a, 0x1c, 0x85, 0xa3, 0x90, 0xea, 0x30, 0x79, 0x14, 0x8c, 0x82, 0x21,
                                  0x0a, 0x00, 0x11, 0x87, 0xf6, 0x3a, 0x14, 0x05, 0x00, 0x00};
constexpr std::uint8_t kNothing[] = {0x1f, 0x8b, 0x08, 0x00, 0x00, 0x00, 0x00, 0x00, 0x02, 0xff,
                                     0x03, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00};
constexpr std::string_view kText = "softmax(scale * Q K^T + mask) V";

// The content of kDynamic.
std::string names_and_numbers() {
  constexpr std::array<const char*, 6> kNames{"query", "key", "value", "output", "mask", "scale"};
  std::string text;
  for (std::size_t i = 0; i < 60; ++i) {
    if (i > 0) text += ' ';
    text += kNames[(i * i * 7 + i * 3) % 6];
    text += std::to_string(i * 37 % 101);
  }
  return text;
}

// The content of kRuns: copies that overlap what they write, and some of the greatest length.
std::string runs() {
  std::string text;
  for (int i = 0; i < 300; ++i) text += "ab";
  return text.append(700, 'c');
}

struct File {
  Bytes gzip;
  Bytes content;
};

template <class Array>
File file(const Array& gzip, std::string_view content) {
  return {Bytes(std::begin(gzip), std::end(gzip)), Bytes(content.begin(), content.end())};
}

std::vector<File> files() {
  return {file(kStored, kText), file(kFixed, kText), file(kDynamic, names_and_numbers()), file(kRuns, runs()),
          file(kNothing, "")};
}

TEST(InflateTest, WholeFilesUnpackToWhatWasPacked) {
  for (const File& whole : files()) {
    ASSERT_EQ(unpacked_bytes(whole.gzip), whole.content.size());
    Bytes output(whole.content.size());
    EXPECT_TRUE(unpack(whole.gzip, output));
    EXPECT_EQ(output, whole.content);
  }
}

TEST(InflateTest, FilesThatAreCutOffAreRefused) {
  for (const File& whole : files()) {
    for (std::size_t bytes = 0; bytes < whole.gzip.size(); ++bytes) {
      // The remaining end tells a size of its own. A second file gets the right end.
      const Bytes cut(whole.gzip.begin(), whole.gzip.begin() + static_cast<std::ptrdiff_t>(bytes));
      Bytes output(unpacked_bytes(cut).value_or(0));
      EXPECT_FALSE(unpack(cut, output)) << bytes;
      if (bytes < 18) continue;
      Bytes with_end(cut.begin(), cut.end() - 8);
      with_end.insert(with_end.end(), whole.gzip.end() - 8, whole.gzip.end());
      output.resize(whole.content.size());
      EXPECT_FALSE(unpack(with_end, output)) << bytes;
    }
  }
}

// Some bits of the header have no meaning here: the time and the system.
TEST(InflateTest, NoDamagedFileUnpacksToSomethingElse) {
  std::size_t refused = 0;
  std::size_t damaged = 0;
  for (const File& whole : files()) {
    for (std::size_t bit = 0; bit < 8 * whole.gzip.size(); ++bit) {
      Bytes changed = whole.gzip;
      changed[bit / 8] ^= static_cast<std::uint8_t>(1U << bit % 8);
      Bytes output(whole.content.size());
      ++damaged;
      if (unpack(changed, output)) {
        EXPECT_EQ(output, whole.content) << "bit " << bit;
      } else {
        ++refused;
      }
    }
  }
  // 6 bytes of the header, and the unused bits of the byte after the last code.
  EXPECT_GE(refused + files().size() * (6 * 8 + 7), damaged);
}

TEST(InflateTest, TheSizeOfTheOutputMustBeTheFiles) {
  for (const File& whole : files()) {
    Bytes longer(whole.content.size() + 1);
    EXPECT_FALSE(unpack(whole.gzip, longer));
    if (whole.content.empty()) continue;
    Bytes shorter(whole.content.size() - 1);
    EXPECT_FALSE(unpack(whole.gzip, shorter));
    // Even if the file itself tells a wrong size.
    Bytes lies = whole.gzip;
    lies[lies.size() - 4] ^= 1U;
    Bytes output(unpacked_bytes(lies).value());
    EXPECT_FALSE(unpack(lies, output));
  }
}

TEST(InflateTest, SizesBeyondWhatCanBeAreNotBelieved) {
  Bytes lies(std::begin(kRuns), std::end(kRuns));
  lies[lies.size() - 1] = 0xff;  // 4 GB
  EXPECT_FALSE(unpacked_bytes(lies));
  EXPECT_FALSE(unpacked_bytes({}));
  EXPECT_FALSE(unpacked_bytes(Bytes(100, 0)));
}

TEST(InflateTest, ADamagedShaderIsAnErrorInWords) {
  Bytes damaged(std::begin(kDynamic), std::end(kDynamic));
  damaged[40] ^= 1U;
  EXPECT_TRUE(tests::has(tests::message_of(ShaderCode::packed(damaged).words()), "damaged"));
}

}  // namespace
}  // namespace vkattn::detail
