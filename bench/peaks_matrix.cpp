// Measures matrix units through VK_KHR_cooperative_matrix: every pair of types that the build has a shader
// for, in every shape that the device lists for the pair.
#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

#include "compute_pass.hpp"
#include "peaks.hpp"
#include "shared/peak_constants.h"
#include "vkattn_bench_shaders.hpp"
#include "vulkan/shader_code.hpp"

namespace vkattn::bench {
namespace {

struct MatrixParameters {
  float flip = -1;
  std::uint32_t iterations = 0;
};

/// A form of the kernel: matrices of B that a subgroup holds, and whether B changes its sign.
struct MatrixForm {
  std::uint32_t columns = 2;
  bool flips = true;
};

/// The forms after the first are tried on the first form's best shape. A CPU implementation has no matrix
/// units, so its compiler could move products without flips out of the loop.
constexpr MatrixForm kFirstForm{};
constexpr std::array<MatrixForm, 3> kFurtherForms = {{{4, true}, {2, false}, {4, false}}};

struct MatrixKind {
  std::string_view shader;
  std::string_view operand;
  std::string_view accumulator;
  std::uint32_t operand_bytes;
};

constexpr std::array<MatrixKind, 4> kKinds = {{{"peak_matrix_f16_f32", "f16", "f32", 2},
                                               {"peak_matrix_f16_f16", "f16", "f16", 2},
                                               {"peak_matrix_bf16_f32", "bf16", "f32", 2},
                                               {"peak_matrix_s8_s32", "s8", "s32", 1}}};

/// Elements of both signs in the shader's storage type. They are small and never subnormal.
std::vector<std::byte> operand_data(const MatrixKind& kind, std::size_t elements) {
  std::vector<std::byte> data(elements * kind.operand_bytes);
  std::uint32_t state = 1;
  for (std::size_t i = 0; i < elements; ++i) {
    state = state * 1664525U + 1013904223U;
    const auto step = static_cast<int>(state >> 30U) + 1;
    const int signed_step = (state >> 29U & 1U) != 0 ? step : -step;
    const float value = static_cast<float>(signed_step) / 64;
    const auto byte = static_cast<std::int8_t>(signed_step);
    const std::uint16_t bits = kind.operand == "bf16" ? float_to_bfloat16(value) : float_to_half(value);
    if (kind.operand_bytes == 1) {
      std::memcpy(data.data() + i, &byte, 1);
    } else {
      std::memcpy(data.data() + i * 2, &bits, 2);
    }
  }
  return data;
}

bool is_of_kind(const MatrixShape& shape, const MatrixKind& kind) {
  return shape.scope == "subgroup" && shape.a_type == kind.operand && shape.b_type == kind.operand &&
         shape.c_type == kind.accumulator && shape.result_type == kind.accumulator;
}

Result<double> matrix_rate(const Runtime& runtime, const MatrixKind& kind, const detail::ShaderCode& code,
                           const MatrixShape& shape, const MatrixForm& form) {
  const Capabilities& capabilities = runtime.device().capabilities();
  const std::uint32_t size = std::min(256U, capabilities.max_workgroup_invocations);
  const std::uint32_t groups = capabilities.is_cpu() ? 64 : 2048;
  const Result<Buffer> results = runtime.create_buffer((std::uint64_t{groups} * size + 1) * sizeof(float));
  if (!results.ok()) return results.error();
  const std::size_t largest = std::size_t{shape.k} * std::max(shape.m, shape.n);
  const std::vector<std::byte> data = operand_data(kind, largest * VKATTN_PEAK_MATRIX_ROWS);
  const Result<Buffer> operands = runtime.create_buffer(data.size());
  if (!operands.ok()) return operands.error();
  const Result<void> written = runtime.write(*operands, 0, data);
  if (!written.ok()) return written.error();

  const std::array<detail::SpecializationValue, 7> specialization = {
      {{VKATTN_PEAK_WORKGROUP_SIZE_ID, size},
       {VKATTN_PEAK_MATRIX_M_ID, shape.m},
       {VKATTN_PEAK_MATRIX_N_ID, shape.n},
       {VKATTN_PEAK_MATRIX_K_ID, shape.k},
       {VKATTN_PEAK_MATRIX_OPERAND_BYTES_ID, kind.operand_bytes},
       {VKATTN_PEAK_MATRIX_COLUMNS_ID, form.columns},
       {VKATTN_PEAK_MATRIX_FLIPS_ID, form.flips ? 1U : 0U}}};
  const std::array<BufferRange, 2> buffers = {results->range(), operands->range()};
  const Result<ComputePass> pass =
      ComputePass::create(runtime, code, specialization, buffers, sizeof(MatrixParameters));
  if (!pass.ok()) return pass.error();
  const auto record = [&](VkCommandBuffer commands, std::uint64_t iterations) {
    const MatrixParameters parameters{-1.0F, static_cast<std::uint32_t>(iterations)};
    pass->record(commands, std::as_bytes(std::span(&parameters, 1)), groups);
  };
  const Result<double> seconds = time_unit_of_work(runtime, 16, 1ULL << 30U, record);
  if (!seconds.ok()) return seconds.error();
  float subgroups = 0;
  const Result<void> status = runtime.read(*results, 0, std::as_writable_bytes(std::span(&subgroups, 1)));
  if (!status.ok()) return status.error();
  const double products = 1.0 * VKATTN_PEAK_MATRIX_ROWS * form.columns;
  const double flops_each = 2.0 * shape.m * shape.n * shape.k;
  return products * flops_each * groups * static_cast<double>(subgroups) / *seconds;
}

std::string variant_name(const MatrixShape& shape, const MatrixForm& form) {
  return std::to_string(shape.m) + "x" + std::to_string(shape.n) + "x" + std::to_string(shape.k) + ", " +
         std::to_string(VKATTN_PEAK_MATRIX_ROWS) + "x" + std::to_string(form.columns) + " sums" +
         (form.flips ? "" : ", same operands");
}

Result<MatrixPeak> measure_kind(const Runtime& runtime, const MatrixKind& kind) {
  MatrixPeak result;
  result.operand = kind.operand;
  result.accumulator = kind.accumulator;
  const Capabilities& capabilities = runtime.device().capabilities();
  if (!capabilities.cooperative_matrix) {
    result.missing = "the device has no VK_KHR_cooperative_matrix, or this build cannot ask for it";
    return result;
  }
  const detail::ShaderBinary* const binary = detail::find_shader(shader_binaries(), kind.shader);
  if (binary == nullptr || !binary->is_built()) {
    result.missing = "left out of this build: " +
                     std::string(binary == nullptr ? "there is no such shader" : binary->reason);
    return result;
  }
  const MatrixShape* best = nullptr;
  const auto try_form = [&](const MatrixShape& shape, const MatrixForm& form) -> Result<void> {
    const Result<double> rate = matrix_rate(runtime, kind, binary->code(), shape, form);
    if (!rate.ok()) return rate.error();
    if (*rate > result.peak.rate) {
      result.peak = Peak{*rate, variant_name(shape, form)};
      best = &shape;
    }
    return {};
  };
  for (const MatrixShape& shape : capabilities.matrix_shapes) {
    if (!is_of_kind(shape, kind)) continue;
    if (Result<void> tried = try_form(shape, kFirstForm); !tried.ok()) return tried.error();
  }
  if (best == nullptr) {
    result.missing = "the device lists no matrix shape with these types";
    return result;
  }
  for (const MatrixForm& form : kFurtherForms) {
    if (!form.flips && capabilities.is_cpu()) continue;
    if (Result<void> tried = try_form(*best, form); !tried.ok()) return tried.error();
  }
  return result;
}

}  // namespace

Result<std::vector<MatrixPeak>> measure_matrix_peaks(const Runtime& runtime) {
  std::vector<MatrixPeak> peaks;
  for (const MatrixKind& kind : kKinds) {
    Result<MatrixPeak> peak = measure_kind(runtime, kind);
    if (!peak.ok()) return peak.error();
    peaks.push_back(std::move(*peak));
  }
  return peaks;
}

}  // namespace vkattn::bench
