// One buffer for all small tensors: see gather.hpp.
#include "forward/gather.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstring>
#include <utility>

#include "attention/features.hpp"
#include "attention/params.hpp"
#include "attention/tensor_table.hpp"
#include "common/checked.hpp"
#include "common/integers.hpp"
#include "forward/attention_program.hpp"
#include "vkattn_core_shaders.hpp"
#include "vulkan/shader_code.hpp"

namespace vkattn::detail {

namespace shared {
#include "shared/gather_params.h"
}  // namespace shared
using shared::GatherParams;

static_assert(offsetof(GatherParams, unit_count) == offsetof(GatherParams, first_unit) + 4,
              "ProgramLayout::units_byte");
static_assert(VKATTN_GATHER_BINDING_COUNT <= kMostBindings);

namespace {

/// Invocations of a workgroup of the pass that copies, and operations that a word stands for.
constexpr std::uint32_t kGatherWorkgroup = 64;
constexpr double kWordFlops = 16;

// The mask may be large, so it stays where it is if there is a buffer for it.
bool binds_mask(const LayoutRequest& request) {
  const bool has_mask = request.desc.mask.type != MaskType::kNone;
  return has_mask && request.capabilities.max_stage_storage_buffers > fewest_storage_buffers(request.desc);
}

bool is_copied(const LayoutRequest& request, const TensorRow& row) {
  const bool is_large = row.binding == VKATTN_BINDING_QUERY || row.binding == VKATTN_BINDING_KEY ||
                        row.binding == VKATTN_BINDING_VALUE;
  if (is_large || row.use.written || !row.is_used(request.desc)) return false;
  return row.binding != VKATTN_BINDING_MASK || !binds_mask(request);
}

// Bindings with storage buffers of their own: those of the kernel, of the combine pass and of the weights.
std::array<std::vector<std::uint32_t>, 3> bound_by_passes(const LayoutRequest& request) {
  const AttentionDesc& desc = request.desc;
  std::array<std::vector<std::uint32_t>, 3> bound{
      {{VKATTN_BINDING_QUERY, VKATTN_BINDING_KEY, VKATTN_BINDING_VALUE, VKATTN_BINDING_PARTIALS},
       {VKATTN_BINDING_OUTPUT, VKATTN_BINDING_PARTIALS},
       {VKATTN_BINDING_QUERY, VKATTN_BINDING_KEY, VKATTN_BINDING_PARTIALS, VKATTN_BINDING_WEIGHTS}}};
  auto& [kernel, combine, weights] = bound;
  if (desc.has_lse) combine.push_back(VKATTN_BINDING_LSE);
  if (desc.has_lse && needs_row_lse(desc)) weights.push_back(VKATTN_BINDING_LSE);
  for (auto* const scores : {&kernel, &weights}) {
    if (binds_mask(request)) scores->push_back(VKATTN_BINDING_MASK);
    for (std::uint32_t i = 0; i < score_buffers(desc); ++i) scores->push_back(VKATTN_BINDING_USER + i);
  }
  for (auto& bindings : bound) std::ranges::sort(bindings);
  return bound;
}

// Adds a place to the word of the tensor's offset.
void add_place(const GatheredPlace& place, ProgramSet& set) {
  const auto row = std::ranges::find_if(tensor_table(),
                                        [&](const TensorRow& each) { return each.binding == place.binding; });
  if (row == tensor_table().end()) return;  // the parameters, which begin the buffer
  std::byte* const word =
      (row->offset.in_push_constants ? set.push_constants : set.parameters).data() + row->offset.byte;
  std::uint32_t offset = 0;
  std::memcpy(&offset, word, sizeof(offset));
  offset += static_cast<std::uint32_t>(place.byte / set.bindings[place.binding].unit_bytes);
  std::memcpy(word, &offset, sizeof(offset));
}

ProgramLayout gather_layout(const ProgramLayout& kernels) {
  ProgramLayout layout;
  layout.binding_count = VKATTN_GATHER_BINDING_COUNT;
  layout.bound = {VKATTN_BINDING_GATHER_SOURCE, VKATTN_BINDING_GATHER_TARGET};
  layout.shared = VKATTN_BINDING_GATHER_TARGET;
  layout.push_constant_bytes = sizeof(GatherParams);
  layout.units_byte = offsetof(GatherParams, first_unit);
  layout.push_offsets = {{VKATTN_BINDING_GATHER_SOURCE, offsetof(GatherParams, source_offset)}};
  layout.parameter_offsets = kernels.parameter_offsets;
  layout.call_words = kernels.call_words;
  return layout;
}

// A set that copies one source of a kernel's set, which has its parameters still.
ProgramSet gather_set(const GatheredPlace& place, const ProgramSet& kernels, std::uint32_t layout) {
  ProgramSet set = kernels;
  set.layout = layout;
  set.bindings.resize(VKATTN_GATHER_BINDING_COUNT);
  ProgramBinding& source = set.bindings[VKATTN_BINDING_GATHER_SOURCE];
  source = kernels.bindings[place.binding];
  source.unit_bytes = 1;
  set.bindings[VKATTN_BINDING_GATHER_TARGET] = kernels.bindings[VKATTN_BINDING_PARTIALS];
  if (source.from != ProgramBinding::From::kParameters) set.parameters.clear();
  GatherParams params{};
  params.source_bytes = static_cast<std::uint32_t>(place.source_bytes);
  params.target_word = static_cast<std::uint32_t>(place.byte / 4);
  set.push_constants = bytes_of(params);
  return set;
}

Result<ProgramPass> gather_pass(std::uint32_t layout) {
  ProgramPass pass;
  pass.name = "gather";
  pass.shader = "attention_gather";
  const auto code = built_shader(shader_binaries(), pass.shader);
  if (!code) return code.error();
  pass.code = *code;
  pass.specialization = {{VKATTN_SPEC_WORKGROUP_SIZE, kGatherWorkgroup}};
  pass.workgroup_size = kGatherWorkgroup;
  pass.layout = layout;
  return pass;
}

}  // namespace

std::uint32_t first_partial(const LayoutRequest& request) {
  if (!has_features(request.desc)) return 0;
  const std::uint64_t bytes = round_up(sizeof(FeatureParams), binding_alignment(request.capabilities));
  return static_cast<std::uint32_t>(bytes / 4);
}

GatheredBuffer gathered_buffer(const LayoutRequest& request, const KvSplit& split, const Window& window) {
  const AttentionDesc& desc = request.desc;
  const std::uint64_t alignment = binding_alignment(request.capabilities);
  const std::int64_t rows = workspace_rows(desc, window);
  const std::int64_t row_bytes = 4 * split.splits * (desc.value_dim + 1);
  GatheredBuffer buffer;
  if (has_features(desc)) buffer.places.push_back({VKATTN_BINDING_FEATURE_PARAMS, 0, sizeof(FeatureParams)});
  buffer.bytes = std::uint64_t{4} * first_partial(request);
  buffer.bytes += static_cast<std::uint64_t>(saturating_multiply(rows, row_bytes));
  if (needs_row_lse(desc) && !desc.has_lse) {
    buffer.places.push_back({VKATTN_BINDING_LSE, buffer.bytes});
    buffer.bytes += 4 * static_cast<std::uint64_t>(rows);
  }
  for (const TensorRow& row : tensor_table()) {
    if (!is_copied(request, row)) continue;
    const auto bytes = static_cast<std::uint64_t>(tensor_window(row, desc, window).bytes);
    if (bytes == 0) continue;
    buffer.bytes = round_up(buffer.bytes, alignment);
    buffer.places.push_back({row.binding, buffer.bytes, bytes});
    // The copy is as far from there as the source from its descriptor, and of whole words.
    buffer.bytes += alignment + round_up(bytes, std::uint64_t{4});
  }
  return buffer;
}

Result<void> add_gathering(const LayoutRequest& request, const ForwardLayout& layout, std::uint32_t passes,
                           ProgramDesc& program) {
  const auto bound = bound_by_passes(request);
  std::vector<ProgramSet> windows = std::exchange(program.sets, {});
  const ProgramLayout kernels = std::exchange(program.layouts, {}).front();
  std::vector<GatheredBuffer> buffers;
  for (std::size_t w = 0; w < windows.size(); ++w) {
    buffers.push_back(gathered_buffer(request, layout.split, layout.windows[w].window));
    for (const GatheredPlace& place : buffers.back().places) add_place(place, windows[w]);
  }
  for (std::uint32_t pass = 0; pass < passes; ++pass) {
    program.layouts.push_back(kernels);
    program.layouts.back().bound = bound[pass];
    program.layouts.back().shared = VKATTN_BINDING_PARTIALS;
    for (ProgramSet set : windows) {
      set.layout = pass;
      set.parameters.clear();
      program.sets.push_back(std::move(set));
    }
  }
  const double word_ns = kWordFlops / assumed_flops_per_ns(request.capabilities);
  UnitLimits limits = dispatch_limits(request.capabilities, request.options.max_dispatch_ns, word_ns);
  limits.units_per_group = kGatherWorkgroup;
  for (std::size_t w = 0; w < windows.size(); ++w) {
    if (layout.windows[w].window.first_key != 0) continue;  // has the buffer of the window before
    for (const GatheredPlace& place : buffers[w].places) {
      if (place.source_bytes == 0) continue;
      if (program.passes.empty()) {
        auto pass = gather_pass(passes);
        if (!pass) return pass.error();
        program.passes.push_back(*std::move(pass));
        program.layouts.push_back(gather_layout(kernels));
      }
      const auto set = static_cast<std::uint32_t>(program.sets.size());
      program.sets.push_back(gather_set(place, windows[w], passes));
      add_steps(program, 0, set, place.source_bytes / 4 + 2, limits, request.capabilities);
    }
  }
  return {};
}

}  // namespace vkattn::detail
