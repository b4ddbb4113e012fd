// The program of a forward pass: see forward_program.hpp.
#include "forward/forward_program.hpp"

#include <cstddef>

#include "attention/features.hpp"
#include "attention/tensor_table.hpp"
#include "common/integers.hpp"
#include "common/message.hpp"
#include "forward/attention_program.hpp"
#include "forward/gather.hpp"
#include "forward/params.hpp"
#include "kernels/specialization.hpp"
#include "operation/own_addresses.hpp"
#include "vkattn_core_shaders.hpp"
#include "vulkan/shader_code.hpp"

namespace vkattn::detail {

namespace {

/// A pass with what the plan decides for it.
struct PlannedPass {
  PassConfig config;
  PassVariant variant;
};

// The kernel and the passes before and after it, in order.
std::vector<PlannedPass> list_passes(const LayoutRequest& request, const ForwardLayout& layout,
                                     std::uint32_t& kernel_pass) {
  const AttentionDesc& desc = request.desc;
  const KernelConfig& kernel = request.config;
  std::vector<PlannedPass> passes;
  passes.reserve(4);
  PassVariant variant;
  variant.splits_keys = layout.splits_keys();
  variant.combines_parts = layout.combines_in_kernel();
  variant.sums_in_workspace = layout.sums_in_workspace;
  variant.strict_nonfinite = request.options.strict_nonfinite;
  PassVariant combine;
  if (layout.gathers) variant.first_partial = combine.first_partial = first_partial(request);
  if (layout.has_block_mask) {
    passes.push_back({configure_block_mask(desc, request.capabilities, kernel), {}});
    variant.block_rows = kernel.rows_per_workgroup;
    variant.block_keys = kernel.block_mask_keys;
  }
  kernel_pass = static_cast<std::uint32_t>(passes.size());
  passes.push_back({kernel, variant});
  if (layout.splits_keys() && !layout.combines_in_kernel()) {
    passes.push_back({configure_combine(desc, request.capabilities, layout.split.splits), combine});
  }
  if (desc.weights != WeightsStage::kNone) {
    passes.push_back({configure_weights(desc, request.capabilities), {}});
  }
  return passes;
}

// The SPIR-V of a shader, with the score function in it if there is one.
Result<ShaderCode> shader_code(const AttentionDesc& desc, std::string_view shader) {
  if (!desc.score_function) return built_shader(shader_binaries(), shader);
  const auto words = desc.score_function->binary(shader);
  if (!words) return words.error();
  return ShaderCode(*words);
}

Result<ProgramPass> program_pass(const AttentionDesc& desc, const PlannedPass& planned) {
  const auto code = shader_code(desc, planned.config.shader);
  if (!code) return code.error();
  return configured_pass(planned.config, *code, specialization(desc, planned.config, planned.variant));
}

// --- Tensors and bindings ---

std::span<const ScoreBuffer> score_tables(const AttentionDesc& desc) {
  if (!desc.score_function) return {};
  return desc.score_function->buffers();
}

// Adds the score function's buffers and the block mask behind the tensors of the table.
void add_tensors(const LayoutRequest& request, const ForwardLayout& layout, ProgramDesc& program) {
  const std::span<const ScoreBuffer> tables = score_tables(request.desc);
  for (std::size_t i = 0; i < kMaxScoreBuffers; ++i) {
    ProgramTensor tensor;
    if (i < tables.size()) {
      tensor.name = message("score function's buffer ", tables[i].name);
      tensor.bytes = 4;  // an element
      tensor.is_table = true;
    }
    program.tensors.push_back(tensor);
  }
  ProgramTensor block_mask;
  block_mask.name = "block mask";
  block_mask.bytes = layout.block_mask_bytes;
  block_mask.may_be_null = true;
  block_mask.written = true;
  program.tensors.push_back(block_mask);
  for (std::size_t i = kTensorCount; i < program.tensors.size(); ++i) {
    program.tensors[i].alignment_bytes = request.capabilities.min_storage_offset_alignment;
    program.tensors[i].alignment_name = "minStorageBufferOffsetAlignment";
  }
}

void bind_features(const AttentionDesc& desc, const PlannedWindow& window,
                   std::vector<ProgramBinding>& bindings) {
  bind_area(window.lse, bindings[VKATTN_BINDING_LSE]);
  if (window.block_mask.bytes != 0) {
    ProgramBinding& mask = bindings[VKATTN_BINDING_BLOCK_MASK];
    bind_area(window.block_mask, mask);
    mask.from = ProgramBinding::From::kTensorOrWorkspace;
    mask.index = static_cast<std::uint32_t>(kBlockMaskTensor);
    mask.first_byte = window.kept_mask_byte;
    mask.exact = true;
  }
  for (std::size_t i = 0; i < score_tables(desc).size(); ++i) {
    ProgramBinding& table = bindings[VKATTN_BINDING_USER + i];
    table.from = ProgramBinding::From::kTensor;
    table.index = static_cast<std::uint32_t>(kTensorCount + i);
    table.exact = true;
  }
}

ProgramSet program_set(const LayoutRequest& request, const ForwardLayout& layout,
                       const PlannedWindow& window) {
  ProgramSet set;
  set.bindings = window_bindings(request.desc, layout.whole, window.tensors);
  bind_area(window.partials, set.bindings[VKATTN_BINDING_PARTIALS]);
  set.push_constants = bytes_of(window_params(request.desc, layout.split, window.window));
  const auto first_byte_of = [&](std::uint32_t binding) {
    return binding == VKATTN_BINDING_PARTIALS ? window.tile_byte : 0;
  };
  add_address_offsets(request.config.own_addresses, first_byte_of, set.push_constants);
  if (has_features(request.desc)) {
    bind_features(request.desc, window, set.bindings);
    set.parameters = bytes_of(window_feature_params(request.desc, window));
    set.parameters_byte = window.feature_params.offset;
  }
  // Counts are 0 at first. Each execution leaves them so.
  constexpr std::size_t kCountBytes = 4;
  set.parameters.resize(set.parameters.size() + kCountBytes * static_cast<std::size_t>(layout.counted_tiles));
  if (!set.parameters.empty()) {
    set.bindings[VKATTN_BINDING_FEATURE_PARAMS].from = ProgramBinding::From::kParameters;
  }
  return set;
}

// --- Dispatches ---

/// The units of a pass over a window, and the time that one takes.
struct PassWork {
  std::uint64_t units = 0;
  double unit_ns = 0;
};

PassWork kernel_work(const LayoutRequest& request, const ForwardLayout& layout, const Window& window) {
  const auto tiles = static_cast<std::uint64_t>(row_tiles(request, window));
  return {tiles * static_cast<std::uint64_t>(window_parts(layout.split, window)),
          row_tile_ns(request) / static_cast<double>(layout.split.splits)};
}

// The units of a pass before or after the kernel, whose invocations share nothing.
std::int64_t pass_units(const PassConfig& pass, const PlannedWindow& window) {
  const Window& w = window.window;
  if (w.first_key != 0) return 0;  // once for all parts of the keys
  if (pass.unit == PassUnit::kRows) return w.batch * w.heads * w.rows;
  return divide_up(window.blocks.count(), std::int64_t{pass.units_per_workgroup});
}

PassWork pass_work(const LayoutRequest& request, const ForwardLayout& layout, const PassConfig& pass,
                   const PlannedWindow& window) {
  if (pass.unit == PassUnit::kTiles) return kernel_work(request, layout, window.window);
  return {static_cast<std::uint64_t>(pass_units(pass, window)),
          pass.workgroup_flops / assumed_flops_per_ns(request.capabilities)};
}

}  // namespace

Result<ProgramDesc> forward_program(const LayoutRequest& request, const ForwardLayout& layout,
                                    std::uint32_t& kernel_pass) {
  const auto passes = list_passes(request, layout, kernel_pass);
  ProgramDesc program = attention_program(request.desc, layout.whole);
  program.workspace_bytes = layout.workspace_bytes;
  add_tensors(request, layout, program);
  if (has_features(request.desc)) add_dropout_words(program);
  program.sets.reserve(layout.windows.size());
  program.passes.reserve(passes.size() + 1);
  add_addresses(request.config.by_address, program.layout());
  add_own_addresses(request.config.own_addresses, program.layout());
  for (const PlannedWindow& window : layout.windows) {
    program.sets.push_back(program_set(request, layout, window));
  }
  if (layout.gathers) {
    const auto count = static_cast<std::uint32_t>(passes.size());
    if (Result<void> s = add_gathering(request, layout, count, program); !s) return s.error();
  }
  const auto first_pass = static_cast<std::uint32_t>(program.passes.size());
  kernel_pass += first_pass;
  for (std::uint32_t i = 0; i < passes.size(); ++i) {
    const PlannedPass& planned = passes[i];
    auto pass = program_pass(request.desc, planned);
    if (!pass) return pass.error();
    program.passes.push_back(*std::move(pass));
    program.passes.back().layout = layout.gathers ? i : 0;
    // The kernel and the combine pass write to the buffer that they read.
    if (layout.gathers && i < 2) program.passes.back().between = kAfterPasses;
    const std::uint32_t first_set =
        program.passes.back().layout * static_cast<std::uint32_t>(layout.windows.size());
    for (std::uint32_t w = 0; w < layout.windows.size(); ++w) {
      const PassWork work = pass_work(request, layout, planned.config, layout.windows[w]);
      add_steps(program, first_pass + i, first_set + w, work.units,
                dispatch_limits(request.capabilities, request.options.max_dispatch_ns, work.unit_ns),
                request.capabilities);
    }
  }
  return program;
}

}  // namespace vkattn::detail
