// Shared by the tests on a device: one Runtime for the process, and running a problem string on a kernel.
#pragma once

#include <vulkan/vulkan_core.h>

#include <vkattn/runtime.hpp>

#include <gtest/gtest.h>

#include <cstddef>
#include <functional>
#include <initializer_list>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "harness/problem_run.hpp"
#include "problem/problem.hpp"
#include "support/must.hpp"
#include "support/problem_text.hpp"
#include "support/test_part.hpp"
#include "support/text.hpp"
#include "support/unrolled_loops.hpp"

namespace vkattn::tests {

/// Kernels that take every type and layout, for tests that are equal for all of them.
inline constexpr const char* kKernelNames[] = {"lane", "lane_decode", "tile", "decode"};
/// The form of matrix2 with numbers of rows in lanes, named like a kernel. It is asked for by block sizes.
inline constexpr const char* kRowsInLanes = "matrix2_lanes";
[[nodiscard]] inline std::string kernel_of(std::string_view name) {
  return std::string(name == kRowsInLanes ? "matrix2" : name);
}
/// Kernels on matrix units. They take 16-bit types, and matrix also quantised K and V. Not every device has
/// them.
inline constexpr const char* kOnMatrixUnits[] = {"matrix", "matrix2"};
/// These and that form.
inline constexpr const char* kMatrixKernelNames[] = {"matrix", "matrix2", kRowsInLanes};

/// Executions of one plan that must give the same bits.
inline constexpr int kSameBitsRuns = 50;

/// A score function with its tables, and the equal function in C++ for the reference.
struct ScoreSetup {
  Shared<const ScoreShaders> function;
  std::vector<std::vector<std::uint32_t>> tables;  ///< the bits of each element
  reference::ScoreHook hook;  ///< null: function and tables are those that the problem names
};

/// How to run a problem.
struct RunOptions {
  std::string kernel;            ///< or kRowsInLanes
  std::optional<Device> device;  ///< instead of the runtime's own device
  std::string_view family;       ///< the family of GPUs that `device` stands for
  std::uint64_t max_dispatch_ns = 0;
  std::uint32_t kv_splits = 0;
  bool strict_nonfinite = false;
  DataType arithmetic_type = DataType::kFloat32;
  double* largest_share = nullptr;                    ///< raised to the result's share of the tolerance
  std::optional<TileSizes> tile;                      ///< instead of the tile table's choice
  std::optional<ScoreSetup> score;                    ///< instead of the problem's own
  std::function<void(harness::ProblemRun&)> prepare;  ///< called after the inputs are filled
  std::function<void(const AttentionPlan&)> inspect;  ///< called with the plan before it runs
};

/// The memory of a problem, with filled inputs and poisoned outputs.
[[nodiscard]] harness::ProblemRun ready_run(const Problem& problem, const Runtime& on);

/// A test that needs a device. It is skipped if there is none, or fails if VKATTN_TEST_REQUIRE_DEVICE is set.
/// With VKATTN_VALIDATION=1 everything runs under the validation layer with synchronization validation, with
/// VKATTN_VALIDATION=gpu with GPU-assisted checks. Each message fails the test in which it appears.
class GpuTest : public testing::Test {
 protected:
  void SetUp() override;
  void TearDown() override;
  /// Why the device cannot run tests of this kind, which are then skipped. Empty if it can.
  [[nodiscard]] virtual std::string reason_to_skip() const { return ""; }

  /// The device of VKATTN_DEVICE or the best one. It is opened at first use.
  [[nodiscard]] static const Runtime& runtime();
  [[nodiscard]] static const Capabilities& capabilities() { return runtime().device().capabilities(); }
  /// The device as if it were weaker.
  [[nodiscard]] static Device device_with(const std::function<void(Capabilities&)>& change);
  /// Options to run a kernel on device_with().
  [[nodiscard]] static RunOptions seen_as(const std::string& kernel,
                                          const std::function<void(Capabilities&)>& change) {
    return {.kernel = kernel, .device = device_with(change)};
  }

