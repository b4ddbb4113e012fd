// Draws arguments from an input: see call_arguments.hpp.
#include "fuzz/call_arguments.hpp"

#include <cmath>
#include <optional>
#include <type_traits>

#include "c/enumerators.hpp"
#include "c/fields.hpp"
#include "support/initial.hpp"

namespace vkattn::fuzz {

using tests::HostFeatures;
using tests::HostSettings;
using tests::HostVulkan;
using tests::initial;

namespace {

constexpr vkattn_tensor kLastTensor = VKATTN_TENSOR_GRAD_LSE;

/// Draws the fields of a problem by the types of their members. In some problems it draws every second field.
/// In others it draws few, so that the problem is not refused. Fields that are not drawn keep their values,
/// and so do pointers to problems and score functions.
class FieldDraws {
 public:
  explicit FieldDraws(CallArguments& from) : from_(from), one_in_(2U << 2U * from.choice(2)) {}

  template <class Desc, class Structure>
  void all(Structure& c) {
    Desc cpp;
    c::each_field(c, cpp, [&](const char*, auto& field, auto& member) { draw(field, member); });
  }

 private:
  [[nodiscard]] bool is_drawn() { return from_.choice(one_in_ - 1) == 0; }

  void draw(std::int64_t& field, std::int64_t&) {
    if (is_drawn()) field = from_.size();
  }
  void draw(std::uint32_t& field, std::uint32_t&) {
    if (is_drawn()) field = from_.rarely() ? static_cast<std::uint32_t>(from_.any()) : 1U << from_.choice(10);
  }
  void draw(std::uint32_t& field, bool&) {
    if (is_drawn()) field = from_.choice(1);
  }
  template <class Enum>
  requires std::is_enum_v<Enum>
  void draw(std::uint32_t& field, Enum&) {
    if (is_drawn()) field = from_.enumerator(c::last_of<Enum>());
  }
  template <class Number>
  void draw(float& field, Number&) {
    if (is_drawn()) field = from_.real();
  }
  void draw(double& field, double&) {
    if (is_drawn()) field = from_.number();
  }
  template <class Structure, class Value>
  requires std::is_class_v<Structure>
  void draw(Structure& field, Value&) {
    if (is_drawn()) all<Value>(field);
  }
  template <class Given, class Value>
  void draw(const Given*& field, std::optional<Value>&) {
    if (!is_drawn()) return;
    Given& given = from_.kept(Given{});
    Value value{};
    if constexpr (std::is_class_v<Given>) {
      c::write_fields(value, given);
      all<Value>(given);
    } else {
      draw(given, value);
    }
    field = &given;
  }
  template <class Problem, class Desc>
  void draw(Problem*& /*field*/, Desc&) {}

