// The device and the measurements that a command line names.
#pragma once

#include <vkattn/runtime.hpp>

#include <string>

#include "file_names.hpp"

namespace CLI {
class App;
}

namespace vkattn::cli {

/// The options as typed; empty: what RuntimeOptions says of it.
struct DeviceArguments {
  std::string device, tuning;
};

void add_device_option(CLI::App& app, DeviceArguments& arguments);
void add_tuning_option(CLI::App& app, DeviceArguments& arguments);
/// The file that --tuning, or else VKATTN_TUNING names.
void add_tuning_file(FileNames& files, const DeviceArguments& arguments);

/// A runtime on that device. A tuning file that cannot be used is a warning on standard error. Self-tests
/// execute; a command that only compiles goes without.
[[nodiscard]] Runtime open_runtime(const DeviceArguments& arguments, bool self_tests = true);

}  // namespace vkattn::cli
