// Cuts problems into windows that fit a device: everything is covered once, nothing is too large, and offsets
// beyond 32 bits are right.
#include "forward/windows.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "made_up_device.hpp"
#include "support/must.hpp"

namespace vkattn::tests {
namespace {

using detail::make_windows;
using detail::tensor_windows;
using detail::TensorWindows;
using detail::Window;

Capabilities device_of(std::uint64_t range) {
  Capabilities capabilities;
  capabilities.max_storage_buffer_range = range;
  return capabilities;
}

void expect_fits(const AttentionDesc& desc, const Window& window, std::uint64_t range) {
  for (const auto& part : tensor_windows(desc, window))
    EXPECT_LE(static_cast<std::uint64_t>(part.bytes), range);
}

/// The windows of a problem on a device. Checks that they hold each row once and fit.
std::vector<Window> windows_of(const char* problem, std::uint64_t range, std::uint32_t key_step = 0,
                               std::int64_t workspace_row_bytes = 0) {
  const AttentionDesc desc = desc_of(problem);
  const auto made = make_windows(desc, device_of(range), key_step, [&](const Window& window) {
    return detail::workspace_rows(desc, window) * workspace_row_bytes;
  });
  if (!made.ok()) {
    EXPECT_TRUE(has(made.error().message, "maxStorageBufferRange"));
    EXPECT_TRUE(has(made.error().message, std::to_string(range)));
    return {};
  }
  std::set<std::tuple<std::int64_t, std::int64_t, std::int64_t>> seen;
  for (const Window& w : made->windows) {
    for (std::int64_t b = w.first_batch; b < w.first_batch + w.batch; ++b) {
      for (std::int64_t h = w.first_head; h < w.first_head + w.heads; ++h) {
        for (std::int64_t r = w.first_row; r < w.first_row + w.rows; ++r) {
          EXPECT_TRUE(seen.emplace(b, h, r).second) << "twice";
        }
      }
    }
    expect_fits(desc, w, range);
    EXPECT_LE(w.batch * w.heads * w.rows * workspace_row_bytes, static_cast<std::int64_t>(range));
  }
  EXPECT_EQ(seen.size(), static_cast<std::size_t>(desc.batch * desc.query_heads * desc.query_length));
  return made->windows;
}

TEST(Window, EveryRowOnceWhateverTheRange) {
  EXPECT_EQ(windows_of("b2 hq6 hkv2 33x65 d32 lse kv_lengths=1,2", 1U << 27U).size(), 1U);
  for (const char* problem : {"b3 hq4 hkv2 33x65 d32 lse", "b3 hq12 hkv2 33x65 d32 f16 layout=bshd lse",
                              "b2 hq6 hkv1 65x65 d32 layout=packed", "hq7 hkv1 203x65 d16",
                              "b5 h3 17x65 d32 kv_lengths=1,2,3,4,5 pad=3"}) {
    for (const std::uint64_t range : {200000U, 60000U, 31000U, 30000U}) (void)windows_of(problem, range);
  }
  EXPECT_GT(windows_of("hq7 hkv1 203x65 d16", 30000).size(), 3U);
  EXPECT_GT(windows_of("b2 h4 1000x10 d4", 100000, 32, 400).size(), 20U) << "of the workspace";
}

TEST(Window, KeysOfOneHeadAreCutWhereTheKernelCan) {
  for (const char* problem :
       {"b2 hq4 hkv2 9x1000 d32", "hq4 hkv2 9x1000 d32 f16 layout=bshd", "9x1000 d33 dv7 pad=3"}) {
    const AttentionDesc desc = desc_of(problem);
    for (const std::uint64_t range : {60000U, 20000U, 9000U}) {
      EXPECT_FALSE(range < 30000 && make_windows(desc, device_of(range), 0).ok()) << "this kernel cannot";
      const auto windows = must(make_windows(desc, device_of(range), 32));
      const std::int64_t most = windows.max_keys;
      EXPECT_TRUE(most == 1000 || (most > 0 && most % 32 == 0)) << most;
      for (Window w : windows.windows) {
        w.first_key = most == 1000 ? 0 : 1000 / most * most;
        w.keys = std::min<std::int64_t>(most, 1000 - w.first_key);
        expect_fits(desc, w, range);
        w.first_key = 0;
        w.keys = most;
        expect_fits(desc, w, range);
      }
    }
  }
}

TEST(Window, PartsOfTensorsBeginWhereTheWindowDoes) {
  const AttentionDesc desc = desc_of("b3 hq4 hkv2 33x65 d32 dv16 lse kv_lengths=1,2,3");
  const TensorWindows parts = tensor_windows(desc, {1, 1, 2, 2, 5, 7, 0, 65});
  const auto expect_part = [](const detail::TensorWindow& part, std::int64_t first_byte, std::int64_t bytes) {
    EXPECT_EQ(part.first_byte, 4 * first_byte);
    EXPECT_EQ(part.bytes, 4 * bytes);
  };
  expect_part(parts[VKATTN_BINDING_QUERY], ((1 * 4 + 2) * 33 + 5) * 32, 33 * 32 + 7 * 32);
  expect_part(parts[VKATTN_BINDING_KEY], (1 * 2 + 1) * 65 * 32, 65 * 32);
  expect_part(parts[VKATTN_BINDING_VALUE], (1 * 2 + 1) * 65 * 16, 65 * 16);
  expect_part(parts[VKATTN_BINDING_OUTPUT], ((1 * 4 + 2) * 33 + 5) * 16, 33 * 16 + 7 * 16);
  expect_part(parts[VKATTN_BINDING_LSE], (1 * 4 + 2) * 33 + 5, 33 + 7);
  expect_part(parts[VKATTN_BINDING_KV_LENGTHS], 1, 1);
  // Fewer batch entries have fewer keys but as many packed rows, because all rows are bound.
  const AttentionDesc packed =
      desc_of("b3 h2 33x65 d32 sequences=queries query_lengths=33,0,20 kv_lengths=1,2,3 ring=40 lse");
  const TensorWindows of_packed = tensor_windows(packed, {1, 2, 1, 1, 0, 33, 0, 65});
  expect_part(of_packed[VKATTN_BINDING_QUERY], 53 * 32, 53 * 32);
  expect_part(of_packed[VKATTN_BINDING_LSE], 53, 53);
  expect_part(of_packed[VKATTN_BINDING_KEY], (1 * 2 + 1) * 40 * 32, (2 + 1) * 40 * 32);
  expect_part(of_packed[VKATTN_BINDING_QUERY_LENGTHS], 1, 3);
  expect_part(of_packed[VKATTN_BINDING_KV_LENGTHS], 1, 2);
}

TEST(Window, PackedQueriesAreCutWithTheirKeys) {
  const auto count = [](const char* problem) {
    const auto windows = make_windows(desc_of(problem), device_of(32000), 0);
    EXPECT_TRUE(windows.ok()) << windows.error().message;
    return windows.ok() ? windows->windows.size() : 0;
  };
  EXPECT_EQ(count("b4 h2 33x100 d32 sequences=queries query_lengths=9,9,9,9"), 4U) << "K of each entry";
  EXPECT_EQ(count("b4 h2 99x20 d32 sequences=queries query_lengths=50,50,50,50"), 2U) << "Q of each head";
}

TEST(Window, BeyondWhat32BitsCount) {
  // 64 batch entries of 16 heads x 65536 rows x 128 dims: 8 Gi elements, 32 GiB in float32.
  const AttentionDesc desc = desc_of("b64 h16 65536x65536 d128");
  const auto windows = must(make_windows(desc, device_of(1U << 27U), 0));
  for (const Window& w : windows.windows) expect_fits(desc, w, 1U << 27U);
  const auto last = tensor_windows(desc, windows.windows.back())[VKATTN_BINDING_KEY].first_byte / 4;
  EXPECT_GE(last, std::int64_t{63} * 16 * 65536 * 128);
  // A single window with 2.8 x 10^9 bytes, but 5 x 10^9 elements.
  const auto blocks =
      must(make_windows(desc_of("b96 h8 1x50816 d128 key=q4_0 value=q4_0"), device_of(0xffffffff), 0));
  ASSERT_EQ(blocks.windows.size(), 2U);
  EXPECT_EQ(blocks.windows[0].batch, 48);
}

TEST(Window, TheWholeMaskIsAsLongAsItsBytes) {
  for (const char* mask : {"f32:bhqk", "f16:k", "bytes:bq", "bits", "bits:hqk", "bits:bq", "bits:"}) {
    const AttentionDesc desc = desc_of(std::string("b2 h3 5x70 d8 mask=") + mask);
    const auto parts = tensor_windows(desc, detail::whole_window(desc));
    EXPECT_EQ(parts[VKATTN_BINDING_MASK].bytes, mask_bytes(desc).value()) << mask;
  }
}

TEST(Window, TheDimStrideOfTheLogSumExpIsIgnored) {
  AttentionDesc desc = desc_of("h2 30x40 d16 lse");
  const auto expected = tensor_windows(desc, detail::whole_window(desc))[VKATTN_BINDING_LSE].bytes;
  for (const std::int64_t stride : {std::int64_t{-1}, std::int64_t{0}, std::int64_t{1} << 62}) {
    desc.lse_strides->dim = stride;
    ASSERT_TRUE(validate(desc).ok());
    EXPECT_EQ(tensor_windows(desc, detail::whole_window(desc))[VKATTN_BINDING_LSE].bytes, expected) << stride;
  }
}

}  // namespace
}  // namespace vkattn::tests
