// Reads --device and --tuning for every command.
#include "open_runtime.hpp"

#include <cstdlib>
#include <memory>
#include <utility>

#include "command.hpp"
#include "error.hpp"

namespace vkattn::cli {

void add_device_option(CLI::App& app, DeviceArguments& arguments) {
  add_value(app, "--device", arguments.device, "N-or-name",
            "Device number or a part of its name (vkattn devices)");
}

void add_tuning_option(CLI::App& app, DeviceArguments& arguments) {
  add_value(app, "--tuning", arguments.tuning, "FILE",
            "Use what vkattn tune measured on this device, default: the file that VKATTN_TUNING names");
}

void add_tuning_file(FileNames& files, const DeviceArguments& arguments) {
  if (!arguments.tuning.empty()) return files.add_input("--tuning", arguments.tuning);
  const char* const variable = std::getenv("VKATTN_TUNING");  // NOLINT(concurrency-mt-unsafe): one thread
  if (variable != nullptr) files.add_input("VKATTN_TUNING", variable);
}

Runtime open_runtime(const DeviceArguments& arguments, bool self_tests) {
  RuntimeOptions options;
  options.device = arguments.device;
  options.tuning_file = arguments.tuning;
  options.self_tests = self_tests;
  Result<Runtime> created = Runtime::create(options);
  if (!created.ok()) fail_device(created.error().message);  // also if no device has the name
  Runtime runtime = std::move(created).value();
  const Shared<const Tuning> tuning = runtime.tuning();
  if (tuning && !tuning->warning.empty()) print_warning("tuning: " + tuning->warning);
  return runtime;
}

}  // namespace vkattn::cli
