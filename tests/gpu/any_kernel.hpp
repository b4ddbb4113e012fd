// A test once for each of the five kernels, on problems that each of them takes.
#pragma once

#include <string>
#include <string_view>

#include "gpu/support.hpp"

namespace vkattn::tests {

inline constexpr const char* kEveryKernelName[] = {"lane", "tile", "decode", "matrix", "matrix2"};

/// Skipped where the device does not run the kernel.
class AnyKernelTest : public KernelTest {
 protected:
  void SetUp() override {
    KernelTest::SetUp();
    if (IsSkipped() || HasFatalFailure()) return;
    const std::string reason = reason_against(runtime(), kernel(), fitted("64x64 d64 f16"));
    ASSERT_TRUE(reason.empty() || is_on_matrix_units() || kernel() == "decode") << reason;
    if (!reason.empty()) GTEST_SKIP() << "the kernel " << kernel() << " cannot run here: " << reason;
  }

  [[nodiscard]] static bool is_on_matrix_units() { return kernel().starts_with("matrix"); }
  /// The problem in a type that the kernel takes, and with as many rows.
  [[nodiscard]] static std::string typed(std::string_view problem, std::string_view type = "") {
    std::string text(problem);
    if (is_on_matrix_units()) {
      if (const std::size_t at = text.find(" bf16"); at != std::string::npos) text.replace(at, 5, " f16");
      type = text.find(" f16") == std::string::npos ? "f16" : "";
    }
    return fitted(text + " " + std::string(type));
  }
  /// As where keys in pages, or with unusual strides, cannot be addressed as a tensor, or those of one head
  /// are more than a buffer's range: matrix2 alone may, of bfloat16, which has no staged form.
  [[nodiscard]] static bool is_refused_by_matrix2(const AttentionDesc& desc, RunOptions options = {}) {
    if (kernel() != "matrix2") return false;
    options.kernel = kernel();
    const auto plan = make_plan(runtime(), desc, options);
    if (plan.ok()) return false;
    const Error& error = plan.error();
    return error.code == ErrorCode::kUnsupported ||
           (error.code == ErrorCode::kLimitExceeded && !capabilities().is_cpu() &&
            error.message.find("one head of the ") != std::string::npos);
  }
};

}  // namespace vkattn::tests
