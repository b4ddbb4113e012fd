// Large buffers of a driver for CPUs, which lie in the program's memory: what a driver may say to that, the
// registry's errors and others, and no room in the address space. Whether every error of the registry is got
// over is in failing_driver_test.cpp (RuntimeLargeBuffers).
#include <vkattn/runtime.hpp>

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <fstream>
#include <memory>
#include <span>
#include <string>

#include "failing_driver/layer.hpp"
#include "failing_driver/scenario.hpp"
#include "runtime/large_pages.hpp"
#include "runtime/runtime_state.hpp"
#include "support/temp_folder.hpp"

#ifdef __linux__
#include <sys/resource.h>
#include <unistd.h>
#endif

namespace vkattn::tests {
namespace {

constexpr VkDeviceSize kLeast = 262144;
constexpr const char* kCalls[] = {"vkGetMemoryHostPointerPropertiesEXT", "vkCreateBuffer", "vkAllocateMemory",
                                  "vkBindBufferMemory"};

class LargePagesOfDriver : public testing::Test {
 protected:
  void SetUp() override {
    if (!detail::LargePages::can_be_asked_for()) GTEST_SKIP() << "only Linux can be asked for large pages";
    use_host_cpu();
    the_layer().use(host_get_instance_proc_addr);
    start(32);
  }
  void TearDown() override {
    runtime_.reset();
    for (const auto& [type, count] : the_layer().live()) ADD_FAILURE() << count << " " << type << " are left";
    for (const std::string& misuse : the_layer().misuses()) ADD_FAILURE() << misuse;
  }

  void start(std::size_t kept_buffers) {
    RuntimeOptions options = small_runtime(folder_.path());
    options.kept_buffers = kept_buffers;
    runtime_.reset();
    auto made = Runtime::create(options);
    ASSERT_TRUE(made.ok()) << made.error().message;
    runtime_ = std::make_unique<Runtime>(*std::move(made));
    ASSERT_TRUE(state().has_large_pages);
  }
  [[nodiscard]] detail::RuntimeState& state() const { return detail::RuntimeState::of(*runtime_); }

  /// Makes a buffer while that call fails, and uses it. Gives how often an import was begun.
  std::uint32_t imports(VkDeviceSize bytes, const Fault& fault = {}) {
    the_layer().arm(fault);
    const auto buffer = runtime_->create_buffer(bytes);
    EXPECT_TRUE(buffer.ok()) << buffer.error().message;
    EXPECT_EQ(the_layer().has_fired(), !fault.function.empty());
    if (!buffer) return 0;
    const std::span<std::byte> memory = runtime_->mapped(*buffer);
    EXPECT_EQ(memory.size(), bytes);
    if (!memory.empty()) memory.front() = memory.back() = std::byte{1};
    const auto calls = the_layer().calls();
    const auto found = calls.find(kCalls[0]);
    return found != calls.end() ? found->second : 0;
  }

