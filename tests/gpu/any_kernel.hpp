// Runs a test once for each of the six kernels, or also for a form of matrix2, on problems that each of them
// takes.
#pragma once

#include <string>
#include <string_view>

#include "gpu/support.hpp"

namespace vkattn::tests {

inline constexpr const char* kEveryKernelName[] = {"lane",   "lane_decode", "tile",
                                                   "decode", "matrix",      "matrix2"};

inline constexpr const char* kEveryFormName[] = {"lane",   "lane_decode", "tile",      "decode",
                                                 "matrix", "matrix2",     kRowsInLanes};

/// The test is skipped if the device does not run the kernel.
class AnyKernelTest : public KernelTest {
 protected:
  [[nodiscard]] std::string reason_to_skip() const override {
    const std::string reason = reason_against_kernel();
    EXPECT_TRUE(reason.empty() || is_on_matrix_units() || kernel() == "decode") << reason;
    return reason;
  }

  [[nodiscard]] static bool is_on_matrix_units() { return kernel().starts_with("matrix"); }
  /// The problem in a type that the kernel takes, with no more rows than it takes.
  [[nodiscard]] static std::string typed(std::string_view problem, std::string_view type = "") {
    std::string text(problem);
    if (is_on_matrix_units()) {
      if (const std::size_t at = text.find(" bf16"); at != std::string::npos) text.replace(at, 5, " f16");
      type = text.find(" f16") == std::string::npos ? "f16" : "";
    }
    return fitted(text + " " + std::string(type));
  }
  /// Runs the problems of the wanted part after typed().
  static void run_part(std::initializer_list<const char*> problems, const RunOptions& options = {kernel()}) {
    for (const char* const problem : part_of(problems))
      EXPECT_TRUE(runs_right(runtime(), typed(problem), options));
  }
  /// Whether the kernel takes K and V in their storage type: matrix2 takes no blocks with scales of their
  /// own. It takes everything else in typed() problems: float8, pages, rings, any strides. If tensor
  /// addressing cannot do it, its staged form does.
  [[nodiscard]] static bool takes_storage_of(const AttentionDesc& desc) {
    const auto has_blocks = [](DataType type) { return type == DataType::kQ8_0 || type == DataType::kQ4_0; };
    return !kernel().starts_with("matrix2") || !(has_blocks(desc.key.type) || has_blocks(desc.value.type));
  }
};

}  // namespace vkattn::tests
