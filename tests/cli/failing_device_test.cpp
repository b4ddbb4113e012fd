// The tool on a driver that fails on purpose. Each Vulkan function returns an error once, at its first call
// or at its last. The tool must end with a documented exit code and one sentence on standard error, and every
// file must be whole or as it was before.
#include <dlfcn.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <ostream>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "failing_driver/faults.hpp"
#include "tool_run.hpp"

namespace vkattn::tests {
namespace {

enum class Failures : std::uint8_t {
  kEndIt,
  kAreReported,  ///< each failure is a row of the report, which is written anyway
  kAreLeftOut,   ///< failed candidates are left out
};

/// A command, and the files that it writes.
struct FailingCommand {
  std::string name;
  std::string command;
  std::vector<std::string> outputs = {};
  Failures failures = Failures::kEndIt;
};

void PrintTo(const FailingCommand& command, std::ostream* out) {
  *out << command.command;
}

/// The report of failing_loader.cpp.
struct DriverReport {
  bool is_there = false, has_fired = false;
  std::map<std::string, std::uint32_t> calls;
  std::string faults;  ///< objects that are left, and misuses
};

DriverReport read_report(const std::filesystem::path& path) {
  DriverReport report;
  report.is_there = std::filesystem::exists(path);
  std::istringstream lines(read_file(path));
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words(line);
    std::string word, function;
    std::uint32_t times = 0;
    words >> word;
    if (word == "fired") {
      report.has_fired = true;
    } else if (word == "called" && words >> function >> times) {
      report.calls[function] = times;
    } else {
      report.faults += line + "\n";
    }
  }
  return report;
}

/// The path of the system's loader. Empty if there is none.
std::string system_loader_file() {
  void* const library = dlopen("libvulkan.so.1", RTLD_NOW | RTLD_LOCAL);
  void* const function = library != nullptr ? dlsym(library, "vkGetInstanceProcAddr") : nullptr;
  Dl_info info{};
  return function != nullptr && dladdr(function, &info) != 0 ? info.dli_fname : "";
}

class ToolFailing : public RunOnDevice, public testing::WithParamInterface<FailingCommand> {
 protected:
  void SetUp() override {
    RunOnDevice::SetUp();
    if (IsSkipped()) return;
    write_inputs({1, 2, 9, 16}, {1, 2, 13, 16}, {1, 2, 13, 16});
    write_noise("grad", {1, 2, 9, 16});
  }

  /// Gives each output old contents before the command. Only a tuning file is removed, because the command
  /// would refuse old contents that are no tuning file.
  void set_outputs() const {
    for (const std::string& name : GetParam().outputs) {
      if (GetParam().failures == Failures::kAreLeftOut) {
        std::filesystem::remove(folder_ / name);
      } else {
        write_file(folder_ / name, kOld);
      }
    }
  }
  [[nodiscard]] bool are_outputs_old() const {
    const bool were_there = GetParam().failures != Failures::kAreLeftOut;
    return std::ranges::all_of(GetParam().outputs, [&](const std::string& name) {
      const std::filesystem::path path = folder_ / name;
      return were_there ? read_file(path) == kOld : !std::filesystem::exists(path);
    });
  }

  struct FailingRun {
    ToolResult tool;
    DriverReport driver;
  };
  /// Runs the command with a fault and a limit of time.
  [[nodiscard]] FailingRun run_failing(const Fault& fault) const {
    const TempFolder reports;
    const std::filesystem::path report = reports / "driver";
    set_outputs();
    std::string before = "LD_LIBRARY_PATH='" VKATTN_FAILING_LOADER_FOLDER "' VKATTN_TEST_LOADER='" +
                         system_loader_file() + "' VKATTN_TEST_REPORT='" + report.string() +
                         "' VKATTN_CACHE_DIR='" + caches_.path().string() + "'";
    if (!fault.function.empty()) {
      before += " VKATTN_TEST_FAULT='" + fault.function + " " + std::to_string(fault.call) + " " +
                std::to_string(fault.error) + "'";
    }
    FailingRun all{run(GetParam().command, before + " timeout 60"), {}};
    all.driver = read_report(report);
    return all;
  }

  /// Only the inputs and the outputs are left, and no temporary file.
  void expect_clean_folders() const {
    std::set<std::string> expected{"query.npy", "key.npy", "value.npy", "grad.npy"};
    expected.insert(GetParam().outputs.begin(), GetParam().outputs.end());
    for (const auto& entry : std::filesystem::directory_iterator(folder_.path())) {
      EXPECT_EQ(expected.count(entry.path().filename().string()), 1U) << entry.path() << " is left";
    }
    for (const auto& entry : std::filesystem::recursive_directory_iterator(caches_.path())) {
      EXPECT_NE(entry.path().extension(), ".tmp") << entry.path() << " is left";
    }
  }

