// The file that `vkattn tune` writes: measurements by device and driver version. JSON:
//   {"format": "vkattn tuning", "version": 1, "devices": [
//     {"name": ..., "vendor_id": ..., "device_id": ..., "driver_version": ..., "driver": ..., "problems": [
//       {"problem": ..., "attention": {"batch": 1, "query_heads": 8, ...}, "arithmetic_type": "f32",
//        "features": {"softcap": 0}, "kernel": "tile", "tile": {"threads": 256, ...}, "kv_splits": 0,
//        "median_ns": ..., "default_kernel": ..., "default_median_ns": ...},
//       {"problem": ..., "backward": {as attention}, "features": {}, "kernel": "lane", "chunk_keys": 0,
//        "tile": {of gradients that have block sizes}, ...},
//       {"problem": ..., "matmul": {"rows": 512, ...}, "kernel": "lane", "tile": {"rows": 8, ...},
//        "inner_splits": 0, ...}]}]}
// "problem" is a label for reports. Tuning::nearest() and the others look at "attention", "backward" or
// "matmul". A problem without "arithmetic_type" is of float32.
#pragma once

#include <vkattn/runtime.hpp>

#include <filesystem>
#include <functional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace vkattn::detail {

/// The measurements of a file for a device. Never fails: a fault of the file becomes Tuning::warning.
[[nodiscard]] Tuning parse_tuning(std::string_view text, const std::string& source,
                                  const Capabilities& device);

/// One line of the file.
struct TuningResult {
  std::variant<TunedProblem, TunedBackward, TunedMatmul> tuned;
  double median_ns = 0;
  std::string default_kernel;  ///< what would have run without the file
  double default_median_ns = 0;
};

/// The text of a file with these results. Results of `old_text` for other devices, and for other problems on
/// the same device and driver, stay; a text that is no tuning file is refused.
[[nodiscard]] Result<std::string> merge_tuning(std::string_view old_text, const Capabilities& device,
                                               const std::vector<TuningResult>& results);

/// The text of a file, empty where there is none. Errors begin with the path.
[[nodiscard]] Result<std::string> read_tuning(const std::filesystem::path& path);

/// Merges results into what the file holds by now and has `write` write that. Others who call this for the
/// same file wait meanwhile, so that nobody's results are lost. `path` is no link. Errors: the file is none
/// of ours or cannot be read, another program holds it for FileLock::kPatience, and those of `write`.
[[nodiscard]] Result<void> update_tuning(const std::filesystem::path& path, const Capabilities& device,
                                         const std::vector<TuningResult>& results,
                                         const std::function<Result<void>(std::string_view text)>& write);

}  // namespace vkattn::detail
