// Measures the highest rates that a device reaches. They are the roof over every rate in a report.
#pragma once

#include <vkattn/runtime.hpp>

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace vkattn::bench {

/// The best variant of one kernel.
struct Peak {
  double rate = 0;      ///< floating-point operations or bytes per second; 0 if it was not measured
  std::string variant;  ///< the variant that was fastest
};

/// The peak of matrix units for one pair of types.
struct MatrixPeak {
  std::string operand;      ///< f16, bf16 or s8
  std::string accumulator;  ///< f32, f16 or s32
  Peak peak;
  std::string missing;  ///< why there is no rate
};

/// The memory rates with a working set of this size, which may fit a cache.
struct MemoryPoint {
  std::uint64_t working_set_bytes = 0;
  double copy_rate = 0;  ///< bytes per second, with read and written bytes added
  double read_rate = 0;
};

struct Peaks {
  Peak multiply_add;  ///< float32, two operations for each multiply-add
  std::vector<MatrixPeak> matrix;
  Peak copy;                        ///< with data larger than every cache
  Peak read;                        ///< with data larger than every cache
  std::vector<MemoryPoint> memory;  ///< ascending sizes; the last size is that of `copy` and `read`

  [[nodiscard]] bool measured() const { return multiply_add.rate > 0; }
  /// Takes each rate that another measurement of the same device found to be higher.
  void raise(const Peaks& other);
  /// The memory roof for data of this size: the best rate of the working sets that are no smaller than the
  /// largest working set not above `bytes`. So data that fits a cache is compared with the rate of that
  /// cache.
  [[nodiscard]] double memory_rate(double bytes) const;
  /// The roof over a kernel's arithmetic: matrix units if the kernel uses them, otherwise multiply-add.
  [[nodiscard]] double compute_rate(std::string_view kernel, std::string_view type) const;
};

/// Called before each step with the share of the work that is done.
using PeakProgress = std::function<void(double share, std::string_view what)>;

/// Each rate is the best of its variants. Each variant runs for at least 20 ms.
[[nodiscard]] Result<Peaks> measure_peaks(const Runtime& runtime, const PeakProgress& progress = {});

/// For the files that measure peaks. Runs what `record` records with an amount of work, and raises the amount
/// until a run takes 20 ms. Returns the shortest time in seconds for one unit of work.
[[nodiscard]] Result<double> time_unit_of_work(
    const Runtime& runtime, std::uint64_t first_amount, std::uint64_t largest_amount,
    const std::function<void(VkCommandBuffer commands, std::uint64_t amount)>& record);

[[nodiscard]] Result<std::vector<MatrixPeak>> measure_matrix_peaks(const Runtime& runtime);

}  // namespace vkattn::bench
