// The program of a forward pass: see forward_program.hpp.
#include "forward/forward_program.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstring>

#include "attention/features.hpp"
#include "attention/tensor_table.hpp"
#include "common/integers.hpp"
#include "common/message.hpp"
#include "forward/params.hpp"
#include "kernels/specialization.hpp"
#include "program/bound_set.hpp"
#include "vkattn_core_shaders.hpp"
#include "vulkan/built_shader.hpp"

namespace vkattn::detail {

namespace {

static_assert(VKATTN_FEATURE_BINDING_COUNT <= kMostBindings);
static_assert(sizeof(AttentionParams) <= kMostPushConstantBytes);
static_assert(sizeof(FeatureParams) <= kMostParameterBytes);
static_assert(kTensorCount + kMaxScoreBuffers + 1 <= ForwardCall::kMostTensors);
static_assert(offsetof(AttentionParams, tile_count) == offsetof(AttentionParams, first_tile) + 4,
              "ProgramDesc::units_byte");

constexpr PassBarrier kAfterShaders{VK_ACCESS_SHADER_WRITE_BIT,
                                    VK_ACCESS_SHADER_READ_BIT | VK_ACCESS_SHADER_WRITE_BIT};

// The words of a call that go to FeatureParams.
enum CallWordIndex : std::uint32_t { kSeedLow, kSeedHigh, kDropoutOffset };

/// A pass with what the plan decides for it.
struct PlannedPass {
  PassConfig config;
  PassVariant variant;
};

// Of the kernel, those before and those after it, in order.
std::vector<PlannedPass> list_passes(const LayoutRequest& request, const ForwardLayout& layout,
                                     const PlanOptions& options, std::uint32_t& kernel_pass) {
  const AttentionDesc& desc = request.desc;
  const KernelConfig& kernel = request.config;
  std::vector<PlannedPass> passes;
  PassVariant variant;
  variant.splits_keys = layout.splits_keys();
  variant.sums_in_workspace = layout.sums_in_workspace;
  variant.strict_nonfinite = options.strict_nonfinite;
  if (layout.has_block_mask) {
    passes.push_back({configure_block_mask(desc, request.capabilities, kernel), {}});
    variant.block_rows = kernel.rows_per_workgroup;
    variant.block_keys = kernel.block_mask_keys;
  }
  kernel_pass = static_cast<std::uint32_t>(passes.size());
  passes.push_back({kernel, variant});
  for (const PassConfig& pass : kernel.following) passes.push_back({pass, {}});
  if (layout.splits_keys()) {
    passes.push_back({configure_combine(desc, request.capabilities, layout.split.splits), {}});
  }
  if (desc.weights != WeightsStage::kNone) {
    passes.push_back({configure_weights(desc, request.capabilities), {}});
  }
  return passes;
}

Result<ProgramPass> program_pass(const AttentionDesc& desc, const PlannedPass& planned,
                                 const PlanOptions& options) {
  const auto words = shader_words(options, planned.config.shader);
  if (!words) return words.error();
  ProgramPass pass;
  pass.name = planned.config.name;
  pass.shader = planned.config.shader;
  pass.words = *words;
  pass.specialization = specialization(desc, planned.config, planned.variant);
  pass.workgroup_size = planned.config.workgroup_size;
  pass.required_subgroup_size = planned.config.required_subgroup_size;
  pass.barrier = kAfterShaders;  // what the passes before have written to the workspace, or in place
  return pass;
}

// --- Tensors and bindings ---

ProgramTensor program_tensor(const TensorRow& row, const AttentionDesc& desc, const ForwardLayout& layout,
                             bool whole_words) {
  ProgramTensor tensor;
  tensor.name = message(row.name, " tensor");
  if (!row.is_used(desc)) return tensor;
  const TensorDesc storage = row.storage(desc);
  tensor.bytes = static_cast<std::uint64_t>(layout.whole[row.binding].bytes);
  tensor.alignment_bytes = std::max(element_bytes(storage.type), storage.alignment_bytes);
  tensor.alignment_name = "its alignment (TensorDesc::alignment_bytes)";
  tensor.in_words = whole_words || row.use.in_words || storage.type == DataType::kFloat8E4m3;
  return tensor;
}

void add_tensors(const LayoutRequest& request, const ForwardLayout& layout, const PlanOptions& options,
                 ProgramDesc& program) {
  const Capabilities& capabilities = request.capabilities;
  for (const TensorRow& row : tensor_table()) {
    program.tensors.push_back(program_tensor(row, request.desc, layout, !capabilities.storage_buffer_16bit));
  }
  for (std::size_t i = 0; i < kMaxScoreBuffers; ++i) {
    ProgramTensor tensor;
    if (options.score_function && i < options.score_function->buffers().size()) {
      tensor.name = message("score function's buffer ", options.score_function->buffers()[i].name);
      tensor.bytes = 4;  // an element
      tensor.is_table = true;
    }
    program.tensors.push_back(tensor);
  }
  ProgramTensor block_mask;
  block_mask.name = "block mask";
  block_mask.bytes = layout.block_mask_bytes;
  block_mask.may_be_null = true;
  program.tensors.push_back(block_mask);
  for (std::size_t i = tensor_table().size(); i < program.tensors.size(); ++i) {
    program.tensors[i].alignment_bytes = capabilities.min_storage_offset_alignment;
    program.tensors[i].alignment_name = "minStorageBufferOffsetAlignment";
  }
}

std::size_t block_mask_index() {
  return tensor_table().size() + kMaxScoreBuffers;
}

void bind_tensors(const LayoutRequest& request, const ForwardLayout& layout, const PlannedWindow& window,
                  std::vector<ProgramBinding>& bindings) {
  const std::span<const TensorRow> table = tensor_table();
  for (std::size_t i = 0; i < table.size(); ++i) {
    const TensorRow& row = table[i];
    if (!row.is_used(request.desc)) continue;
    const TensorWindow& part = window.tensors[row.binding];
    if (part.bytes == 0) continue;
    ProgramBinding& binding = bindings[row.binding];
    binding.from = ProgramBinding::From::kTensor;
    binding.index = static_cast<std::uint32_t>(i);
    binding.first_byte = static_cast<std::uint64_t>(part.first_byte);
    binding.bytes = static_cast<std::uint64_t>(part.bytes);
    binding.unit_bytes = offset_unit_bytes(row.storage(request.desc));
    binding.to_end = row.use.written && part.bytes == layout.whole[row.binding].bytes;
  }
}

void bind_area(const WorkspaceArea& area, ProgramBinding& binding) {
  if (area.bytes == 0) return;
  binding.from = ProgramBinding::From::kWorkspace;
  binding.workspace_byte = area.offset;
  binding.bytes = area.bytes;
}

void bind_features(const PlannedWindow& window, const PlanOptions& options,
                   std::vector<ProgramBinding>& bindings) {
  bindings[VKATTN_BINDING_FEATURE_PARAMS].from = ProgramBinding::From::kParameters;
  bind_area(window.lse, bindings[VKATTN_BINDING_LSE]);
  if (window.block_mask.bytes != 0) {
    ProgramBinding& mask = bindings[VKATTN_BINDING_BLOCK_MASK];
    bind_area(window.block_mask, mask);
    mask.from = ProgramBinding::From::kTensorOrWorkspace;
    mask.index = static_cast<std::uint32_t>(block_mask_index());
    mask.first_byte = window.kept_mask_byte;
    mask.exact = true;
  }
  const std::size_t tables = options.score_function ? options.score_function->buffers().size() : 0;
  for (std::size_t i = 0; i < tables; ++i) {
    ProgramBinding& table = bindings[VKATTN_BINDING_USER + i];
    table.from = ProgramBinding::From::kTensor;
    table.index = static_cast<std::uint32_t>(tensor_table().size() + i);
    table.exact = true;
  }
}

// The query stands in for inputs and the output for what is written, so that no buffer is both read and
// written in the eyes of synchronization validation.
std::uint32_t stand_in(std::size_t binding) {
  const bool written = binding == VKATTN_BINDING_LSE || binding == VKATTN_BINDING_PARTIALS ||
                       binding == VKATTN_BINDING_WEIGHTS;
  return written ? VKATTN_BINDING_OUTPUT : VKATTN_BINDING_QUERY;
}

template <class Params>
std::vector<std::byte> bytes_of(const Params& params) {
  std::vector<std::byte> bytes(sizeof(params));
  std::memcpy(bytes.data(), &params, sizeof(params));
  return bytes;
}

ProgramSet program_set(const LayoutRequest& request, const ForwardLayout& layout, const PlannedWindow& window,
                       const PlanOptions& options) {
  ProgramSet set;
  set.bindings.resize(binding_count(request.desc));
  for (std::size_t i = 0; i < set.bindings.size(); ++i) set.bindings[i].index = stand_in(i);
  bind_tensors(request, layout, window, set.bindings);
  bind_area(window.partials, set.bindings[VKATTN_BINDING_PARTIALS]);
  set.push_constants = bytes_of(window_params(request.desc, layout.split, window.window));
  if (!has_features(request.desc)) return set;
  bind_features(window, options, set.bindings);
  set.parameters = bytes_of(window_feature_params(request.desc, window));
  set.parameters_byte = window.feature_params.offset;
  return set;
}

void add_words(const AttentionDesc& desc, ProgramDesc& program) {
  for (const TensorRow& row : tensor_table()) {
    if (!row.is_used(desc)) continue;
    auto& words = row.offset.in_push_constants ? program.push_offsets : program.parameter_offsets;
    words.push_back({row.binding, row.offset.byte});
  }
  if (!has_features(desc)) return;
  program.call_words = {{kSeedLow, offsetof(FeatureParams, dropout_seed_low)},
                        {kSeedHigh, offsetof(FeatureParams, dropout_seed_high)},
                        {kDropoutOffset, offsetof(FeatureParams, dropout_offset)}};
}

// --- Dispatches ---

// A guess, low on purpose: it bounds how long a dispatch may take, and is never shown as a speed.
double assumed_flops_per_ns(const Capabilities& capabilities, std::string_view kernel) {
  const double device = capabilities.device_type == VK_PHYSICAL_DEVICE_TYPE_DISCRETE_GPU ? 400.0 : 50.0;
  return kernel == "lane" || kernel == "unfused" ? device / 4 : device;
}

// Units that one dispatch may have by the time limit.
std::uint64_t most_units(const Capabilities& capabilities, const PlanOptions& options, double unit_ns) {
  if (capabilities.is_cpu() || unit_ns <= 0) return ~std::uint64_t{0};
  const double allowed = std::floor(static_cast<double>(options.max_dispatch_ns) / unit_ns);
  return static_cast<std::uint64_t>(std::clamp(allowed, 1.0, 2.0e9));
}

/// Units of a pass over a window, and what one takes.
struct PassWork {
  std::uint64_t units = 0;
  double unit_ns = 0;
};

PassWork pass_work(const LayoutRequest& request, const ForwardLayout& layout, const PassConfig& pass,
                   bool is_kernel, const PlannedWindow& window) {
  const AttentionDesc& desc = request.desc;
  const KernelConfig& kernel = request.config;
  const Window& w = window.window;
  const std::int64_t tile_keys = most_visible_keys(desc, kernel.rows_per_workgroup);
  const double tile_flops = 2.0 * kernel.rows_per_workgroup * static_cast<double>(tile_keys) *
                            static_cast<double>(desc.head_dim + desc.value_dim);
  const double tile_ns = tile_flops / assumed_flops_per_ns(request.capabilities, kernel.name);
  const auto tiles = static_cast<std::uint64_t>(row_tiles(request, w));
  if (is_kernel) {
    return {tiles * static_cast<std::uint64_t>(window_parts(layout.split, w)),
            tile_ns / static_cast<double>(layout.split.splits)};
  }
  if (w.first_key != 0) return {};  // once for all parts of the keys
  // Other passes share nothing between rows, so they are no faster than the kernel that does not either.
  const double ns = pass.workgroup_flops / assumed_flops_per_ns(request.capabilities, "lane");
  switch (pass.unit) {
    case PassUnit::kTiles:  // about half of the kernel's work
      return {tiles, tile_ns / 2};
    case PassUnit::kRows:
      return {static_cast<std::uint64_t>(w.batch) * static_cast<std::uint64_t>(w.heads) *
                  static_cast<std::uint64_t>(w.rows),
              ns};
    case PassUnit::kBlocks:
      break;
  }
  return {
      static_cast<std::uint64_t>(divide_up(window.blocks.count(), std::int64_t{pass.units_per_workgroup})),
      ns};
}

}  // namespace

Result<std::span<const std::uint32_t>> shader_words(const PlanOptions& options, std::string_view shader) {
  if (options.score_function) return options.score_function->binary(shader);
  return built_shader(shader_binaries(), shader);
}

Result<ProgramDesc> forward_program(const LayoutRequest& request, const ForwardLayout& layout,
                                    const PlanOptions& options, std::uint32_t& kernel_pass) {
  const auto passes = list_passes(request, layout, options, kernel_pass);
  ProgramDesc program;
  program.binding_count = binding_count(request.desc);
  program.push_constant_bytes = sizeof(AttentionParams);
  program.units_byte = offsetof(AttentionParams, first_tile);
  program.workspace_bytes = layout.workspace_bytes;
  add_tensors(request, layout, options, program);
  add_words(request.desc, program);
  for (const PlannedWindow& window : layout.windows) {
    program.sets.push_back(program_set(request, layout, window, options));
  }
  for (std::uint32_t i = 0; i < passes.size(); ++i) {
    const PlannedPass& planned = passes[i];
    auto pass = program_pass(request.desc, planned, options);
    if (!pass) return pass.error();
    program.passes.push_back(*std::move(pass));
    for (std::uint32_t w = 0; w < layout.windows.size(); ++w) {
      const PassWork work = pass_work(request, layout, planned.config, i == kernel_pass, layout.windows[w]);
      add_steps(program, i, w, work.units,
                {1, most_units(request.capabilities, options, work.unit_ns), work.unit_ns},
                request.capabilities);
    }
  }
  return program;
}

ForwardCall::ForwardCall(const AttentionTensors& tensors) noexcept
    : words{static_cast<std::uint32_t>(tensors.dropout_seed),
            static_cast<std::uint32_t>(tensors.dropout_seed >> 32U), tensors.dropout_offset} {
  for (const TensorRow& row : tensor_table()) ranges[count++] = tensors.*row.range;
  for (const BufferRange& range : tensors.score_buffers) ranges[count++] = range;
  ranges[count++] = tensors.block_mask;
}

}  // namespace vkattn::detail
