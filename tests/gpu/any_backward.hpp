// A test of gradients once for each of their four kernels.
#pragma once

#include <vkattn/backward.hpp>

#include <cstdint>
#include <string>
#include <string_view>

#include "gpu/support.hpp"
#include "harness/backward_run.hpp"

namespace vkattn::tests {

inline constexpr const char* kBackwardKernels[] = {"lane", "tile", "matrix", "matrix2"};

/// Compares what a plan has left; the program's last line counts it.
void expect_right_gradients(const harness::BackwardRun& run, const std::string& plan);

/// Skipped where the device has no matrices for the kernel.
class AnyBackwardTest : public GpuTest, public testing::WithParamInterface<const char*> {
 protected:
  [[nodiscard]] std::string reason_to_skip() const override;

  [[nodiscard]] static bool on_matrices() { return std::string_view(GetParam()).starts_with("matrix"); }

  /// All that the problem has and the kernel gives.
  [[nodiscard]] static BackwardDesc with_gradients(const AttentionDesc& attention);

  /// Why the kernel cannot run the problem; empty where it can.
  [[nodiscard]] static std::string reason_against(const BackwardDesc& desc) {
    return tests::reason_against(capabilities(), GetParam(), desc);
  }

  /// Matrices are of 16-bit elements: there a problem of float32 tensors is one of float16.
  [[nodiscard]] static Problem parsed(std::string_view text);

  [[nodiscard]] static PlanOptions options(std::uint32_t chunk_keys = 0);

  /// Runs the problem with all gradients that it has, on the device as it is or seen otherwise, and compares.
  static void expect_gradients(const Problem& problem, const BackwardDesc& desc, const PlanOptions& how,
                               const Device& device = runtime().device());
  static void expect_gradients(std::string_view text, std::uint32_t chunk_keys = 0);

  /// On devices with little shared memory matrix takes no wide heads. Nor does matrix2, and by tensor
  /// addressing no rows that start anywhere.
  [[nodiscard]] static bool is_beyond_matrices(const std::string& reason);
  [[nodiscard]] static bool is_beyond_matrices(const BackwardDesc& desc) {
    return is_beyond_matrices(reason_against(desc));
  }
};

}  // namespace vkattn::tests
