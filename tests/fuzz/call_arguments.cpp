// Arguments drawn from an input: see call_arguments.hpp.
#include "fuzz/call_arguments.hpp"

#include <cmath>

#include "support/initial.hpp"

namespace vkattn::fuzz {

using tests::initial;

namespace {

constexpr vkattn_tensor kLastTensor = VKATTN_TENSOR_GRAD_OUT_PROJ_BIAS;

}  // namespace

FakeSettings CallArguments::device() {
  constexpr std::uint32_t kSubgroups[][2] = {{32, 32}, {64, 64}, {32, 64}, {8, 32}, {4, 4}, {1, 1}};
  constexpr std::uint32_t kBuffers[] = {16, 4, 5, 8, 1U << 20U};
  constexpr std::uint32_t kRanges[] = {1U << 27U, 1U << 30U, ~0U, (1U << 27U) + 4};
  constexpr std::uint32_t kVersions[] = {VK_API_VERSION_1_3, VK_API_VERSION_1_1, VK_API_VERSION_1_2};
  constexpr VkPhysicalDeviceType kTypes[] = {VK_PHYSICAL_DEVICE_TYPE_DISCRETE_GPU,
                                             VK_PHYSICAL_DEVICE_TYPE_CPU,
                                             VK_PHYSICAL_DEVICE_TYPE_INTEGRATED_GPU};
  FakeSettings settings;
  settings.type = kTypes[choice(2)];
  settings.api_version = kVersions[choice(2)];
  settings.features = !rarely();
  const auto& subgroup = kSubgroups[choice(5)];
  settings.min_subgroup = subgroup[0];
  settings.max_subgroup = subgroup[1];
  settings.invocations = flag() ? 128U << choice(3) : 1024;
  settings.shared_bytes = 16384U << choice(2);
  settings.storage_buffers = kBuffers[choice(4)];
  settings.groups = flag() ? ~0U >> 1U : 65535;
  settings.range = kRanges[choice(3)];
  settings.offset_alignment = 256U >> choice(8);
  settings.fails_at = rarely() ? choice(100) : 0;
  return settings;
}

std::int64_t CallArguments::size() {
  switch (choice(9)) {
    case 4:
    case 5:
      return in_.ConsumeIntegralInRange<std::int64_t>(0, 300);
    case 6:
      return in_.ConsumeIntegralInRange<std::int64_t>(0, 70000);
    case 7:
      return std::int64_t{1} << choice(62);
    case 8:
      return in_.ConsumeIntegral<std::int64_t>();
    case 9:
      return flag() ? VKATTN_UNSET : INT64_MAX;
    default:
      return in_.ConsumeIntegralInRange<std::int64_t>(1, 16);
  }
}

std::uint32_t CallArguments::enumerator(std::uint32_t last) {
  return rarely() ? in_.ConsumeIntegral<std::uint32_t>() : choice(last);
}

float CallArguments::real() {
  constexpr float kNumbers[] = {0.5F, 1.0F, 0.0F, -1.0F, 1e-40F, 3e38F, INFINITY, NAN};
  return rarely() ? in_.ConsumeFloatingPoint<float>() : kNumbers[choice(7)];
}

const vkattn_strides* CallArguments::strides() {
  if (choice(3) != 3) return nullptr;
  strides_.push_back({size(), size(), size(), flag() ? 1 : size()});
  return &strides_.back();
}

vkattn_tensor_desc CallArguments::tensor(std::uint32_t last_type) {
  return {enumerator(last_type),
          rarely() ? in_.ConsumeIntegral<std::uint32_t>()
          : flag() ? 1U << choice(10)
                   : 0,
          strides()};
}

const vkattn_tensor_desc* CallArguments::tensor_or_none() {
  if (!rarely()) return nullptr;
  tensors_.push_back(tensor(5));
  return &tensors_.back();
}

vkattn_matrix_desc CallArguments::matrix(std::uint32_t last_type) {
  vkattn_matrix_desc desc{enumerator(last_type), flag() ? 1U << choice(10) : 0, nullptr};
  if (choice(3) == 3) {
    matrix_strides_.push_back({size(), size(), flag() ? 1 : size()});
    desc.strides = &matrix_strides_.back();
  }
  return desc;
}

const vkattn_data_type* CallArguments::type_or_none() {
  if (!flag()) return nullptr;
  types_.push_back(enumerator(2));
  return &types_.back();
}

vkattn_cache_layout CallArguments::cache() {
  return {enumerator(2), size(), size(), size(), size()};
}

void CallArguments::spoil(std::uint32_t& struct_size) {
  if (rarely()) struct_size = in_.ConsumeIntegralInRange(0U, 4096U);
}

vkattn_attention_desc CallArguments::attention() {
  auto desc = initial(vkattn_attention_desc_init);
  desc.batch = size_or(1);
  desc.query_heads = size_or(2);
  desc.kv_heads = size_or(VKATTN_UNSET);
  desc.query_length = size();
  desc.kv_length = size();
  desc.head_dim = size_or(64);
  desc.value_dim = size_or(VKATTN_UNSET);
  desc.layout = enumerator(2);
  if (flag()) desc.query = tensor(2);
  if (flag()) desc.key = tensor(5);
  if (flag()) desc.value = tensor(5);
  if (flag()) desc.output = tensor(2);
  if (rarely()) desc.scale = real();
  desc.causal = choice(1);
  if (flag()) desc.align = enumerator(2);
  if (flag()) desc.offset = size();
  if (flag()) desc.query_lengths = enumerator(2);
  if (flag()) desc.kv_lengths = enumerator(2);
  if (flag()) desc.total_query_length = size();
  if (flag()) desc.total_kv_length = size();
  if (flag()) desc.cache = cache();
  if (flag()) desc.softcap = real();
  if (flag()) desc.mask = enumerator(4);
  desc.mask_strides = strides();
  if (flag()) desc.window_left = size();
  if (flag()) desc.window_right = size();
  if (flag()) desc.alibi = enumerator(2);
  desc.has_sinks = choice(1);
  if (flag()) desc.dropout = real();
  desc.has_lse = choice(1);
  desc.lse_strides = strides();
  if (flag()) desc.weights = enumerator(4);
  desc.weights_strides = strides();
  spoil(desc.struct_size);
  return desc;
}

vkattn_append_desc CallArguments::append() {
  auto desc = initial(vkattn_append_desc_init);
  desc.batch = size_or(1);
  desc.query_heads = size_or(0);
  desc.kv_heads = size_or(2);
  desc.new_length = size();
  desc.head_dim = size_or(64);
  desc.value_dim = size_or(VKATTN_UNSET);
  desc.layout = enumerator(2);
  if (flag()) desc.query = tensor(2);
  if (flag()) desc.key = tensor(2);
  if (flag()) desc.value = tensor(2);
  if (flag()) desc.query_output = tensor(2);
  if (flag()) desc.cache_key = tensor(5);
  if (flag()) desc.cache_value = tensor(5);
  if (flag()) desc.cache = cache();
  desc.cache_length = size_or(512);
  desc.has_positions = choice(1);
  if (flag()) desc.position = size();
  if (flag()) desc.new_lengths = enumerator(2);
  if (flag()) desc.total_new_length = size();
  desc.writes_kv_lengths = choice(1);
  desc.rotary_style = enumerator(2);
  desc.rotary_dims = size_or(64);
  if (rarely()) desc.rotary_base = number();
  if (rarely()) desc.rotary_position_scale = number();
  desc.rotary_has_frequencies = choice(1);
  if (rarely()) desc.rotary_magnitude = real();
  desc.rotary_inverse = choice(1);
  spoil(desc.struct_size);
  return desc;
}

vkattn_merge_desc CallArguments::merge() {
  auto desc = initial(vkattn_merge_desc_init);
  desc.rows = size();
  desc.value_dim = size_or(64);
  desc.parts = size_or(2);
  desc.part_type = enumerator(2);
  desc.output_type = enumerator(2);
  desc.has_lse = choice(1);
  spoil(desc.struct_size);
  return desc;
}

vkattn_matmul_desc CallArguments::matmul() {
  auto desc = initial(vkattn_matmul_desc_init);
  desc.batch = size_or(1);
  desc.rows = size();
  desc.columns = size();
  desc.inner = size();
  if (flag()) desc.a = matrix(2);
  if (flag()) desc.b = matrix(4);
  if (flag()) desc.output = matrix(2);
  desc.has_bias = choice(1);
  desc.bias_type = enumerator(2);
  desc.accumulates = choice(1);
  desc.a_is_ones = rarely() ? 1 : 0;
  spoil(desc.struct_size);
  return desc;
}

vkattn_backward_desc CallArguments::backward() {
  attentions_.push_back(attention());
  attentions_.back().has_lse = rarely() ? 0 : 1;
  auto desc = initial(vkattn_backward_desc_init);
  desc.attention = rarely() ? nullptr : &attentions_.back();
  for (std::uint32_t* const each :
       {&desc.has_grad_query, &desc.has_grad_key, &desc.has_grad_value, &desc.has_grad_mask})
    *each = choice(1);
  desc.has_grad_alibi_slopes = rarely() ? 1 : 0;
  desc.has_grad_sinks = rarely() ? 1 : 0;
  for (auto* const each :
       {&desc.grad_output, &desc.grad_query, &desc.grad_key, &desc.grad_value, &desc.grad_mask})
    *each = tensor_or_none();
  spoil(desc.struct_size);
  return desc;
}

// Of what its attention has of its own only little, as most of that is refused in a layer.
vkattn_multi_head_attention_desc CallArguments::layer() {
  auto heads = initial(vkattn_attention_desc_init);
  heads.batch = size_or(1);
  heads.query_heads = size_or(2);
  heads.kv_heads = size_or(VKATTN_UNSET);
  heads.query_length = size();
  if (flag()) heads.kv_length = size();
  if (flag()) heads.head_dim = size();
  heads.causal = choice(1);
  if (flag()) heads.align = enumerator(2);
  if (flag()) heads.query_lengths = enumerator(2);
  if (flag()) heads.kv_lengths = enumerator(2);
  if (flag()) heads.total_query_length = size();
  if (flag()) heads.cache = cache();
  if (flag()) heads.mask = enumerator(4);
  if (flag()) heads.alibi = enumerator(2);
  heads.has_sinks = choice(1);
  if (flag()) heads.weights = enumerator(4);
  attentions_.push_back(rarely() ? attention() : heads);
  auto desc = initial(vkattn_multi_head_attention_desc_init);
  desc.attention = rarely() ? nullptr : &attentions_.back();
  desc.d_model = size_or(64);
  desc.key_input_dim = size_or(VKATTN_UNSET);
  desc.value_input_dim = size_or(VKATTN_UNSET);
  desc.inputs = enumerator(2);
  desc.packed_weights = choice(1);
  desc.has_input_bias = choice(1);
  desc.has_output_bias = choice(1);
  if (flag()) desc.type = enumerator(2);
  if (flag()) desc.alignment_bytes = 1U << choice(6);
  desc.parameter_type = type_or_none();
  desc.weight_type = type_or_none();
  if (rarely()) desc.rotary_style = enumerator(2);
  desc.rotary_dims = size_or(8);
  desc.rotary_has_frequencies = choice(1);
  desc.rotary_inverse = choice(1);
  desc.has_cache = rarely() ? 1 : 0;
  desc.has_averaged_weights = choice(1);
  desc.adds_to_output = choice(1);
  desc.saves_for_gradients = choice(1);
  spoil(desc.struct_size);
  return desc;
}

vkattn_multi_head_attention_backward_desc CallArguments::layer_backward() {
  layers_.push_back(layer());
  layers_.back().saves_for_gradients = rarely() ? 0 : 1;
  auto desc = initial(vkattn_multi_head_attention_backward_desc_init);
  desc.forward = rarely() ? nullptr : &layers_.back();
  for (std::uint32_t* const each :
       {&desc.has_grad_query, &desc.has_grad_key, &desc.has_grad_value, &desc.has_grad_parameters,
        &desc.has_grad_mask, &desc.has_grad_alibi_slopes, &desc.has_grad_sinks, &desc.adds_to_inputs,
        &desc.adds_to_parameters})
    *each = choice(1);
  desc.grad_parameter_type = type_or_none();
  desc.grad_mask = tensor_or_none();
  spoil(desc.struct_size);
  return desc;
}

vkattn_parameter CallArguments::parameter() {
  const auto part = [&]() -> std::int64_t { return flag() ? choice(8) : size(); };
  const std::int64_t rows = part();
  return {nullptr, 0, 0, rows, flag() ? 0 : part()};  // a bias has no columns
}

// As the table of src/c/options.cpp has them.
void CallArguments::keep_used(vkattn_plan_options& options, PlanKind kind) {
  const bool of_attention = kind <= PlanKind::kAttentionAgain, of_layer = kind >= PlanKind::kLayer;
  const bool has_kernels = kind != PlanKind::kAppend && kind != PlanKind::kMerge;
  if (!has_kernels) {
    options.kernel = nullptr;
    options.capture_statistics = options.refusal_count = 0;
  }
  if (!of_attention && !of_layer) {
    options.kv_splits = options.strict_nonfinite = 0;
    options.arithmetic_type = VKATTN_DATA_TYPE_FLOAT32;
    if (kind != PlanKind::kMatmul) options.tile = nullptr;
  }
  if (of_layer) {
    options.push_descriptors = 0;
  } else {
    options.matmul_kernel = options.backward_kernel = nullptr;
    options.matmul_refusal_count = options.backward_refusal_count = 0;
  }
  if (kind != PlanKind::kBackward) options.chunk_keys = 0;
  if (kind != PlanKind::kMatmul) options.inner_splits = 0;
}

vkattn_plan_options CallArguments::options(PlanKind kind) {
  constexpr const char* kKernels[] = {nullptr, "decode", "lane", "tile", "matrix", "matrix2", "none"};
  auto options = initial(vkattn_plan_options_init);
  options.kernel = kKernels[choice(6)];
  if (flag()) options.max_dispatch_ns = flag() ? choice(1000) : any();
  if (flag()) options.kv_splits = flag() ? choice(40) : static_cast<std::uint32_t>(any());
  options.strict_nonfinite = choice(1);
  if (rarely()) options.arithmetic_type = static_cast<vkattn_data_type>(choice(3));
  options.push_descriptors = choice(1);
  options.deferred_compilation = choice(1);
  options.capture_statistics = rarely() ? 1 : 0;
  refusals_.assign(choice(2),
                   {kKernels[rarely() ? choice(6) : 1 + choice(4)], flag() ? "it is not wanted" : nullptr});
  options.refusals = refusals_.data();
  options.matmul_refusals = options.backward_refusals = refusals_.data();
  options.refusal_count = static_cast<std::uint32_t>(refusals_.size());
  if (rarely()) options.matmul_refusal_count = options.refusal_count;
  if (rarely()) options.backward_refusal_count = options.refusal_count;
  if (rarely()) {
    const auto part = [&] { return rarely() ? static_cast<std::uint32_t>(any()) : 1U << choice(9); };
    tiles_.push_back({part(), part(), part(), part(), part(), part()});
    if (kind == PlanKind::kMatmul) tiles_.back().dims = 0;
    options.tile = &tiles_.back();
  }
  if (rarely()) options.matmul_kernel = kKernels[choice(6)];
  if (rarely()) options.backward_kernel = kKernels[choice(6)];
  if (rarely()) options.chunk_keys = flag() ? 64U << choice(4) : static_cast<std::uint32_t>(any());
  if (rarely()) options.inner_splits = flag() ? choice(40) : static_cast<std::uint32_t>(any());
  if (!rarely()) keep_used(options, kind);
  spoil(options.struct_size);
  return options;
}

vkattn_record_options CallArguments::slice() {
  auto options = initial(vkattn_record_options_init);
  if (flag()) options.first_dispatch = rarely() ? static_cast<std::uint32_t>(any()) : choice(20);
  if (flag()) options.dispatch_count = rarely() ? static_cast<std::uint32_t>(any()) : choice(20);
  options.wait_for_earlier = choice(1);
  spoil(options.struct_size);
  return options;
}

vkattn_binding CallArguments::binding(vkattn_tensor tensor, std::uint64_t range, std::uint64_t offset) {
  std::uint64_t bytes = range;
  if (rarely()) bytes = flag() ? range - 1 : any();
  const VkBuffer buffer = rarely() ? VkBuffer{} : FakeVulkan::buffer(offset, bytes);
  return {tensor, buffer, offset, bytes};
}

vkattn_execution CallArguments::execution(const vkattn_plan* plan) {
  auto execution = initial(vkattn_execution_init);
  bindings_.clear();
  for (vkattn_tensor tensor = 0; tensor <= kLastTensor; ++tensor) {
    if (vkattn_plan_tensor_range(plan, tensor, 0) == 0) continue;
    const std::uint64_t offset = rarely() ? any() : flag() ? 4U << choice(16) : 0;
    const std::uint64_t range = vkattn_plan_tensor_range(plan, tensor, offset);
    if (range != 0 && !rarely()) bindings_.push_back(binding(tensor, range, offset));
  }
  if (rarely()) bindings_.push_back(binding(enumerator(kLastTensor), any(), any()));
  execution.tensors = bindings_.data();
  execution.tensor_count = static_cast<std::uint32_t>(bindings_.size());
  auto needs = initial(vkattn_requirements_init);
  if (vkattn_plan_get_requirements(plan, &needs, nullptr) == VKATTN_SUCCESS && needs.workspace_bytes != 0) {
    const vkattn_binding workspace =
        binding(0, needs.workspace_bytes, rarely() ? any() : choice(4) * needs.workspace_alignment);
    execution.workspace = workspace.buffer;
    execution.workspace_offset = workspace.offset;
    execution.workspace_size = workspace.size;
  }
  execution.block_mask_complete = choice(1);
  execution.dropout_seed = any();
  execution.dropout_offset = static_cast<std::uint32_t>(any());
  spoil(execution.struct_size);
  return execution;
}

}  // namespace vkattn::fuzz
