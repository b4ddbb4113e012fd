// Conversions from C: see convert.hpp.
#include "c/convert.hpp"

#include <array>
#include <cmath>
#include <limits>
#include <optional>

#include "c/handles.hpp"

namespace vkattn::c {

namespace {

constexpr vkattn_tensor kTensorCount = VKATTN_TENSOR_PART_LSE + 1;

std::optional<Strides> strides(const vkattn_strides* given) {
  if (given == nullptr) return std::nullopt;
  return Strides{given->batch, given->head, given->row, given->dim};
}

const char* text(const char* given) {
  return given != nullptr ? given : "";
}

/// Reads enumerators that the caller may have set to any number; the first that does not exist is kept.
class Enums {
 public:
  template <class Enum>
  [[nodiscard]] Enum read(std::uint32_t number, Enum last, const char* name) {
    const auto most = static_cast<std::uint32_t>(last);
    if (number <= most) return static_cast<Enum>(number);
    if (!wrong_) wrong_ = invalid(detail::message(name, " is ", number, "; the largest there is is ", most));
    return Enum{};
  }
  [[nodiscard]] TensorDesc tensor(const vkattn_tensor_desc& given, const char* name) {
    return {read(given.type, DataType::kFloat8E4m3, name), strides(given.strides), given.alignment_bytes};
  }
  [[nodiscard]] CacheLayout cache(const vkattn_cache_layout& given) {
    return {read(given.mapping, KeyMapping::kPaged, "cache.mapping"), given.ring_length, given.page_size,
            given.page_count, given.page_table_stride};
  }

  [[nodiscard]] const std::optional<Error>& wrong() const { return wrong_; }

