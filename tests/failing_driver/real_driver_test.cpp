// The layer over a real driver: errors in everything that the runtime does from its start to its end, and
// right results afterwards.
#include <vkattn/runtime.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <optional>
#include <set>
#include <string>

#include "failing_driver/layer.hpp"
#include "failing_driver/shader_code.hpp"

#ifndef _WIN32
#include <dlfcn.h>
#endif

namespace vkattn::tests {
namespace {

PFN_vkGetInstanceProcAddr system_loader() {
#ifdef _WIN32
  return nullptr;
#else
  static void* const library = dlopen("libvulkan.so.1", RTLD_NOW | RTLD_LOCAL);
  return library != nullptr
             ? reinterpret_cast<PFN_vkGetInstanceProcAddr>(dlsym(library, "vkGetInstanceProcAddr"))
             : nullptr;
#endif
}

/// A runtime from its start to its first results.
class Life {
 public:
  [[nodiscard]] Result<void> live() {
    if (!runtime_) {
      RuntimeOptions options;
      options.pipeline_cache = false;
      auto made = Runtime::create(options);
      if (!made) return made.error();
      runtime_ = *std::move(made);
    }
    // With one key the output is its value.
    AttentionDesc desc;
    desc.query_length = desc.kv_length = 1;
    desc.head_dim = 8;
    std::array<float, 8> one{}, output{};
    one.fill(1);
    Result<void> done = runtime_->compute(desc, {.query = one, .key = one, .value = one, .output = output});
    if (done) {
      EXPECT_EQ(output, one);
    }
    return done;
  }

 private:
  std::optional<Runtime> runtime_;
};

class RealDriver : public testing::Test {
 protected:
  void SetUp() override {
    keeps_all_functions = true;
    std::string why = "no Vulkan loader";
    if (system_loader() != nullptr) {
      the_layer().use(system_loader());
      const Result<void> works = Life().live();
      if (works.ok()) return;
      why = works.error().message;
    }
    const bool is_required = std::getenv("VKATTN_TEST_REQUIRE_DEVICE") != nullptr;
    if (is_required) FAIL() << why;
    GTEST_SKIP() << why;
  }
  void TearDown() override { keeps_all_functions = false; }

  static void try_fault(const Fault& fault) {
    SCOPED_TRACE(fault.function + ", call " + std::to_string(fault.call) + ": VkResult " +
                 std::to_string(fault.error));
    the_layer().use(system_loader());
    std::optional<Life> life(std::in_place);
    the_layer().arm(fault);
    const Result<void> status = life->live();
    EXPECT_TRUE(the_layer().has_fired());
    if (!status.ok()) {
      EXPECT_EQ(static_cast<int>(status.error().code), static_cast<int>(expected_code(fault)))
          << status.error().message;
    }
    const bool is_lost = the_layer().is_lost();
    the_layer().arm();
    const Result<void> again = life->live();
    EXPECT_EQ(again.ok(), !is_lost) << (again.ok() ? "works" : again.error().message);
    if (is_lost && !again.ok()) {
      EXPECT_EQ(again.error().vk_result, VK_ERROR_DEVICE_LOST);
    }
    life.reset();
    for (const auto& [type, count] : the_layer().live()) ADD_FAILURE() << count << " " << type << " are left";
    for (const std::string& misuse : the_layer().misuses()) ADD_FAILURE() << misuse;
  }
};

TEST_F(RealDriver, EachFunctionFails) {
  the_layer().use(system_loader());
  Life life;
  the_layer().arm();
  ASSERT_TRUE(life.live().ok());
  const auto calls = the_layer().calls();
  std::size_t tried = 0;
  for (const std::string& function : functions_with_results()) {
    if (calls.count(function) == 0) continue;
    const std::vector<VkResult> errors = documented_errors(function);
    for (const VkResult error : errors) {
      const bool is_told_apart = error == errors.front() || error == VK_ERROR_DEVICE_LOST;
      if (!is_told_apart) continue;
      for (const std::uint32_t call : std::set<std::uint32_t>{1, calls.at(function)}) {
        try_fault({function, call, error});
        ++tried;
      }
    }
  }
  EXPECT_GT(tried, 20U);
}

}  // namespace
}  // namespace vkattn::tests