  TempFolder folder_;
  std::unique_ptr<Runtime> runtime_;
};

TEST_F(LargePagesOfDriver, AreForLargeBuffersOfAnySize) {
  EXPECT_EQ(imports(kLeast - 1), 0U);
  EXPECT_EQ(imports(kLeast), 1U);
  EXPECT_EQ(imports(kLeast + 1), 1U) << "the last page is taken whole";
  EXPECT_EQ(imports(kLeast + 1), 0U) << "the buffer that was given up serves again";
  EXPECT_TRUE(state().has_large_pages);
  the_layer().arm();
  const auto staging = detail::create_buffer(state(), 2 * kLeast, true);
  ASSERT_TRUE(staging.ok()) << staging.error().message;
  EXPECT_EQ(the_layer().calls().count(kCalls[0]), 0U) << "staging lies in the driver's memory";
}

/// A buffer may be as large as the driver allows, and then there is no room for the rest of its last page.
TEST_F(LargePagesOfDriver, KeepLimitsOfWholePages) {
  host_settings().most_memory = 4 * kLeast + 1;
  start(0);
  EXPECT_EQ(imports(4 * kLeast + 1), 0U);
  EXPECT_EQ(imports(4 * kLeast), 1U);
  EXPECT_TRUE(state().has_large_pages);
}

TEST_F(LargePagesOfDriver, AreNotAskedForAgainIfRefused) {
  for (const char* const call : kCalls) {
    SCOPED_TRACE(call);
    start(0);
    EXPECT_EQ(imports(kLeast, {call, 1, VK_ERROR_INVALID_EXTERNAL_HANDLE}), 1U);
    EXPECT_FALSE(state().has_large_pages);
    EXPECT_EQ(imports(kLeast), 0U);
  }
}

/// Spare buffers are freed first, and then an import is tried once more.
TEST_F(LargePagesOfDriver, MayLackMemoryOnce) {
  for (const char* const call : kCalls) {
    for (const bool has_spare : {false, true}) {
      SCOPED_TRACE(std::string(call) + (has_spare ? " with a spare buffer" : ""));
      start(32);
      if (has_spare) {
        EXPECT_EQ(imports(kLeast), 1U);
      }
      EXPECT_EQ(imports(2 * kLeast, {call, 1, VK_ERROR_OUT_OF_HOST_MEMORY}), has_spare ? 2U : 1U);
      EXPECT_EQ(the_layer().calls().count("vkMapMemory"), has_spare ? 0U : 1U) << "the driver's memory";
      EXPECT_TRUE(state().has_large_pages);
      EXPECT_EQ(imports(3 * kLeast), 1U);
    }
  }
}

TEST_F(LargePagesOfDriver, TellOfALostDevice) {
  for (const char* const call : kCalls) {
    SCOPED_TRACE(call);
    start(0);
    the_layer().arm({call, 1, VK_ERROR_DEVICE_LOST});
    for (int i = 0; i < 2; ++i) {
      const auto buffer = runtime_->create_buffer(kLeast);
      ASSERT_FALSE(buffer.ok());
      EXPECT_EQ(static_cast<int>(buffer.error().code), static_cast<int>(ErrorCode::kDeviceLost));
      EXPECT_EQ(buffer.error().vk_result, VK_ERROR_DEVICE_LOST);
      EXPECT_EQ(the_layer().calls().empty(), i == 1) << "a lost device is called";
      the_layer().arm();
    }
  }
}

#ifdef __linux__

/// The bytes of addresses that the program has taken.
rlim_t taken_bytes() {
  rlim_t pages = 0;
  std::ifstream("/proc/self/statm") >> pages;
  return pages * static_cast<rlim_t>(sysconf(_SC_PAGESIZE));
}

TEST_F(LargePagesOfDriver, AreGivenBack) {
  start(0);
  constexpr VkDeviceSize kBytes = VkDeviceSize{16} << 20U;
  const rlim_t before = taken_bytes();
  for (int i = 0; i < 64; ++i) EXPECT_EQ(imports(kBytes), 1U);
  EXPECT_LT(taken_bytes(), before + 32 * kBytes);
}

TEST_F(LargePagesOfDriver, MayFindNoRoom) {
#ifdef VKATTN_SANITIZED
  GTEST_SKIP() << "a sanitizer ends the program where malloc finds no room";
#else
  constexpr VkDeviceSize kBytes = VkDeviceSize{512} << 20U;
  rlimit whole{};
  ASSERT_EQ(getrlimit(RLIMIT_AS, &whole), 0);
  const rlimit less{taken_bytes() + kBytes / 4, whole.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_AS, &less), 0);
  the_layer().arm();
  const auto buffer = runtime_->create_buffer(kBytes);  // here the driver's memory is the program's too
  ASSERT_EQ(setrlimit(RLIMIT_AS, &whole), 0);
  ASSERT_FALSE(buffer.ok());
  EXPECT_EQ(static_cast<int>(buffer.error().code), static_cast<int>(ErrorCode::kOutOfMemory));
  EXPECT_EQ(the_layer().calls().count(kCalls[0]), 0U);
  EXPECT_EQ(the_layer().calls().count("vkAllocateMemory"), 1U) << "the driver was not asked";
  EXPECT_EQ(the_layer().live().count("VkBuffer"), 0U);
  EXPECT_EQ(imports(kBytes), 1U) << "there is room again";
#endif
}

#endif

}  // namespace
}  // namespace vkattn::tests
