// Kernel selection.
#include "kernels/select.hpp"

#include <algorithm>

#include "attention/features.hpp"
#include "attention/tensor_rules.hpp"
#include "attention/tensor_table.hpp"
#include "common/message.hpp"
#include "kernels/tile_table.hpp"
#include "shared/attention_constants.h"
#include "vkattn_core_shaders.hpp"
#include "vulkan/built_shader.hpp"

namespace vkattn {

namespace detail {

namespace {

// What float16 arithmetic needs of kernel, device and tensors.
Result<void> check_float16_arithmetic(const Kernel& kernel, const AttentionDesc& desc,
                                      const Capabilities& capabilities) {
  const auto cannot = [](const auto&... words) {
    return Error{ErrorCode::kUnsupported, VK_SUCCESS, message(words..., " (PlanOptions::arithmetic_type)")};
  };
  if (kernel.configure_float16 == nullptr) return cannot("has no form with float16 arithmetic");
  for (const auto& [tensor, type] : {std::pair("query", desc.query.type), std::pair("key", desc.key.type),
                                     std::pair("value", desc.value.type)}) {
    if (type == DataType::kFloat16) continue;
    return cannot("float16 arithmetic is for float16 storage, but AttentionDesc::", tensor, ".type is ",
                  name(type));
  }
  for (const auto& [feature, enabled] :
       {std::pair("shaderFloat16", capabilities.shader_float16),
        std::pair("storageBuffer16BitAccess", capabilities.storage_buffer_16bit)}) {
    if (!enabled) return cannot("float16 arithmetic needs ", feature, ", which is not enabled");
  }
  return {};
}

// Those that float16 wants come first.
std::vector<TileSizes> tiles_of(const Kernel& kernel, const AttentionDesc& desc,
                                const Capabilities& capabilities, bool float16) {
  std::vector<TileSizes> tiles = table_tiles(kernel.name, desc, capabilities);
  if (!float16) return tiles;
  const std::vector<TileSizes> first = table_tiles(kTileFloat16, desc, capabilities);
  tiles.insert(tiles.begin(), first.begin(), first.end());
  return tiles;
}

// A configuration is of use only where the build has its shader.
Result<KernelConfig> configure(const Kernel& kernel, const AttentionDesc& desc,
                               const Capabilities& capabilities, const SelectionRequest& request = {}) {
  if (const std::uint32_t needed = storage_buffers(desc); capabilities.max_stage_storage_buffers < needed) {
    return limit_exceeded("needs ", needed, " storage buffers, maxPerStageDescriptorStorageBuffers is ",
                          capabilities.max_stage_storage_buffers);
  }
  if (Result<void> s = check_built({desc.key.type, desc.value.type}); !s) return s.error();
  const bool float16 = request.arithmetic_type == DataType::kFloat16;
  if (float16) {
    if (Result<void> s = check_float16_arithmetic(kernel, desc, capabilities); !s) return s.error();
  }
  const std::vector<TileSizes> tiles =
      request.tile != nullptr ? std::vector{*request.tile} : tiles_of(kernel, desc, capabilities, float16);
  auto config = (float16 ? kernel.configure_float16 : kernel.configure)(desc, capabilities, tiles);
  if (!config) return config;
  config->name = kernel.name;
  if (Result<void> status = check_loop_limit(desc, capabilities, *config, request.kv_splits); !status)
    return status.error();
  if (const auto code = built_shader(shader_binaries(), config->shader); !code) return code.error();
  return config;
}

Result<KernelConfig> consider(const Kernel& kernel, const AttentionDesc& desc,
                              const Capabilities& capabilities, const SelectionRequest& request) {
  if (Result<void> s = check_not_refused(kernel.name, request.refusals); !s) return s.error();
  auto config = configure(kernel, desc, capabilities, request);
  // Kernels on matrix units multiply hidden rows of V by 0, which NaN and infinities survive.
  if (config && request.strict_nonfinite && config->uses_matrix_units) {
    return Error{ErrorCode::kUnsupported, VK_SUCCESS,
                 "a NaN or an infinity in a hidden row of V could reach its output, which strict_nonfinite "
                 "rules out"};
  }
  return config;
}

std::string kernel_names(const std::vector<Kernel>& kernels) {
  std::string names;
  for (const Kernel& kernel : kernels) names += message(names.empty() ? "" : ", ", kernel.name);
  return names;
}

Error nothing_accepts(const std::vector<KernelSupport>& considered, ErrorCode code) {
  std::string text = "no kernel can run this problem on this device";
  for (const KernelSupport& support : considered) text += message("; ", support.kernel, ": ", support.reason);
  return {code, VK_SUCCESS, std::move(text)};
}

}  // namespace

Result<void> check_refusals(std::span<const KernelRefusal> refusals, std::string_view list) {
  if (refusals.empty()) return {};
  const std::vector<Kernel> kernels = ordered_kernels({}, {});  // all, in some order
  for (std::size_t i = 0; i < refusals.size(); ++i) {
    const auto is_named = [&](const Kernel& kernel) { return kernel.name == refusals[i].kernel; };
    if (std::any_of(kernels.begin(), kernels.end(), is_named)) continue;
    return invalid(list, "[", i, "] names '", refusals[i].kernel,
                   "', and there is no such kernel; the kernels are ", kernel_names(kernels));
  }
  return {};
}

Result<void> check_not_refused(std::string_view kernel, std::span<const KernelRefusal> refusals) {
  const auto is_of_kernel = [&](const KernelRefusal& refusal) { return refusal.kernel == kernel; };
  const auto refusal = std::find_if(refusals.begin(), refusals.end(), is_of_kernel);
  if (refusal == refusals.end()) return {};
  return Error{ErrorCode::kUnsupported, VK_SUCCESS, refusal->reason};
}

Result<Selection> select_kernel(const AttentionDesc& desc, const Capabilities& capabilities,
                                const SelectionRequest& request) {
  if (Result<void> s = check_refusals(request.refusals); !s) return s.error();
  std::vector<KernelSupport> considered;
  std::optional<Selection> chosen;
  ErrorCode code = ErrorCode::kNotFound;
  const std::vector<Kernel> kernels = ordered_kernels(desc, capabilities);
  considered.reserve(kernels.size());
  for (const Kernel& kernel : kernels) {
    if (!request.kernel.empty() && kernel.name != request.kernel) continue;
    auto config = consider(kernel, desc, capabilities, request);
    considered.push_back({kernel.name, config ? std::string() : config.error().message});
    if (!config) code = config.error().code;
    if (config && !chosen) chosen = Selection{kernel, *std::move(config), {}};
  }
  if (considered.empty()) {
    return Error{
        ErrorCode::kNotFound, VK_SUCCESS,
        message("there is no kernel '", request.kernel, "'; the kernels are ", kernel_names(kernels))};
  }
  if (!chosen) return nothing_accepts(considered, code);
  chosen->considered = std::move(considered);
  return *std::move(chosen);
}

std::string describe_others(std::span<const KernelSupport> considered, std::string_view chosen) {
  std::string text;
  for (const KernelSupport& support : considered) {
    if (!support.reason.empty()) {
      text += message("refused: ", support.kernel, ": ", support.reason, "\n");
    } else if (support.kernel != chosen) {
      text += message("not needed: ", support.kernel, "\n");
    }
  }
  return text;
}

}  // namespace detail

std::vector<KernelSupport> kernel_support(const AttentionDesc& given, const Capabilities& capabilities,
                                          DataType arithmetic_type) {
  const AttentionDesc desc = given.resolved();
  std::vector<KernelSupport> support;
  const Result<void> valid = validate(desc);
  // The order follows from sizes, which may be anything where the descriptor is no valid one.
  const AttentionDesc ordered =
      valid ? desc : AttentionDesc{.query_length = 0, .kv_length = 0, .head_dim = 1};
  for (const detail::Kernel& kernel : detail::ordered_kernels(ordered.resolved(), capabilities)) {
    if (!valid) {
      support.push_back({kernel.name, valid.error().message});
      continue;
    }
    detail::SelectionRequest request;
    request.arithmetic_type = arithmetic_type;
    auto config = detail::configure(kernel, desc, capabilities, request);
    support.push_back({kernel.name, config ? std::string() : config.error().message});
  }
  return support;
}

}  // namespace vkattn