  [[nodiscard]] static bool may_be_got_over(const Fault& fault) {
    // When a runtime ends, it cannot return an error.
    if (fault.error == VK_ERROR_DEVICE_LOST) return fault.function == "vkDeviceWaitIdle";
    return kGotOver.count(fault.function) == 1 || GetParam().failures == Failures::kAreLeftOut;
  }

  void try_fault(const Fault& fault) const {
    SCOPED_TRACE(fault.function + ", call " + std::to_string(fault.call) + ": VkResult " +
                 std::to_string(fault.error));
    const auto [tool, driver] = run_failing(fault);
    EXPECT_TRUE(driver.is_there && driver.has_fired);
    EXPECT_EQ(driver.faults, "");
    expect_clean_folders();
    const bool are_old = are_outputs_old();
    if (tool.exit_code == 0) {
      EXPECT_TRUE(may_be_got_over(fault)) << "no error came of it\n" << tool.out;
      EXPECT_EQ(tool.err, "");
      EXPECT_TRUE(GetParam().outputs.empty() || !are_old);
      return;
    }
    EXPECT_EQ(tool.exit_code, 3) << tool.out;
    EXPECT_TRUE(tool.err.starts_with("vkattn: ")) << tool.err;
    EXPECT_EQ(std::count(tool.err.begin(), tool.err.end(), '\n'), 1) << tool.err;
    EXPECT_TRUE(are_old || GetParam().failures == Failures::kAreReported) << "an output of what failed";
  }

  /// Errors of these functions may cost time only: pools, caches, and kernels that another kernel replaces.
  inline static const std::set<std::string> kGotOver{"vkAllocateDescriptorSets", "vkCreateComputePipelines",
                                                     "vkCreateShaderModule", "vkGetPipelineCacheData"};
  static constexpr const char* kOld = "as it was";
  TempFolder caches_;
};

TEST_P(ToolFailing, EndsInASentence) {
  const auto [tool, driver] = run_failing({});
  ASSERT_EQ(tool.exit_code, 0) << tool.err;
  ASSERT_TRUE(driver.is_there) << "the tool found another loader";
  EXPECT_EQ(driver.faults, "");
  EXPECT_TRUE(GetParam().outputs.empty() || !are_outputs_old());
  expect_clean_folders();
  std::size_t tried = 0;
  for (const auto& [function, calls] : driver.calls) {
    const std::vector<VkResult> errors = documented_errors(function);
    if (errors.empty()) continue;
    const bool may_lose = std::ranges::find(errors, VK_ERROR_DEVICE_LOST) != errors.end();
    const bool has_last = GetParam().failures != Failures::kAreLeftOut;
    for (const std::uint32_t call : std::set<std::uint32_t>{1, has_last ? calls : 1}) {
      try_fault({function, call, may_lose ? VK_ERROR_DEVICE_LOST : errors.front()});
      ++tried;
    }
  }
  EXPECT_GT(tried, 10U);
}

const std::vector<FailingCommand> kFailingCommands{
    {"Devices", "devices"},
    {"Kernels", "kernels 'h2 50x70 d16'"},
    {"Run",
     "run --query query.npy --key key.npy --value value.npy --output out.npy --lse lse.npy",
     {"out.npy", "lse.npy"}},
    {"Gradients",
     "run --query query.npy --key key.npy --value value.npy --grad-output grad.npy --output out.npy "
     "--grad-key dk.npy",
     {"out.npy", "dk.npy"}},
    {"Inspect", "inspect --query query.npy --key key.npy --plot map.svg", {"map.svg"}},
    {"Bench",
     "bench 'h1 8x8 d8' --no-peaks --repeat 3 --output report.txt",
     {"report.txt"},
     Failures::kAreReported},
    {"BenchMatmul",
     "bench 'matmul 8x8x8' --no-peaks --repeat 3 --json --output report.json",
     {"report.json"},
     Failures::kAreReported},
    {"Tune", "tune '8x8 d8' --max-seconds 0.1 --output tuning.json", {"tuning.json"}, Failures::kAreLeftOut}};

INSTANTIATE_TEST_SUITE_P(, ToolFailing, testing::ValuesIn(kFailingCommands),
                         [](const auto& one) { return one.param.name; });

}  // namespace
}  // namespace vkattn::tests
