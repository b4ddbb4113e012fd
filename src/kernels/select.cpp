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
#include "vulkan/shader_code.hpp"

namespace vkattn {

namespace detail {

namespace {

// Checks the needs of float16 arithmetic in kernel, device and tensors.
Result<void> check_float16_arithmetic(const Kernel& kernel, const AttentionDesc& desc,
                                      const Capabilities& capabilities) {
  const auto cannot = [](const auto&... words) {
    return unsupported(words..., " (PlanOptions::arithmetic_type)");
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

// Block sizes of float16 arithmetic come first.
std::vector<TileSizes> tiles_of(const Kernel& kernel, const AttentionDesc& desc,
                                const Capabilities& capabilities, bool float16) {
  std::vector<TileSizes> tiles = table_tiles(kernel.name, desc, capabilities);
  if (!float16) return tiles;
  const std::vector<TileSizes> first = table_tiles(kTileFloat16, desc, capabilities);
  tiles.insert(tiles.begin(), first.begin(), first.end());
  return tiles;
}

// What makes a problem need fewer buffers; every device has four.
std::string_view way_to_fewer_buffers(const AttentionDesc& desc) {
  if (score_buffers(desc) != 0) {
    return ": each buffer of the score function takes one, so put its numbers into fewer";
  }
  return needs_row_lse(desc) && desc.has_lse ? ": ask for lse in a plan without weights" : "";
}

// A configuration needs a shader that the build has.
Result<KernelConfig> configure(const Kernel& kernel, const AttentionDesc& desc,
                               const Capabilities& capabilities, const PlanOptions& options) {
  if (const std::uint32_t needed = std::min(storage_buffers(desc), fewest_storage_buffers(desc));
      capabilities.max_stage_storage_buffers < needed) {
    return limit_exceeded("needs ", needed, " storage buffers; maxPerStageDescriptorStorageBuffers is ",
                          capabilities.max_stage_storage_buffers, way_to_fewer_buffers(desc));
  }
  if (Result<void> s = check_built({desc.key.type, desc.value.type}); !s) return s.error();
  const bool float16 = options.arithmetic_type == DataType::kFloat16;
  if (float16) {
    if (Result<void> s = check_float16_arithmetic(kernel, desc, capabilities); !s) return s.error();
  }
  const std::vector<TileSizes> tiles =
      options.tile ? std::vector{*options.tile} : tiles_of(kernel, desc, capabilities, float16);
  auto config = (float16 ? kernel.configure_float16 : kernel.configure)(desc, capabilities, tiles);
  // The form that takes a workspace is left where options or the build do without it.
  if (config && config->tile_workspace_bytes != 0 &&
      (!options_allow_tile_workspace(options, desc, capabilities, *config) ||
       !built_shader(shader_binaries(), config->shader))) {
    config = kernel.configure(desc, without_addresses(capabilities), tiles);
  }
  if (!config) return config;
  config->name = kernel.name;
  if (Result<void> s = check_loop_limit(desc, capabilities, *config, options); !s) return s.error();
  if (const auto code = built_shader(shader_binaries(), config->shader); !code) return code.error();
  return config;
}

std::string kernel_names(const std::vector<Kernel>& kernels) {
  std::string names;
  for (const Kernel& kernel : kernels) names += message(names.empty() ? "" : ", ", kernel.name);
  return names;
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
  return unsupported(refusal->reason);
}

Error nothing_accepts(std::span<const KernelSupport> considered, ErrorCode code, std::string_view problem) {
  std::string text = message("no kernel can run ", problem, " on this device");
  // A reason that several kernels share is said once, after all of their names.
  for (std::size_t i = 0; i < considered.size(); ++i) {
    const auto has_reason = [&](const KernelSupport& support) {
      return support.reason == considered[i].reason;
    };
    if (std::ranges::any_of(considered.first(i), has_reason)) continue;
    std::string_view separator = "; ";
    for (const KernelSupport& support : considered.subspan(i)) {
      if (!has_reason(support)) continue;
      text += message(separator, support.kernel);
      separator = ", ";
    }
    text += message(": ", considered[i].reason);
  }
  return {code, VK_SUCCESS, std::move(text)};
}

Error no_such_kernel(std::string_view wanted, std::string_view kernels, std::string_view problem) {
  return {ErrorCode::kNotFound, VK_SUCCESS,
          message("there is no kernel '", wanted, "' for ", problem, "; the kernels are ", kernels)};
}

Result<Selection> select_kernel(const AttentionDesc& desc, const Capabilities& capabilities,
                                const PlanOptions& options) {
  const auto consider = [&](const Kernel& kernel) -> Result<KernelConfig> {
    auto config = configure(kernel, desc, capabilities, options);
    // Kernels on matrix units multiply hidden rows of V by 0, which NaN and infinities survive.
    if (config && options.strict_nonfinite && config->uses_matrix_units) {
      return unsupported(
          "a NaN or an infinity in a hidden row of V could reach its output, which strict_nonfinite "
          "rules out");
    }
    return config;
  };
  Capabilities ordering = capabilities;  // without the form that takes a workspace, as configure() has it
  if (asks_for_one_part(options)) ordering.buffer_addresses = false;
  return select_first(ordered_kernels(desc, ordering), options, "this problem", consider);
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
  const Result<void> valid = validate(desc);
  // The order follows from sizes, which an invalid descriptor may have wrong.
  const AttentionDesc ordered =
      valid ? desc : AttentionDesc{.query_length = 0, .kv_length = 0, .head_dim = 1};
  PlanOptions options;
  options.arithmetic_type = arithmetic_type;
  return detail::support_of(
      detail::ordered_kernels(ordered.resolved(), capabilities), valid,
      [&](const detail::Kernel& kernel) { return detail::configure(kernel, desc, capabilities, options); });
}

}  // namespace vkattn
