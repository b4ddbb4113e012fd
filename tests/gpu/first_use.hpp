// Tests of the self-tests and times that a runtime keeps, in a folder of the test's own.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "gpu/support.hpp"
#include "support/temp_folder.hpp"
#include "support/text.hpp"

namespace vkattn::tests {

class FirstUseTest : public GpuTest {
 protected:
  /// A new runtime, as another program would make it later.
  [[nodiscard]] Runtime fresh_runtime(const std::filesystem::path& tuning = {},
                                      bool self_tests = true) const {
    RuntimeOptions options{.device = capabilities().device_name,
                           .cache_dir = folder_.path(),
                           .tuning_file = tuning,
                           .self_tests = self_tests};
    return Runtime::create(options).value();
  }
  /// The file of outcomes in the folder. Empty if there is none.
  [[nodiscard]] std::filesystem::path outcomes() const {
    for (const auto& entry : std::filesystem::directory_iterator(folder_.path())) {
      if (entry.path().filename().string().starts_with("self-tests-")) return entry.path();
    }
    return {};
  }
  /// Makes the next runtime believe that every test failed.
  void fail_all() const {
    std::string text = read_file(outcomes());
    for (std::size_t at = text.find("passed "); at != text.npos; at = text.find("passed ", at)) {
      text.replace(at, 6, "failed").insert(text.find('\n', at), "\tdim 3 is 7 where 8 was expected");
    }
    write_file(outcomes(), text);
  }
  /// Checks that plans of a kernel are tested once: if the kernel is named, and if `others`, which some
  /// devices prefer, are refused. A kernel that failed is not used, but tile is, which is one of the others.
  template <class Options, class Make>
  void expect_tested(const char* kernel, const std::vector<const char*>& others, const Make& make) const {
    Options by_name, by_refusals, but_tile;
    by_name.kernel = kernel;
    for (const char* const other : others) {
      by_refusals.refusals.push_back({other, "slow"});
      if (other != std::string_view("tile")) but_tile.refusals.push_back({other, "slow"});
    }
    {
      const Runtime first = fresh_runtime();
      const auto plan = make(first, by_refusals);
      ASSERT_TRUE(plan.ok()) << plan.error().message;
      EXPECT_EQ(plan->kernel_name(), kernel);
      EXPECT_TRUE(has(read_file(outcomes()), "passed " + plan->configuration() + "\n"));
    }
    const auto time = std::filesystem::last_write_time(outcomes());
    EXPECT_TRUE(make(fresh_runtime(), by_name).ok());
    EXPECT_EQ(std::filesystem::last_write_time(outcomes()), time) << "nothing is tested again";
    fail_all();
    const Runtime later = fresh_runtime();
    for (const Options& options : {by_name, by_refusals}) {
      const auto refused = make(later, options);
      ASSERT_FALSE(refused.ok());
      EXPECT_TRUE(names(refused.error(), ErrorCode::kUnsupported,
                        {kernel, "self-test", "dim 3 is 7 where 8 was expected"}));
    }
    const auto other = make(later, but_tile);
    ASSERT_TRUE(other.ok()) << other.error().message;
    EXPECT_EQ(other->kernel_name(), "tile");
  }

  TempFolder folder_;
};

}  // namespace vkattn::tests
