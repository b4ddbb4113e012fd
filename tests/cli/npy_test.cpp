// The .npy reader and writer: every version, valid and hostile headers, files of the wrong length, rounding.
#include "npy.hpp"

#include <gtest/gtest.h>

#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "arrays.hpp"
#include "npy_lengths.hpp"
#include "support/must.hpp"
#include "support/text.hpp"

namespace vkattn::tests {
namespace {

using npy::Beyond;
using npy::ElementType;
using npy::Header;

/// A header of the version around a dictionary, padded as NumPy does.
std::string header_of(int version, std::string dictionary) {
  const std::size_t prefix = version == 1 ? 10 : 12;
  while ((prefix + dictionary.size() + 1) % 64 != 0) dictionary += ' ';
  dictionary += '\n';
  std::string text = "\x93NUMPY";
  text += static_cast<char>(version);
  text += '\0';
  for (std::size_t i = 0; i < prefix - 8; ++i)
    text += static_cast<char>(dictionary.size() >> (8 * i) & 0xffU);
  return text + dictionary;
}

std::string dictionary(const std::string& descr, const std::string& order, const std::string& shape) {
  return "{'descr': '" + descr + "', 'fortran_order': " + order + ", 'shape': " + shape + ", }";
}

std::string error_of(const std::string& content) {
  const Result<Header> header = npy::parse_header(content);
  return header.ok() ? "no error" : header.error().message;
}

TEST(Npy, ReadsEveryVersion) {
  for (const int version : {1, 2, 3}) {
    SCOPED_TRACE(version);
    const std::string text = header_of(version, dictionary("<f4", "False", "(2, 8, 512, 64)"));
    const auto header = must(npy::parse_header(text + "data"));
    EXPECT_EQ(header.type, ElementType::kFloat32);
    EXPECT_FALSE(header.big_endian);
    EXPECT_FALSE(header.fortran_order);
    EXPECT_EQ(header.shape, (std::vector<std::int64_t>{2, 8, 512, 64}));
    EXPECT_EQ(header.elements, 2 * 8 * 512 * 64);
    EXPECT_EQ(header.data_offset, text.size());
  }
}

TEST(Npy, ReadsTypesOrdersAndShapes) {
  struct Case {
    const char* descr;
    const char* order;
    const char* shape;
    ElementType type;
    bool big_endian, fortran;
    std::int64_t elements;
  };
  const bool big = std::endian::native == std::endian::big;
  for (const Case& c : {Case{"<f2", "False", "(3,)", ElementType::kFloat16, false, false, 3},
                        Case{">f4", "True", "(3, 2)", ElementType::kFloat32, true, true, 6},
                        Case{"=f8", "False", "()", ElementType::kFloat64, big, false, 1},
                        Case{"|i4", "False", "(0, 5)", ElementType::kInt32, big, false, 0},
                        Case{"|u1", "False", "(5,)", ElementType::kUint8, big, false, 5},
                        Case{"|i1", "False", "(5,)", ElementType::kInt8, big, false, 5},
                        Case{"<i2", "False", "(5,)", ElementType::kInt16, false, false, 5},
                        Case{">u2", "False", "(5,)", ElementType::kUint16, true, false, 5},
                        Case{"<u4", "False", "(5,)", ElementType::kUint32, false, false, 5},
                        Case{">u8", "False", "(5,)", ElementType::kUint64, true, false, 5},
                        Case{">i8", "False", "(5, 7,)", ElementType::kInt64, true, false, 35},
                        Case{"|b1", "False", "(4, 2)", ElementType::kBool, big, false, 8},
                        Case{"<f4", "False", "(2L, 3L)", ElementType::kFloat32, false, false, 6}}) {
    const std::string text = dictionary(c.descr, c.order, c.shape);
    SCOPED_TRACE(text);
    const auto header = must(npy::parse_header(header_of(1, text)));
    EXPECT_EQ(header.type, c.type);
    EXPECT_EQ(header.big_endian, c.big_endian);
    EXPECT_EQ(header.fortran_order, c.fortran);
    EXPECT_EQ(header.elements, c.elements);
  }
  EXPECT_TRUE(
      npy::parse_header(header_of(1, "{ \"shape\":(2,3),\"fortran_order\":True , \"descr\":\"<f2\"}")).ok());
}

TEST(Npy, NamesWhatIsWrongWithAHeader) {
  std::string many;
  for (int i = 0; i < 40; ++i) many += "1, ";
  const std::pair<std::string, const char*> cases[] = {
      {dictionary("<c8", "False", "(2,)"), "'<c8' is not one of"},
      {dictionary("<f16", "False", "(2,)"), "'<f16' is not one of"},
      {dictionary("<u3", "False", "(2,)"), "'<u3' is not one of"},
      {dictionary("f4", "False", "(2,)"), "'f4' is not one of"},
      {dictionary("", "False", "(2,)"), "'' is not one of"},
      {"{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (2,), }", "structured type"},
      {dictionary("<f4", "false", "(2,)"), "expected True or False"},
      {dictionary("<f4", "False", "(2)"), "expected ',' in the shape"},
      {dictionary("<f4", "False", "(-2,)"), "expected a size"},
      {dictionary("<f4", "False", "(2 3)"), "expected ',' in the shape"},
      {dictionary("<f4", "False", "[2, 3]"), "expected a shape"},
      {dictionary("<f4", "False", "(99999999999999999999,)"), "does not fit 63 bits"},
      {dictionary("<f4", "False", "(4294967296, 4294967296)"), "more elements than"},
      {"{'descr': '<f4', 'fortran_order': False, }", "no 'shape'"},
      {"{'descr': '<f4', 'descr': '<f4', 'fortran_order': False, 'shape': (2,)}", "'descr' twice"},
      {"{'descr': '<f4', 'fortran_order': False, 'shape': (2,), 'x': 1}", "unknown key 'x'"},
      {"{'descr': '<f4', 'fortran_order': False, 'shape': (2,)} ; import os", "nothing more"},
      {"", "expected '{'"},
      {dictionary("<f4", "False", "(" + many + ")"), "more than 32"},
  };
  for (const auto& [text, expected] : cases) EXPECT_TRUE(has(error_of(header_of(1, text)), expected)) << text;
}

TEST(Npy, RefusesHostileHeaderLengths) {
  const std::string sound = dictionary("<f4", "False", "(2,)");
  EXPECT_TRUE(has(error_of(header_of(2, sound).replace(8, 4, "\xff\xff\xff\xff")), "4294967295"));
  EXPECT_TRUE(has(error_of(header_of(1, sound).replace(8, 2, std::string("\x00\x80", 2))), "32768"));
  EXPECT_TRUE(has(error_of(header_of(1, sound).replace(6, 1, "\x04")), "4.0"));
}

TEST(Npy, SurvivesEveryChangedByteOfAHeader) {
  const std::string sound = header_of(1, dictionary("<f4", "False", "(2, 3)"));
  for (std::size_t i = 0; i < sound.size(); ++i) {
    for (int value = 0; value < 256; ++value) {
      std::string changed = sound;
      changed[i] = static_cast<char>(value);
      const Result<Header> header = npy::parse_header(changed);
      if (header.ok()) {
        EXPECT_LE(header->data_offset, changed.size());
      } else {
        EXPECT_FALSE(header.error().message.empty());
      }
    }
  }
}

TEST(Npy, RefusesAFileCutAtAnyByteOrTooLong) {
  const TempFolder folder;
  const std::string whole =
      npy::make_header(ElementType::kFloat32, std::array<std::int64_t, 2>{2, 3}) + std::string(24, 'x');
  const auto refusal = [&](const std::string& content) {
    write_file(folder / "cut.npy", content);
    const Result<npy::Reader> reader = npy::Reader::open(folder / "cut.npy");
    if (reader.ok()) return std::string("no error");
    EXPECT_EQ(reader.error().code, ErrorCode::kIo);
    EXPECT_TRUE(has(reader.error().message, "cut.npy: "));
    return reader.error().message;
  };
  for (std::size_t length = 0; length < whole.size(); ++length) {
    EXPECT_NE(refusal(whole.substr(0, length)), "no error") << length;
  }
  EXPECT_TRUE(has(refusal(whole + "x"), "needs 24 bytes after the header, but the file has 25"));
  EXPECT_EQ(refusal(whole), "no error");
  EXPECT_FALSE(npy::Reader::open(folder / "missing.npy").ok());
  EXPECT_FALSE(npy::Reader::open(folder.path()).ok());
}

TEST(Npy, WritesHeadersThatItReads) {
  for (int i = 0; i <= static_cast<int>(ElementType::kUint64); ++i) {
    const auto type = static_cast<ElementType>(i);
    for (const std::vector<std::int64_t>& shape :
         {std::vector<std::int64_t>{}, {7}, {2, 3}, {1, 2, 3, 4}, {0, 5}, {123456789, 1000}}) {
      const std::string text = npy::make_header(type, shape);
      EXPECT_EQ(text.size() % 64, 0U);
      const auto header = must(npy::parse_header(text));
      EXPECT_EQ(header.type, type);
      EXPECT_EQ(header.shape, shape);
      EXPECT_EQ(header.data_offset, text.size());
    }
  }
}

/// The bits of one value of a file in a storage type, and the number of values that became infinite.
template <class T>
std::pair<std::uint32_t, std::uint64_t> converted(ElementType from, T value, DataType to,
                                                  Beyond beyond = Beyond::kInfinity) {
  Header header;
  header.type = from;
  header.big_endian = std::endian::native == std::endian::big;
  std::array<std::byte, sizeof(T)> raw{};
  std::memcpy(raw.data(), &value, sizeof(T));
  std::array<std::byte, 4> stored{};
  const std::uint64_t overflowed = npy::convert(header, raw, to, stored, beyond);
  std::uint16_t low = 0;
  std::memcpy(&low, stored.data(), 2);
  return {element_bytes(to) == 4 ? std::bit_cast<std::uint32_t>(stored) : low, overflowed};
}

TEST(Npy, RoundsOnceToNearestEven) {
  struct Case {
    double value;
    DataType type;
    std::uint32_t bits;
    std::uint64_t overflowed = 0;
  };
  const double infinity = std::numeric_limits<double>::infinity();
  for (const Case& c :
       {Case{0.1, DataType::kFloat32, std::bit_cast<std::uint32_t>(0.1F)},
        // Just above the middle of two float16 values, by less than float32 can represent.
        Case{1.0 + 0x1p-11 + 0x1p-40, DataType::kFloat16, 0x3c01U},
        Case{1.0 + 0x1p-11, DataType::kFloat16, 0x3c00U}, Case{1.0 + 0x3p-11, DataType::kFloat16, 0x3c02U},
        Case{1.0 + 0x3p-11 - 0x1p-40, DataType::kFloat16, 0x3c01U},
        Case{-(1.0 + 0x1p-11 + 0x1p-40), DataType::kFloat16, 0xbc01U},
        Case{1.0 + 0x1p-8 + 0x1p-45, DataType::kBfloat16, 0x3f81U},
        Case{1.0 + 0x1p-8, DataType::kBfloat16, 0x3f80U}, Case{65519.999999999, DataType::kFloat16, 0x7bffU},
        Case{65520.0, DataType::kFloat16, 0x7c00U, 1}, Case{0x1p-25, DataType::kFloat16, 0U},
        Case{0x1p-25 + 0x1p-70, DataType::kFloat16, 1U}, Case{-0.0, DataType::kFloat16, 0x8000U},
        Case{1e300, DataType::kFloat32, 0x7f800000U, 1}, Case{-1e39, DataType::kBfloat16, 0xff80U, 1},
        Case{infinity, DataType::kFloat16, 0x7c00U}}) {
    EXPECT_EQ(converted(ElementType::kFloat64, c.value, c.type), std::pair(c.bits, c.overflowed)) << c.value;
  }
  using Bits = std::pair<std::uint32_t, std::uint64_t>;
  EXPECT_EQ(converted(ElementType::kFloat16, std::uint16_t{0x3555}, DataType::kFloat16), Bits(0x3555U, 0U));
  EXPECT_EQ(converted(ElementType::kFloat16, std::uint16_t{0x0001}, DataType::kFloat32),
            Bits(std::bit_cast<std::uint32_t>(0x1p-24F), 0U));
  EXPECT_EQ(converted(ElementType::kFloat32, 1e6F, DataType::kFloat16), Bits(0x7c00U, 1U));
  const Bits nan = converted(ElementType::kFloat64, std::nan(""), DataType::kFloat16);
  EXPECT_GT(nan.first & 0x7fffU, 0x7c00U);
  EXPECT_EQ(nan.second, 0U);
}

/// For example in masks, where minus infinity hides a key.
TEST(Npy, KeepsFiniteValuesFiniteWhereAsked) {
  using Bits = std::pair<std::uint32_t, std::uint64_t>;
  const double infinity = std::numeric_limits<double>::infinity();
  const std::tuple<double, DataType, std::uint32_t> cases[] = {
      {1e300, DataType::kFloat32, 0x7f7fffffU},
      {-1e300, DataType::kFloat32, 0xff7fffffU},
      // float32 rounds it to infinity, although it is beyond the last number by less than half a step.
      {-0x1.ffffffp127, DataType::kFloat32, 0xff7fffffU},
      {-infinity, DataType::kFloat32, 0xff800000U},
      {infinity, DataType::kFloat32, 0x7f800000U},
      {-0.5, DataType::kFloat32, 0xbf000000U},
      {-7e4, DataType::kFloat16, 0xfbffU},
      {-infinity, DataType::kFloat16, 0xfc00U},
      {1e39, DataType::kBfloat16, 0x7f7fU}};
  for (const auto& [value, type, bits] : cases)
    EXPECT_EQ(converted(ElementType::kFloat64, value, type, Beyond::kLargest), Bits(bits, 0U)) << value;
  const Bits nan = converted(ElementType::kFloat64, std::nan(""), DataType::kFloat32, Beyond::kLargest);
  EXPECT_GT(nan.first & 0x7fffffffU, 0x7f800000U);
}

template <class T>
void write_list(const std::filesystem::path& path, const std::vector<T>& values) {
  write_npy(path, {static_cast<std::int64_t>(values.size())}, values);
}

TEST(Npy, SwapsBigEndianElements) {
  Header header;
  header.type = ElementType::kFloat32;
  header.big_endian = true;
  const std::array<std::byte, 4> raw = {std::byte{0x3f}, std::byte{0x80}, std::byte{0}, std::byte{0}};
  std::array<std::byte, 4> stored{};
  EXPECT_EQ(npy::convert(header, raw, DataType::kFloat32, stored), 0U);
  EXPECT_EQ(std::bit_cast<float>(stored), 1.0F);
  const TempFolder folder;
  write_file(folder / "n.npy", header_of(1, dictionary(">i4", "False", "(2,)")) +
                                   std::string("\x00\x00\x01\x00\xff\xff\xff\xff", 8));
  auto reader = must(npy::Reader::open(folder / "n.npy"));
  const auto values = must(npy::read_integers(reader, 2));
  EXPECT_EQ(values, (std::vector<std::int64_t>{256, -1}));
}

TEST(NpyLengths, CumulativeOnesBeginAtZeroAndNeverFall) {
  const TempFolder folder;
  const std::filesystem::path path = folder / "ends.npy";
  const auto read = [&] { return npy::read_cumulative_lengths(path, "--ends"); };
  write_list<std::int32_t>(path, {0, 4, 4, 9});
  ASSERT_TRUE(read().ok());
  EXPECT_EQ(*read(), (std::vector<std::int32_t>{0, 4, 4, 9}));
  EXPECT_EQ(npy::lengths_of(*read()), (std::vector<std::int32_t>{4, 0, 5}));
  write_list<std::uint64_t>(path, {0, 0x7fffffff});
  ASSERT_TRUE(read().ok());
  write_list<std::uint32_t>(path, {0});
  ASSERT_TRUE(read().ok());
  EXPECT_TRUE(npy::lengths_of(*read()).empty());

  const std::pair<std::vector<std::int64_t>, const char*> cases[] = {
      {{0, 7, -2}, "--ends falls from 7 to -2 at index 2, but no sequence ends before it begins"},
      {{0, 0x80000000}, "--ends has 2147483648 at index 1, which does not fit int32"}};
  for (const auto& [numbers, expected] : cases) {
    write_list(path, numbers);
    EXPECT_TRUE(message_of(read()).starts_with(path.string() + ": " + expected)) << expected;
  }
}

}  // namespace
}  // namespace vkattn::tests
