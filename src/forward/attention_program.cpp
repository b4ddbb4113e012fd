// The common part of all programs of attention: see attention_program.hpp.
#include "forward/attention_program.hpp"

#include <vkattn/score_shaders.hpp>

#include <algorithm>
#include <span>
#include <utility>

#include "attention/features.hpp"
#include "attention/params.hpp"
#include "attention/tensor_table.hpp"
#include "operation/own_addresses.hpp"
#include "operation/table_tensors.hpp"
#include "program/bound_set.hpp"

namespace vkattn::detail {

namespace {

static_assert(VKATTN_FEATURE_BINDING_COUNT <= kMostBindings);
static_assert(sizeof(AttentionParams) <= kMostPushConstantBytes);
static_assert(sizeof(FeatureParams) <= kMostParameterBytes);
static_assert(offsetof(AttentionParams, tile_count) == offsetof(AttentionParams, first_tile) + 4,
              "ProgramLayout::units_byte");

// The query stands in for inputs, and the output for written tensors, so that synchronization validation sees
// no buffer that is both read and written.
std::uint32_t stand_in(std::size_t binding) {
  const bool written = binding == VKATTN_BINDING_LSE || binding == VKATTN_BINDING_PARTIALS ||
                       binding == VKATTN_BINDING_WEIGHTS;
  return written ? VKATTN_BINDING_OUTPUT : VKATTN_BINDING_QUERY;
}

}  // namespace

ProgramDesc attention_program(const AttentionDesc& desc, const TensorWindows& whole) {
  ProgramDesc program;
  program.layout().binding_count = binding_count(desc);
  program.layout().push_constant_bytes = sizeof(AttentionParams);
  program.layout().units_byte = offsetof(AttentionParams, first_tile);
  const std::span<const TensorRow> table = tensor_table();
  program.tensors.reserve(table.size() + kMaxScoreBuffers + 1);  // which forward_program() adds
  program.layout().push_offsets.reserve(table.size());
  for (const TensorRow& row : table) {
    program.tensors.push_back(program_tensor(row, desc));
    if (!row.is_used(desc)) continue;
    // A mask of packed queries may have fewer rows than the longest sequence.
    program.tensors.back().bytes = static_cast<std::uint64_t>(whole[row.binding].bytes);
    add_offset_word(row, program);
  }
  return program;
}

std::vector<ProgramBinding> window_bindings(const AttentionDesc& desc, const TensorWindows& whole,
                                            const TensorWindows& parts) {
  std::vector<ProgramBinding> bindings(binding_count(desc));
  for (std::size_t i = 0; i < bindings.size(); ++i) bindings[i].index = stand_in(i);
  const std::span<const TensorRow> table = tensor_table();
  for (std::size_t i = 0; i < table.size(); ++i) {
    const TensorRow& row = table[i];
    if (!row.is_used(desc)) continue;
    const TensorWindow& part = parts[row.binding];
    if (part.bytes == 0) continue;
    ProgramBinding& binding = bindings[row.binding];
    binding.from = ProgramBinding::From::kTensor;
    binding.index = static_cast<std::uint32_t>(i);
    binding.first_byte = static_cast<std::uint64_t>(part.first_byte);
    binding.bytes = static_cast<std::uint64_t>(part.bytes);
    binding.unit_bytes = offset_unit_bytes(row.storage(desc));
    binding.to_end = row.use.written && part.bytes == whole[row.binding].bytes;
  }
  return bindings;
}

void bind_area(const WorkspaceArea& area, ProgramBinding& binding) {
  if (area.bytes == 0) return;
  binding.from = ProgramBinding::From::kWorkspace;
  binding.workspace_byte = area.offset;
  binding.bytes = area.bytes;
}

ProgramPass configured_pass(const PassConfig& config, const ShaderCode& code, SpecializationValues values) {
  ProgramPass pass;
  pass.name = config.name;
  pass.shader = config.shader;
  pass.code = code;
  pass.specialization = std::move(values);
  pass.workgroup_size = config.workgroup_size;
  pass.required_subgroup_size = config.required_subgroup_size;
  pass.by_address = config.by_address;
  pass.barrier = kAfterPasses;
  return pass;
}

void add_addresses(std::span<const std::uint32_t> bindings, ProgramLayout& layout) {
  for (const std::uint32_t binding : bindings) {
    const auto has = [&](const AddressWord& word) { return word.binding == binding; };
    if (std::ranges::none_of(layout.push_addresses, has)) add_address(binding, layout);
  }
}

DropoutWords dropout_words(const AttentionTensors& tensors) noexcept {
  return {static_cast<std::uint32_t>(tensors.dropout_seed),
          static_cast<std::uint32_t>(tensors.dropout_seed >> 32U), tensors.dropout_offset};
}

void add_dropout_words(ProgramDesc& program) {
  program.layout().call_words = {{0, offsetof(FeatureParams, dropout_seed_low)},
                                 {1, offsetof(FeatureParams, dropout_seed_high)},
                                 {2, offsetof(FeatureParams, dropout_offset)}};
}

}  // namespace vkattn::detail
