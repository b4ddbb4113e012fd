// Opens the device and the tuning file that a command line names.
#pragma once

#include <vkattn/runtime.hpp>

#include <string>

#include "file_names.hpp"

namespace CLI {
class App;
}

namespace vkattn::cli {

/// The options as typed. If one is empty, RuntimeOptions decides.
struct DeviceArguments {
  std::string device, tuning;
};

void add_device_option(CLI::App& app, DeviceArguments& arguments);
void add_tuning_option(CLI::App& app, DeviceArguments& arguments);
/// Adds the file that --tuning names, or else VKATTN_TUNING.
void add_tuning_file(FileNames& files, const DeviceArguments& arguments);

/// Opens a runtime on the device. A tuning file that cannot be used is a warning on standard error.
/// Self-tests execute on the device, so a command that only compiles does without them.
[[nodiscard]] Runtime open_runtime(const DeviceArguments& arguments, bool self_tests = true);

}  // namespace vkattn::cli
