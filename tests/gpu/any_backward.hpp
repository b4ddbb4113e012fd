// Runs a test of gradients once for each of their four kernels, and for the form of matrix2 that stages
// blocks.
#pragma once

#include <vkattn/backward.hpp>

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "gpu/support.hpp"
#include "harness/backward_run.hpp"

namespace vkattn::tests {

inline constexpr const char* kStagedGradients = "matrix2_staged";
inline constexpr const char* kBackwardKernels[] = {"lane", "tile", "matrix", "matrix2", kStagedGradients};

/// Compares the gradients that a plan has written. The program's last line counts the comparison.
void expect_right_gradients(const harness::BackwardRun& run, const std::string& plan);

/// The test is skipped if the device has no matrices for the kernel, or none for the staged form's block
/// sizes.
class AnyBackwardTest : public GpuTest, public testing::WithParamInterface<const char*> {
 protected:
  [[nodiscard]] std::string reason_to_skip() const override;

  /// The form's kernel.
  [[nodiscard]] static std::string kernel() { return is_staged() ? "matrix2" : GetParam(); }
  [[nodiscard]] static bool is_staged() { return std::string_view(GetParam()) == kStagedGradients; }
  [[nodiscard]] static bool on_matrices() { return kernel().starts_with("matrix"); }

  /// All gradients that the problem has and the kernel can compute. If it has the word lse, the loss depends
  /// on that too. Kernels on matrices take dO in the type of Q alone.
  [[nodiscard]] static BackwardDesc with_gradients(const AttentionDesc& attention);

  /// Why the kernel cannot run the problem. Empty if it can.
  [[nodiscard]] static std::string reason_against(const BackwardDesc& desc);

  /// Kernels on matrices take 16-bit elements. For them a problem of float32 tensors becomes one of float16.
  [[nodiscard]] static Problem parsed(std::string_view text);

  /// The form's kernel, and its block sizes if others are the kernel's default.
  [[nodiscard]] static PlanOptions options(std::uint32_t chunk_keys = 0);

  /// The number, and 0 beside it if that is another form of the kernel: matrix2 without chunks.
  [[nodiscard]] static std::vector<std::uint32_t> chunk_sizes(std::uint32_t chunk_keys);

  /// Runs the problem with all its gradients, on the device or on a changed view of it, and compares.
  static void expect_gradients(const Problem& problem, const BackwardDesc& desc, const PlanOptions& how,
                               const Device& device = runtime().device());
  static void expect_gradients(std::string_view text, std::uint32_t chunk_keys = 0);

  /// Whether the reason says that the problem is beyond a kernel on matrices. With little shared memory
  /// matrix takes no wide heads. matrix2 does not either, and with tensor addressing its rows must start at
  /// aligned places.
  [[nodiscard]] static bool is_beyond_matrices(const std::string& reason);
  [[nodiscard]] static bool is_beyond_matrices(const BackwardDesc& desc) {
    return is_beyond_matrices(reason_against(desc));
  }
};

}  // namespace vkattn::tests
