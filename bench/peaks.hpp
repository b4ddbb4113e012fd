// What a device can do at the most, measured on it: the roof over every rate of a report.
#pragma once

#include <vkattn/runtime.hpp>

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace vkattn::bench {

/// The best of the variants of one kernel.
struct Peak {
  double rate = 0;      ///< per second: floating-point operations or bytes; 0 where it was not measured
  std::string variant;  ///< which one won
};

/// Matrix units with one pair of types.
struct MatrixPeak {
  std::string operand;      ///< f16, bf16 or s8
  std::string accumulator;  ///< f32, f16 or s32
  Peak peak;
  std::string missing;  ///< why there is no figure
};

/// Memory rate with a working set of that size, which may fit a cache.
struct MemoryPoint {
  std::uint64_t working_set_bytes = 0;
  double copy_rate = 0;  ///< bytes per second, read and written ones together
  double read_rate = 0;
};

struct Peaks {
  Peak multiply_add;  ///< float32, two operations for each multiply-add
  std::vector<MatrixPeak> matrix;
  Peak copy;                        ///< beyond every cache
  Peak read;                        ///< beyond every cache
  std::vector<MemoryPoint> memory;  ///< ascending sizes; the last is the one of `copy` and `read`

  [[nodiscard]] bool measured() const { return multiply_add.rate > 0; }
  /// Takes over what another measurement of the same device found to be faster.
  void raise(const Peaks& other);
  /// The best rate of any measured working set that is at least as large as the largest one not above
  /// `bytes`: data that a cache could hold is held against what the cache can do.
  [[nodiscard]] double memory_rate(double bytes) const;
  /// The roof for a kernel's arithmetic: matrix units for kernels that use them, else multiply-add.
  [[nodiscard]] double compute_rate(std::string_view kernel, std::string_view type) const;
};

/// Called before each step with the share of the work done.
using PeakProgress = std::function<void(double share, std::string_view what)>;

/// Each figure is the best of its variants, each run for at least 20 ms.
[[nodiscard]] Result<Peaks> measure_peaks(const Runtime& runtime, const PeakProgress& progress = {});

/// For the files that measure: runs what `record` records with its amount of work, raised until a run takes
/// 20 ms; seconds for a unit of work at best.
[[nodiscard]] Result<double> time_unit_of_work(
    const Runtime& runtime, std::uint64_t first_amount, std::uint64_t largest_amount,
    const std::function<void(VkCommandBuffer commands, std::uint64_t amount)>& record);

[[nodiscard]] Result<std::vector<MatrixPeak>> measure_matrix_peaks(const Runtime& runtime);

}  // namespace vkattn::bench