  CallArguments& from_;
  std::uint32_t one_in_;  ///< one field in this many is drawn
};

}  // namespace

HostSettings CallArguments::device() {
  constexpr std::uint32_t kSubgroups[][2] = {{32, 32}, {64, 64}, {32, 64}, {8, 32}, {4, 4}, {1, 1}};
  constexpr std::uint32_t kBuffers[] = {16, 4, 5, 8, 1U << 20U};
  constexpr std::uint32_t kRanges[] = {1U << 27U, 1U << 30U, ~0U, (1U << 27U) + 4};
  constexpr std::uint32_t kVersions[] = {VK_API_VERSION_1_3, VK_API_VERSION_1_1, VK_API_VERSION_1_2};
  constexpr VkPhysicalDeviceType kTypes[] = {VK_PHYSICAL_DEVICE_TYPE_DISCRETE_GPU,
                                             VK_PHYSICAL_DEVICE_TYPE_CPU,
                                             VK_PHYSICAL_DEVICE_TYPE_INTEGRATED_GPU};
  HostSettings settings;
  settings.type = kTypes[choice(2)];
  settings.api_version = kVersions[choice(2)];
  settings.features = rarely() ? HostFeatures::kNone : HostFeatures::kAll;
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

void CallArguments::spoil(std::uint32_t& struct_size) {
  if (rarely()) struct_size = in_.ConsumeIntegralInRange(0U, 4096U);
}

template <class Desc, class Structure>
Structure CallArguments::drawn(Structure start) {
  FieldDraws(*this).all<Desc>(start);
  spoil(start.struct_size);
  return start;
}

vkattn_attention_desc CallArguments::attention() {
  auto desc = initial(vkattn_attention_desc_init);
  desc.query_heads = 2;
  desc.query_length = 5;
  desc.kv_length = 9;
  desc.head_dim = 64;
  return drawn<AttentionDesc>(desc);
}

vkattn_append_desc CallArguments::append() {
  auto desc = initial(vkattn_append_desc_init);
  desc.kv_heads = 2;
  desc.new_length = 3;
  desc.head_dim = desc.rotary_dims = 64;
  desc.cache_length = 512;
  return drawn<AppendDesc>(desc);
}

vkattn_merge_desc CallArguments::merge() {
  auto desc = initial(vkattn_merge_desc_init);
  desc.rows = 5;
  desc.value_dim = 64;
  return drawn<MergeDesc>(desc);
}

vkattn_matmul_desc CallArguments::matmul() {
  auto desc = initial(vkattn_matmul_desc_init);
  desc.rows = desc.columns = 7;
  desc.inner = 64;
  return drawn<MatmulDesc>(desc);
}

vkattn_backward_desc CallArguments::backward() {
  vkattn_attention_desc& forward = kept(attention());
  forward.has_lse = rarely() ? 0 : 1;
  auto desc = initial(vkattn_backward_desc_init);
  desc.attention = rarely() ? nullptr : &forward;
  return drawn<BackwardDesc>(desc);
}

// Fields that the layer itself decides are only rarely set in its attention.
vkattn_multi_head_attention_desc CallArguments::layer() {
  const auto none = initial(vkattn_attention_desc_init);
  vkattn_attention_desc& heads = kept(attention());
  if (!rarely()) {
    heads.query = heads.output = none.query;
    heads.has_lse = none.has_lse;
    heads.lse_strides = nullptr;
    if (heads.cache.mapping == VKATTN_KEY_MAPPING_CONTIGUOUS) {
      heads.layout = none.layout;
      heads.key = heads.value = none.key;
    }
  }
  if (flag()) heads.head_dim = heads.kv_length = VKATTN_UNSET;
  auto desc = initial(vkattn_multi_head_attention_desc_init);
  desc.attention = rarely() ? nullptr : &heads;
  desc.d_model = 64;
  desc.rotary_dims = 8;
  return drawn<MultiHeadAttentionDesc>(desc);
}

vkattn_multi_head_attention_backward_desc CallArguments::layer_backward() {
  vkattn_multi_head_attention_desc& forward = kept(layer());
  forward.saves_for_gradients = rarely() ? 0 : 1;
  auto desc = initial(vkattn_multi_head_attention_backward_desc_init);
  desc.forward = rarely() ? nullptr : &forward;
  return drawn<MultiHeadAttentionBackwardDesc>(desc);
}

vkattn_parameter CallArguments::parameter() {
  const auto part = [&]() -> std::int64_t { return flag() ? choice(8) : size(); };
  const std::int64_t rows = part();
  return {nullptr, 0, 0, rows, flag() ? 0 : part()};  // a bias has no columns
}

// Follows the table of src/c/options.cpp.
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
    if (kind != PlanKind::kMatmul && kind != PlanKind::kBackward) options.tile = nullptr;
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
  constexpr const char* kKernels[] = {nullptr, "decode", "lane",    "lane_decode",
                                      "tile",  "matrix", "matrix2", "none"};
  auto options = initial(vkattn_plan_options_init);
  options.kernel = kKernels[choice(7)];
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
    vkattn_tile_sizes& tile = kept(vkattn_tile_sizes{part(), part(), part(), part(), part(), part()});
    if (kind == PlanKind::kMatmul) tile.dims = 0;
    options.tile = &tile;
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
  const VkBuffer buffer = rarely() ? VkBuffer{} : HostVulkan::buffer(offset, bytes);
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