  /// Runs the problems that belong to the wanted part of the tests. Each must be right.
  static void run_part(std::initializer_list<const char*> problems, const RunOptions& options);
  /// The memory of a problem, with filled inputs and poisoned outputs.
  [[nodiscard]] static harness::ProblemRun ready_run(const Problem& problem, const Runtime& on = runtime()) {
    return tests::ready_run(problem, on);
  }
  /// Checks that the results are right and that nothing else was written.
  static void expect_right(const harness::ProblemRun& run);

  /// A problem that is ready, with everything that recording its plan needs.
  struct Bound {
    harness::ProblemRun run;
    Buffer workspace;
    Bindings bindings;
  };
  [[nodiscard]] static Bound bound(const AttentionPlan& plan, const Problem& problem);

 private:
  std::size_t messages_before_ = 0;
};

/// A GpuTest that runs once for each kernel.
class KernelTest : public GpuTest, public testing::WithParamInterface<const char*> {
 protected:
  [[nodiscard]] static std::string kernel() { return GetParam(); }
  /// A reason to skip that names the kernel. Empty if the kernel takes a float16 problem here.
  [[nodiscard]] static std::string reason_against_kernel();
  /// Executes a run on the kernel.
  static void execute_on_kernel(harness::ProblemRun& run);
  /// The problem with no more rows than the kernel holds: decode takes few, so its query length is cut.
  [[nodiscard]] static std::string fitted(std::string_view problem);
  /// Runs the problems of the wanted part on the kernel after fitted().
  static void run_part(std::initializer_list<const char*> problems, const RunOptions& options = {kernel()});
};

/// A KernelTest for kernels on matrix units. It is skipped if the kernel takes no float16 problem.
class MatrixKernelTest : public KernelTest {
 protected:
  [[nodiscard]] std::string reason_to_skip() const override { return reason_against_kernel(); }
};

/// Why a kernel cannot run a problem of any kind on a device, optionally in the arithmetic of a type. Empty
/// if it can.
template <class Desc, class... Arithmetic>
[[nodiscard]] std::string reason_against(const Capabilities& capabilities, std::string_view kernel,
                                         const Desc& desc, Arithmetic... arithmetic) {
  for (const KernelSupport& support : kernel_support(desc, capabilities, arithmetic...)) {
    if (support.kernel == kernel) return support.reason;
  }
  return "there is no such kernel";
}
/// Why a kernel cannot run a problem of attention, given by its problem string.
[[nodiscard]] std::string reason_against(const Runtime& runtime, std::string_view kernel,
                                         std::string_view problem);

/// Why the device cannot run a problem in the form kRowsInLanes. Empty if it can.
[[nodiscard]] std::string reason_against_lanes(const Runtime& runtime, const AttentionDesc& desc);

/// The kernels that take the problem.
[[nodiscard]] std::vector<std::string> accepting_kernels(const AttentionDesc& desc,
                                                         const Capabilities& capabilities);

[[nodiscard]] inline std::string kernel_test_name(const testing::TestParamInfo<const char*>& info) {
  return info.param;
}

/// Whether this build compiles score functions.
[[nodiscard]] bool can_compile_scores();
/// Whether the error says that a kernel's shader needs a newer glslang than the one that compiles score
/// functions. Then this build has no such kernel with score functions, on any device.
[[nodiscard]] bool is_compiler_too_old(const Error& error);

/// Makes a plan with the kernel, runs it on poisoned outputs, compares with the reference and checks the
/// guards. The message of a failure names the problem and the command that repeats it.
[[nodiscard]] testing::AssertionResult runs_right(const Runtime& runtime, const Problem& problem,
                                                  const RunOptions& options);
[[nodiscard]] testing::AssertionResult runs_right(const Runtime& runtime, std::string_view problem,
                                                  const RunOptions& options);

/// Runs a plan that exists already, and compares with the reference.
[[nodiscard]] testing::AssertionResult matches_reference(const Runtime& runtime, const Problem& problem,
                                                         const harness::Runnable& plan,
                                                         const RunOptions& options);

/// Whether a result was right but zeros would have passed as well, for example if a sink takes all of the
/// softmax.
[[nodiscard]] bool is_without_force(const testing::AssertionResult& result);

/// Block sizes of the form kRowsInLanes for a device, largest first, whose matrices it has been probed for.
[[nodiscard]] std::vector<TileSizes> tiles_with_rows_in_lanes(const Capabilities& capabilities);
/// Has the runtime's device probed for these block sizes of matrix2 and heads of any width. Of `columns` it
/// counts only that it is not 0.
void probe_rows_of(const Runtime& runtime, const TileSizes& tile);

/// Makes the plan of a problem with a kernel, on the runtime's device or on another view of it.
[[nodiscard]] Result<AttentionPlan> make_plan(const Runtime& runtime, const AttentionDesc& desc,
                                              const RunOptions& options);

/// The state of a device that device_with() or the test's own runtime has made. Tests put functions of their
/// own into it. Nobody else has this state, and it was not created const.
[[nodiscard]] inline detail::DeviceState& own_state(const Device& device) {
  return const_cast<detail::DeviceState&>(device.state());
}

/// A buffer with these elements.
template <class Element>
[[nodiscard]] Buffer filled_buffer(const Runtime& runtime, const std::vector<Element>& elements) {
  const auto bytes = std::as_bytes(std::span(elements));
  Buffer buffer = must(runtime.create_buffer(bytes.size()));
  must(runtime.write(buffer, 0, bytes));
  return buffer;
}
/// The bindings of a plan of any kind, with the workspace if the plan needs one.
template <class Plan, class Tensors>
[[nodiscard]] auto bound_to(const Plan& plan, const Tensors& tensors, const BufferRange& workspace) {
  if constexpr (requires { plan.make_bindings(tensors, workspace); }) {
    return must(plan.make_bindings(tensors, workspace));
  } else {
    return must(plan.make_bindings(tensors));
  }
}
/// Binds and executes a plan.
template <class Plan, class Tensors>
void bind_and_execute(const Runtime& runtime, const Plan& plan, const Tensors& tensors,
                      const BufferRange& workspace = {}) {
  const auto bindings = bound_to(plan, tensors, workspace);
  must(runtime.execute([&](VkCommandBuffer commands) { plan.record(commands, bindings); }));
}
/// Elements of a buffer, from a byte on.
template <class Element>
[[nodiscard]] std::vector<Element> elements_of(const Runtime& runtime, const Buffer& buffer,
                                               std::size_t count, VkDeviceSize first_byte = 0) {
  std::vector<Element> elements(count);
  must(runtime.read(buffer, first_byte, std::as_writable_bytes(std::span(elements))));
  return elements;
}

/// The bytes of a whole buffer.
[[nodiscard]] std::vector<std::byte> read_back(const Runtime& runtime,
                                               const harness::ProblemRun::Tensor& tensor);

/// Writes one element of a tensor. It is given in float32 and stored in the tensor's type.
void write_element(const Runtime& runtime, const harness::ProblemRun::Tensor& tensor, const TensorDesc& desc,
                   std::int64_t element, float value);

/// Writes several elements, one after the other.
void write_elements(const Runtime& runtime, const harness::ProblemRun::Tensor& tensor, const TensorDesc& desc,
                    std::int64_t first, std::span<const float> values);

/// Sets a whole row (one key of one head) to a value.
void write_row(const Runtime& runtime, const harness::ProblemRun::Tensor& tensor, const TensorDesc& desc,
               std::int64_t batch, std::int64_t head, std::int64_t row, std::int64_t dims, float value);

/// One element of a tensor as float32.
[[nodiscard]] float read_element(const Runtime& runtime, const harness::ProblemRun::Tensor& tensor,
                                 const TensorDesc& desc, std::int64_t element);

}  // namespace vkattn::tests
