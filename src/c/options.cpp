// How to plan and record, from C: see convert.hpp.
#include <array>
#include <span>
#include <utility>
#include <vector>

#include "c/convert.hpp"
#include "c/handles.hpp"
#include "c/tensors.hpp"

namespace vkattn::c {

namespace {

const char* text(const char* given) {
  return given != nullptr ? given : "";
}

bool is_text(const char* given) {
  return given != nullptr && *given != '\0';
}

// Kinds of plans as bits.
using Kinds = std::uint32_t;
constexpr Kinds kOfAttention = 1, kOfAppend = 2, kOfMerge = 4, kOfBackward = 8, kOfMatmul = 16, kOfLayer = 32;
constexpr Kinds kWithKernels = kOfAttention | kOfBackward | kOfMatmul | kOfLayer;

/// An option that not every kind of plan uses, and which do: those whose options in C++ have it. Both passes
/// of a layer take the same. (max_dispatch_ns is taken by all: appends and merges have no estimates to cut
/// by.)
struct OptionRow {
  const char* name;
  const char* unset;
  Kinds users;
  bool (*is_set)(const vkattn_plan_options&);
};
using O = vkattn_plan_options;
constexpr std::array<OptionRow, 14> kOptionRows{{
    {"kernel", "null", kWithKernels, [](const O& o) { return is_text(o.kernel); }},
    {"kv_splits", "0", kOfAttention | kOfLayer, [](const O& o) { return o.kv_splits != 0; }},
    {"strict_nonfinite", "0", kOfAttention | kOfLayer, [](const O& o) { return o.strict_nonfinite != 0; }},
    {"push_descriptors", "0", ~kOfLayer, [](const O& o) { return o.push_descriptors != 0; }},
    {"refusal_count", "0", kWithKernels, [](const O& o) { return o.refusal_count != 0; }},
    {"capture_statistics", "0", kWithKernels, [](const O& o) { return o.capture_statistics != 0; }},
    {"tile", "null", kOfAttention | kOfMatmul | kOfLayer, [](const O& o) { return o.tile != nullptr; }},
    {"matmul_kernel", "null", kOfLayer, [](const O& o) { return is_text(o.matmul_kernel); }},
    {"backward_kernel", "null", kOfLayer, [](const O& o) { return is_text(o.backward_kernel); }},
    {"matmul_refusal_count", "0", kOfLayer, [](const O& o) { return o.matmul_refusal_count != 0; }},
    {"backward_refusal_count", "0", kOfLayer, [](const O& o) { return o.backward_refusal_count != 0; }},
    {"chunk_keys", "0", kOfBackward, [](const O& o) { return o.chunk_keys != 0; }},
    {"arithmetic_type", "VKATTN_DATA_TYPE_FLOAT32", kOfAttention | kOfLayer,
     [](const O& o) { return o.arithmetic_type != VKATTN_DATA_TYPE_FLOAT32; }},
    {"inner_splits", "0", kOfMatmul, [](const O& o) { return o.inner_splits != 0; }},
}};

// What is asked for and cannot be had is an error, as `kernel` is.
Result<void> check_used(const vkattn_plan_options& given, Kinds kind, const char* name) {
  for (const OptionRow& row : kOptionRows) {
    if ((row.users & kind) == 0 && row.is_set(given)) {
      return invalid(detail::message("vkattn_plan_options::", row.name, " is set, but is not used by ", name,
                                     ": leave it ", row.unset));
    }
  }
  return {};
}

std::vector<KernelRefusal> refusals_of(const vkattn_kernel_refusal* given, std::uint32_t count) {
  std::vector<KernelRefusal> all;
  for (const vkattn_kernel_refusal& each : std::span(given, count)) {
    all.push_back({text(each.kernel), text(each.reason)});
  }
  return all;
}

// What plans of attention, of gradients and of products have alike.
template <class Options>
Options options_of_kernels(const vkattn_plan_options& given) {
  Options options;
  options.kernel = text(given.kernel);
  options.pipeline_cache = given.pipeline_cache;
  options.max_dispatch_ns = given.max_dispatch_ns;
  options.push_descriptors = given.push_descriptors != 0;
  options.deferred_compilation = given.deferred_compilation != 0;
  options.capture_statistics = given.capture_statistics != 0;
  options.refusals = refusals_of(given.refusals, given.refusal_count);
  return options;
}

}  // namespace

Result<vkattn_plan_options> plan_options(const vkattn_plan_options* given) {
  vkattn_plan_options options;
  vkattn_plan_options_init(&options);
  if (given == nullptr) return options;
  const auto copy = read(given, vkattn_plan_options_init, "vkattn_plan_options");
  if (!copy) return copy;
  const O& o = *copy;
  Result<void> s = check_list(o.refusals, o.refusal_count, "vkattn_plan_options::refusals");
  if (s) s = check_list(o.matmul_refusals, o.matmul_refusal_count, "vkattn_plan_options::matmul_refusals");
  if (s) {
    s = check_list(o.backward_refusals, o.backward_refusal_count, "vkattn_plan_options::backward_refusals");
  }
  if (!s) return s.error();
  constexpr std::uint32_t kLastType = VKATTN_DATA_TYPE_FLOAT8_E4M3;
  if (o.arithmetic_type > kLastType) {
    return invalid(
        detail::message("arithmetic_type is ", o.arithmetic_type, "; the largest there is is ", kLastType));
  }
  return copy;
}

namespace {

PlanOptions options_of_attention(const vkattn_plan_options& given) {
  auto options = options_of_kernels<PlanOptions>(given);
  options.kv_splits = given.kv_splits;
  if (given.tile != nullptr) {
    const vkattn_tile_sizes& tile = *given.tile;
    options.tile = TileSizes{tile.threads, tile.subgroups, tile.columns, tile.rows, tile.keys, tile.dims};
  }
  options.strict_nonfinite = given.strict_nonfinite != 0;
  options.arithmetic_type = static_cast<DataType>(given.arithmetic_type);
  return options;
}

}  // namespace

Result<PlanOptions> attention_options(const vkattn_plan_options& given) {
  if (Result<void> s = check_used(given, kOfAttention, Kind<AttentionPlan>::kName); !s) return s.error();
  return options_of_attention(given);
}

Result<AppendOptions> append_options(const vkattn_plan_options& given) {
  if (Result<void> s = check_used(given, kOfAppend, Kind<AppendPlan>::kName); !s) return s.error();
  AppendOptions options;
  options.pipeline_cache = given.pipeline_cache;
  options.push_descriptors = given.push_descriptors != 0;
  options.deferred_compilation = given.deferred_compilation != 0;
  return options;
}

Result<MergeOptions> merge_options(const vkattn_plan_options& given) {
  if (Result<void> s = check_used(given, kOfMerge, Kind<MergePlan>::kName); !s) return s.error();
  return MergeOptions{given.pipeline_cache, given.push_descriptors != 0, given.deferred_compilation != 0};
}

Result<BackwardOptions> backward_options(const vkattn_plan_options& given) {
  if (Result<void> s = check_used(given, kOfBackward, Kind<BackwardPlan>::kName); !s) return s.error();
  auto options = options_of_kernels<BackwardOptions>(given);
  options.chunk_keys = given.chunk_keys;
  return options;
}

Result<MatmulOptions> matmul_options(const vkattn_plan_options& given) {
  if (Result<void> s = check_used(given, kOfMatmul, Kind<MatmulPlan>::kName); !s) return s.error();
  auto options = options_of_kernels<MatmulOptions>(given);
  if (given.tile != nullptr) {
    const vkattn_tile_sizes& tile = *given.tile;
    if (tile.dims != 0) {
      return invalid(detail::message("vkattn_tile_sizes::dims is ", tile.dims, ", but is not used by ",
                                     Kind<MatmulPlan>::kName, ": leave it 0"));
    }
    options.tile = MatmulTile{tile.threads, tile.rows, tile.columns, tile.keys, tile.subgroups};
  }
  options.inner_splits = given.inner_splits;
  return options;
}

Result<MultiHeadAttentionOptions> layer_options(const vkattn_plan_options& given) {
  if (Result<void> s = check_used(given, kOfLayer, Kind<MultiHeadAttentionPlan>::kName); !s) return s.error();
  MultiHeadAttentionOptions options;
  options.pipeline_cache = given.pipeline_cache;
  options.attention = options_of_attention(given);
  options.matmul_kernel = text(given.matmul_kernel);
  options.backward_kernel = text(given.backward_kernel);
  options.matmul_refusals = refusals_of(given.matmul_refusals, given.matmul_refusal_count);
  options.backward_refusals = refusals_of(given.backward_refusals, given.backward_refusal_count);
  options.max_dispatch_ns = given.max_dispatch_ns;
  options.deferred_compilation = given.deferred_compilation != 0;
  return options;
}

Result<RecordOptions> record_options(const vkattn_record_options* given) {
  if (given == nullptr) return RecordOptions{};
  const auto c = read(given, vkattn_record_options_init, "vkattn_record_options");
  if (!c) return c.error();
  return RecordOptions{c->first_dispatch, c->dispatch_count, c->wait_for_earlier != 0};
}

}  // namespace vkattn::c
