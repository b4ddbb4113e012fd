// Cutting problems into windows that fit a device: everything covered once, nothing too large, offsets right
// beyond 32 bits.
#include "forward/windows.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "problem/problem.hpp"

namespace {

using vkattn::AttentionDesc;
using vkattn::Capabilities;
using vkattn::detail::make_windows;
using vkattn::detail::tensor_windows;
using vkattn::detail::TensorWindows;
using vkattn::detail::Window;

AttentionDesc desc_of(const char* problem) {
  return vkattn::bench::parse_problem(problem).value().desc;
}

Capabilities device_of(std::uint64_t range) {
  Capabilities capabilities;
  capabilities.max_storage_buffer_range = range;
  return capabilities;
}

void expect_covers_once(const AttentionDesc& desc, const std::vector<Window>& windows, std::uint64_t range) {
  std::set<std::tuple<std::int64_t, std::int64_t, std::int64_t>> seen;
  for (const Window& w : windows) {
    for (std::int64_t b = w.first_batch; b < w.first_batch + w.batch; ++b) {
      for (std::int64_t h = w.first_head; h < w.first_head + w.heads; ++h) {
        for (std::int64_t r = w.first_row; r < w.first_row + w.rows; ++r) {
          EXPECT_TRUE(seen.emplace(b, h, r).second) << "twice";
        }
      }
    }
    for (const auto& part : tensor_windows(desc, w)) EXPECT_LE(static_cast<std::uint64_t>(part.bytes), range);
  }
  EXPECT_EQ(seen.size(), static_cast<std::size_t>(desc.batch * desc.query_heads * desc.query_length));
}

TEST(Window, OneWhereEverythingFits) {
  const AttentionDesc desc = desc_of("b2 hq6 hkv2 33x65 d32 lse kv_lengths=1,2");
  const auto windows = make_windows(desc, device_of(1U << 27U), 0);
  ASSERT_TRUE(windows.ok());
  ASSERT_EQ(windows.value().windows.size(), 1U);
  expect_covers_once(desc, windows.value().windows, 1U << 27U);
}

TEST(Window, EveryRowOnceWhateverTheRange) {
  for (const char* problem : {"b3 hq4 hkv2 33x65 d32 lse", "b3 hq12 hkv2 33x65 d32 f16 layout=bshd lse",
                              "b2 hq6 hkv1 65x65 d32 layout=packed", "hq7 hkv1 203x65 d16",
                              "b5 h3 17x65 d32 kv_lengths=1,2,3,4,5 pad=3"}) {
    const AttentionDesc desc = desc_of(problem);
    for (const std::uint64_t range : {200000U, 60000U, 31000U, 30000U}) {
      const auto windows = make_windows(desc, device_of(range), 0);
      if (windows.ok()) {
        expect_covers_once(desc, windows.value().windows, range);
      } else {
        EXPECT_NE(windows.error().message.find("maxStorageBufferRange"), std::string::npos);
        EXPECT_NE(windows.error().message.find(std::to_string(range)), std::string::npos);
      }
    }
  }
}

TEST(Window, KeysOfOneHeadAreCutWhereTheKernelCan) {
  for (const char* problem :
       {"b2 hq4 hkv2 9x1000 d32", "hq4 hkv2 9x1000 d32 f16 layout=bshd", "9x1000 d33 dv7 pad=3"}) {
    const AttentionDesc desc = desc_of(problem);
    for (const std::uint64_t range : {60000U, 20000U, 9000U}) {
      EXPECT_FALSE(range < 30000 && make_windows(desc, device_of(range), 0).ok()) << "this kernel cannot";
      const auto windows = make_windows(desc, device_of(range), 32);
      ASSERT_TRUE(windows.ok()) << problem << ": " << windows.error().message;
      const std::int64_t most = windows.value().max_keys;
      EXPECT_TRUE(most == 1000 || (most > 0 && most % 32 == 0)) << most;
      for (Window w : windows.value().windows) {
        w.first_key = most == 1000 ? 0 : 1000 / most * most;
        w.keys = std::min<std::int64_t>(most, 1000 - w.first_key);
        for (const auto& part : tensor_windows(desc, w))
          EXPECT_LE(static_cast<std::uint64_t>(part.bytes), range);
        w.first_key = 0;
        w.keys = most;
        for (const auto& part : tensor_windows(desc, w))
          EXPECT_LE(static_cast<std::uint64_t>(part.bytes), range);
      }
    }
  }
}

TEST(Window, WorkspacesAreCutWithTheRows) {
  const AttentionDesc desc = desc_of("b2 h4 1000x10 d4");
  const auto windows = make_windows(desc, device_of(100000), 32, 400);
  ASSERT_TRUE(windows.ok());
  expect_covers_once(desc, windows.value().windows, 100000);
  for (const Window& w : windows.value().windows) EXPECT_LE(w.batch * w.heads * w.rows * 400, 100000);
}

TEST(Window, PartsOfTensorsBeginWhereTheWindowDoes) {
  const AttentionDesc desc = desc_of("b3 hq4 hkv2 33x65 d32 dv16 lse kv_lengths=1,2,3");
  const TensorWindows parts = tensor_windows(desc, {1, 1, 2, 2, 5, 7, 0, 65});
  EXPECT_EQ(parts[VKATTN_BINDING_QUERY].first_byte, 4 * ((1 * 4 + 2) * 33 + 5) * 32);
  EXPECT_EQ(parts[VKATTN_BINDING_QUERY].bytes, 4 * (33 * 32 + 7 * 32));
  EXPECT_EQ(parts[VKATTN_BINDING_KEY].first_byte, 4 * (1 * 2 + 1) * 65 * 32);
  EXPECT_EQ(parts[VKATTN_BINDING_KEY].bytes, 4 * 65 * 32);
  EXPECT_EQ(parts[VKATTN_BINDING_VALUE].first_byte, 4 * (1 * 2 + 1) * 65 * 16);
  EXPECT_EQ(parts[VKATTN_BINDING_OUTPUT].first_byte, 4 * ((1 * 4 + 2) * 33 + 5) * 16);
  EXPECT_EQ(parts[VKATTN_BINDING_LSE].first_byte, 4 * ((1 * 4 + 2) * 33 + 5));
  EXPECT_EQ(parts[VKATTN_BINDING_KV_LENGTHS].first_byte, 4);
  EXPECT_EQ(parts[VKATTN_BINDING_KV_LENGTHS].bytes, 4);
}

/// Fewer batch entries have fewer keys, and as many packed rows.
TEST(Window, PackedQueriesAreBoundWhole) {
  const AttentionDesc desc =
      desc_of("b3 h2 33x65 d32 sequences=queries query_lengths=33,0,20 kv_lengths=1,2,3 ring=40 lse");
  const TensorWindows parts = tensor_windows(desc, {1, 2, 1, 1, 0, 33, 0, 65});
  EXPECT_EQ(parts[VKATTN_BINDING_QUERY].first_byte, 4 * 53 * 32);
  EXPECT_EQ(parts[VKATTN_BINDING_QUERY].bytes, 4 * 53 * 32);
  EXPECT_EQ(parts[VKATTN_BINDING_LSE].first_byte, 4 * 53);
  EXPECT_EQ(parts[VKATTN_BINDING_KEY].first_byte, 4 * (1 * 2 + 1) * 40 * 32);
  EXPECT_EQ(parts[VKATTN_BINDING_KEY].bytes, 4 * (2 + 1) * 40 * 32);
  EXPECT_EQ(parts[VKATTN_BINDING_QUERY_LENGTHS].first_byte, 4);
  EXPECT_EQ(parts[VKATTN_BINDING_QUERY_LENGTHS].bytes, 12);
  EXPECT_EQ(parts[VKATTN_BINDING_KV_LENGTHS].bytes, 8);
  const auto count = [&](const char* problem) {
    const auto windows = make_windows(desc_of(problem), device_of(32000), 0);
    EXPECT_TRUE(windows.ok()) << windows.error().message;
    return windows.ok() ? windows.value().windows.size() : 0;
  };
  EXPECT_EQ(count("b4 h2 33x100 d32 sequences=queries query_lengths=9,9,9,9"), 4U) << "K of each entry";
  EXPECT_EQ(count("b4 h2 99x20 d32 sequences=queries query_lengths=50,50,50,50"), 2U) << "Q of each head";
}

TEST(Window, OffsetsBeyond32Bits) {
  // 64 batch entries of 16 heads x 65536 rows x 128: 8 Gi elements, 32 GiB in float32.
  const AttentionDesc desc = desc_of("b64 h16 65536x65536 d128");
  const auto windows = make_windows(desc, device_of(1U << 27U), 0);
  ASSERT_TRUE(windows.ok()) << windows.error().message;
  std::int64_t largest = 0;
  for (const Window& w : windows.value().windows) {
    const TensorWindows parts = tensor_windows(desc, w);
    for (const auto& part : parts) EXPECT_LE(part.bytes, std::int64_t{1} << 27);
    largest = std::max(largest, parts[VKATTN_BINDING_KEY].first_byte / 4);
  }
  EXPECT_GE(largest, std::int64_t{63} * 16 * 65536 * 128);
  EXPECT_GT(largest, std::int64_t{1} << 32);
}

TEST(Window, ElementsOfAWindowCanBeCountedIn32Bits) {
  // 2.8 x 10^9 bytes, but 5 x 10^9 elements.
  const AttentionDesc desc = desc_of("b96 h8 1x50816 d128 key=q4_0 value=q4_0");
  const auto windows = make_windows(desc, device_of(0xffffffff), 0);
  ASSERT_TRUE(windows.ok()) << windows.error().message;
  ASSERT_EQ(windows->windows.size(), 2U);
  EXPECT_EQ(windows->windows[0].batch, 48);
}

TEST(Window, TheWholeMaskIsAsLongAsItsBytes) {
  for (const char* mask : {"f32:bhqk", "f16:k", "bytes:bq", "bits", "bits:hqk", "bits:bq", "bits:"}) {
    const AttentionDesc desc = desc_of((std::string("b2 h3 5x70 d8 mask=") + mask).c_str());
    const auto parts = tensor_windows(desc, vkattn::detail::whole_window(desc));
    EXPECT_EQ(parts[VKATTN_BINDING_MASK].bytes, vkattn::mask_bytes(desc).value()) << mask;
  }
}

TEST(Window, TheDimStrideOfTheLogSumExpIsIgnored) {
  AttentionDesc desc = desc_of("h2 30x40 d16 lse");
  const auto expected = tensor_windows(desc, vkattn::detail::whole_window(desc))[VKATTN_BINDING_LSE].bytes;
  for (const std::int64_t stride : {std::int64_t{-1}, std::int64_t{0}, std::int64_t{1} << 62}) {
    desc.lse_strides->dim = stride;
    ASSERT_TRUE(vkattn::validate(desc).ok());
    EXPECT_EQ(tensor_windows(desc, vkattn::detail::whole_window(desc))[VKATTN_BINDING_LSE].bytes, expected)
        << stride;
  }
}

TEST(Window, LimitsOfMemoryAreNamedWithBothNumbers) {
  const AttentionDesc desc = desc_of("h2 4x300 d32");
  Capabilities capabilities = device_of(1U << 27U);
  capabilities.max_buffer_size = 50000;
  auto windows = make_windows(desc, capabilities, 0);
  ASSERT_FALSE(windows.ok());
  EXPECT_EQ(windows.error().code, vkattn::ErrorCode::kLimitExceeded);
  EXPECT_NE(windows.error().message.find("76800"), std::string::npos) << windows.error().message;
  EXPECT_NE(windows.error().message.find("maxBufferSize is 50000"), std::string::npos)
      << windows.error().message;
  capabilities = device_of(1U << 27U);
  capabilities.max_memory_allocation_bytes = 50000;
  windows = make_windows(desc, capabilities, 0);
  ASSERT_FALSE(windows.ok());
  EXPECT_NE(windows.error().message.find("maxMemoryAllocationSize"), std::string::npos)
      << windows.error().message;
}

}  // namespace