 private:
  std::optional<Error> wrong_;
};

using A = AttentionTensors;
using P = AppendTensors;
using M = MergeTensors;

constexpr std::array<TensorMembers, kTensorCount> kMembers{{
    {VKATTN_TENSOR_QUERY, &A::query, &P::query, nullptr},
    {VKATTN_TENSOR_KEY, &A::key, &P::key, nullptr},
    {VKATTN_TENSOR_VALUE, &A::value, &P::value, nullptr},
    {VKATTN_TENSOR_OUTPUT, &A::output, nullptr, &M::output},
    {VKATTN_TENSOR_LSE, &A::lse, nullptr, &M::lse},
    {VKATTN_TENSOR_KV_LENGTHS, &A::kv_lengths, &P::kv_lengths, nullptr},
    {VKATTN_TENSOR_QUERY_LENGTHS, &A::query_lengths, nullptr, nullptr},
    {VKATTN_TENSOR_CUMULATIVE_QUERY_LENGTHS, &A::cumulative_query_lengths, nullptr, nullptr},
    {VKATTN_TENSOR_CUMULATIVE_KV_LENGTHS, &A::cumulative_kv_lengths, nullptr, nullptr},
    {VKATTN_TENSOR_PAGE_TABLE, &A::page_table, &P::page_table, nullptr},
    {VKATTN_TENSOR_KEY_SCALES, &A::key_scales, &P::key_scales, nullptr},
    {VKATTN_TENSOR_VALUE_SCALES, &A::value_scales, &P::value_scales, nullptr},
    {VKATTN_TENSOR_MASK, &A::mask, nullptr, nullptr},
    {VKATTN_TENSOR_ALIBI_SLOPES, &A::alibi_slopes, nullptr, nullptr},
    {VKATTN_TENSOR_SINKS, &A::sinks, nullptr, nullptr},
    {VKATTN_TENSOR_WEIGHTS, &A::weights, nullptr, nullptr},
    {VKATTN_TENSOR_BLOCK_MASK, &A::block_mask, nullptr, nullptr},
    {VKATTN_TENSOR_QUERY_OUTPUT, nullptr, &P::query_output, nullptr},
    {VKATTN_TENSOR_CACHE_KEY, nullptr, &P::cache_key, nullptr},
    {VKATTN_TENSOR_CACHE_VALUE, nullptr, &P::cache_value, nullptr},
    {VKATTN_TENSOR_POSITIONS, nullptr, &P::positions, nullptr},
    {VKATTN_TENSOR_NEW_LENGTHS, nullptr, &P::new_lengths, nullptr},
    {VKATTN_TENSOR_CUMULATIVE_NEW_LENGTHS, nullptr, &P::cumulative_new_lengths, nullptr},
    {VKATTN_TENSOR_FREQUENCIES, nullptr, &P::frequencies, nullptr},
    {VKATTN_TENSOR_PARTS, nullptr, nullptr, &M::parts},
    {VKATTN_TENSOR_PART_LSE, nullptr, nullptr, &M::part_lse},
}};

// Of a kind of plan; `member` is its pointer in TensorMembers.
template <class Tensors, class Member>
Result<Tensors> bound_tensors(const vkattn_execution& given, Member member, const char* kind) {
  Tensors tensors;
  std::array<bool, kTensorCount> seen{};
  if (given.tensor_count != 0 && given.tensors == nullptr) {
    return invalid(
        detail::message("vkattn_execution::tensors is null and tensor_count is ", given.tensor_count));
  }
  for (const vkattn_binding& binding : std::span(given.tensors, given.tensor_count)) {
    if (binding.tensor >= kTensorCount || kMembers[binding.tensor].*member == nullptr) {
      return invalid(detail::message("there is no tensor ", binding.tensor, " of ", kind));
    }
    if (seen[binding.tensor]) return invalid(detail::message("tensor ", binding.tensor, " is bound twice"));
    seen[binding.tensor] = true;
    tensors.*(kMembers[binding.tensor].*member) = {binding.buffer, binding.offset, binding.size};
  }
  return tensors;
}

}  // namespace

std::span<const TensorMembers> tensor_members() {
  return kMembers;
}

Result<AttentionDesc> attention_desc(const vkattn_attention_desc* given) {
  const auto read_desc = read(given, vkattn_attention_desc_init, "vkattn_attention_desc");
  if (!read_desc) return read_desc.error();
  const vkattn_attention_desc& c = *read_desc;
  Enums enums;
  AttentionDesc desc;
  desc.batch = c.batch;
  desc.query_heads = c.query_heads;
  desc.kv_heads = c.kv_heads;
  desc.query_length = c.query_length;
  desc.kv_length = c.kv_length;
  desc.head_dim = c.head_dim;
  desc.value_dim = c.value_dim;
  desc.layout = enums.read(c.layout, Layout::kPackedQkv, "layout");
  desc.query = enums.tensor(c.query, "query.type");
  desc.key = enums.tensor(c.key, "key.type");
  desc.value = enums.tensor(c.value, "value.type");
  desc.output = enums.tensor(c.output, "output.type");
  if (!std::isnan(c.scale)) desc.scale = c.scale;
  desc.causal = c.causal != 0;
  desc.align = enums.read(c.align, Align::kOffset, "align");
  desc.offset = c.offset;
  desc.query_lengths = enums.read(c.query_lengths, Lengths::kPacked, "query_lengths");
  desc.kv_lengths = enums.read(c.kv_lengths, Lengths::kPacked, "kv_lengths");
  desc.total_query_length = c.total_query_length;
  desc.total_kv_length = c.total_kv_length;
  desc.cache = enums.cache(c.cache);
  desc.softcap = c.softcap;
  desc.mask = {enums.read(c.mask, MaskType::kBits, "mask"), strides(c.mask_strides)};
  desc.window = {c.window_left, c.window_right};
  desc.alibi = enums.read(c.alibi, Alibi::kGiven, "alibi");
  desc.has_sinks = c.has_sinks != 0;
  desc.dropout = c.dropout;
  desc.has_lse = c.has_lse != 0;
  desc.lse_strides = strides(c.lse_strides);
  desc.weights = enums.read(c.weights, WeightsStage::kProbabilities, "weights");
  desc.weights_strides = strides(c.weights_strides);
  if (c.score_function != nullptr) desc.score_function = c.score_function->shaders;
  if (enums.wrong()) return *enums.wrong();
  return desc;
}

Result<AppendDesc> append_desc(const vkattn_append_desc* given) {
  const auto read_desc = read(given, vkattn_append_desc_init, "vkattn_append_desc");
  if (!read_desc) return read_desc.error();
  const vkattn_append_desc& c = *read_desc;
  Enums enums;
  AppendDesc desc;
  desc.batch = c.batch;
  desc.query_heads = c.query_heads;
  desc.kv_heads = c.kv_heads;
  desc.new_length = c.new_length;
  desc.head_dim = c.head_dim;
  desc.value_dim = c.value_dim;
  desc.layout = enums.read(c.layout, Layout::kPackedQkv, "layout");
  desc.query = enums.tensor(c.query, "query.type");
  desc.key = enums.tensor(c.key, "key.type");
  desc.value = enums.tensor(c.value, "value.type");
  desc.query_output = enums.tensor(c.query_output, "query_output.type");
  desc.cache_key = enums.tensor(c.cache_key, "cache_key.type");
  desc.cache_value = enums.tensor(c.cache_value, "cache_value.type");
  desc.cache = enums.cache(c.cache);
  desc.cache_length = c.cache_length;
  desc.has_positions = c.has_positions != 0;
  desc.position = c.position;
  desc.new_lengths = enums.read(c.new_lengths, Lengths::kPacked, "new_lengths");
  desc.total_new_length = c.total_new_length;
  desc.writes_kv_lengths = c.writes_kv_lengths != 0;
  desc.rotary.style = enums.read(c.rotary_style, RotaryStyle::kHalfSplit, "rotary_style");
  desc.rotary.dims = c.rotary_dims;
  desc.rotary.base = c.rotary_base;
  desc.rotary.position_scale = c.rotary_position_scale;
  desc.rotary.has_frequencies = c.rotary_has_frequencies != 0;
  desc.rotary.magnitude = c.rotary_magnitude;
  if (enums.wrong()) return *enums.wrong();
  return desc;
}

Result<MergeDesc> merge_desc(const vkattn_merge_desc* given) {
  const auto c = read(given, vkattn_merge_desc_init, "vkattn_merge_desc");
  if (!c) return c.error();
  Enums enums;
  MergeDesc desc;
  desc.rows = c->rows;
  desc.value_dim = c->value_dim;
  desc.parts = c->parts;
  desc.part_type = enums.read(c->part_type, DataType::kFloat8E4m3, "part_type");
  desc.output_type = enums.read(c->output_type, DataType::kFloat8E4m3, "output_type");
  desc.has_lse = c->has_lse != 0;
  if (enums.wrong()) return *enums.wrong();
  return desc;
}

Result<vkattn_plan_options> plan_options(const vkattn_plan_options* given) {
  vkattn_plan_options options;
  vkattn_plan_options_init(&options);
  if (given == nullptr) return options;
  auto copy = read(given, vkattn_plan_options_init, "vkattn_plan_options");
  if (copy && copy->refusal_count != 0 && copy->refusals == nullptr) {
    return invalid(
        detail::message("vkattn_plan_options::refusals is null and refusal_count is ", copy->refusal_count));
  }
  return copy;
}

PlanOptions attention_options(const vkattn_plan_options& given) {
  PlanOptions options;
  if (given.kernel != nullptr) options.kernel = given.kernel;
  options.pipeline_cache = given.pipeline_cache;
  options.max_dispatch_ns = given.max_dispatch_ns;
  options.kv_splits = given.kv_splits;
  options.capture_statistics = given.capture_statistics != 0;
  if (given.tile != nullptr) {
    const vkattn_tile_sizes& tile = *given.tile;
    options.tile = TileSizes{tile.threads, tile.subgroups, tile.columns, tile.rows, tile.keys, tile.dims};
  }
  options.strict_nonfinite = given.strict_nonfinite != 0;
  options.push_descriptors = given.push_descriptors != 0;
  options.deferred_compilation = given.deferred_compilation != 0;
  for (const vkattn_kernel_refusal& refusal : std::span(given.refusals, given.refusal_count)) {
    options.refusals.push_back({text(refusal.kernel), text(refusal.reason)});
  }
  return options;
}

AppendOptions append_options(const vkattn_plan_options& given) {
  AppendOptions options;
  options.pipeline_cache = given.pipeline_cache;
  options.push_descriptors = given.push_descriptors != 0;
  options.deferred_compilation = given.deferred_compilation != 0;
  return options;
}

MergeOptions merge_options(const vkattn_plan_options& given) {
  return {given.pipeline_cache, given.push_descriptors != 0, given.deferred_compilation != 0};
}

Result<RecordOptions> record_options(const vkattn_record_options* given) {
  if (given == nullptr) return RecordOptions{};
  const auto c = read(given, vkattn_record_options_init, "vkattn_record_options");
  if (!c) return c.error();
  return RecordOptions{c->first_dispatch, c->dispatch_count, c->wait_for_earlier != 0};
}

Result<vkattn_execution> execution(const vkattn_execution* given) {
  return read(given, vkattn_execution_init, "vkattn_execution");
}

Result<AttentionTensors> attention_tensors(const vkattn_execution& given) {
  auto tensors = bound_tensors<AttentionTensors>(given, &TensorMembers::attention, "attention");
  if (!tensors) return tensors;
  tensors->block_mask_complete = given.block_mask_complete != 0;
  tensors->dropout_seed = given.dropout_seed;
  tensors->dropout_offset = given.dropout_offset;
  if (given.score_buffer_count > kMaxScoreBuffers ||
      (given.score_buffer_count != 0 && !given.score_buffers)) {
    return invalid(detail::message("vkattn_execution::score_buffer_count is ", given.score_buffer_count,
                                   given.score_buffers ? "; the most there can be is " : " and there are ",
                                   given.score_buffers ? kMaxScoreBuffers : 0));
  }
  for (std::uint32_t i = 0; i < given.score_buffer_count; ++i) {
    const vkattn_binding& binding = given.score_buffers[i];
    tensors->score_buffers[i] = {binding.buffer, binding.offset, binding.size};
  }
  return tensors;
}

Result<AppendTensors> append_tensors(const vkattn_execution& given) {
  return bound_tensors<AppendTensors>(given, &TensorMembers::append, "an append");
}

Result<MergeTensors> merge_tensors(const vkattn_execution& given) {
  return bound_tensors<MergeTensors>(given, &TensorMembers::merge, "a merge");
}

}  // namespace vkattn::c
