// How to plan and record, from C: see convert.hpp.
#include <span>
#include <utility>

#include "c/convert.hpp"
#include "c/handles.hpp"

namespace vkattn::c {

namespace {

const char* text(const char* given) {
  return given != nullptr ? given : "";
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
  for (const vkattn_kernel_refusal& refusal : std::span(given.refusals, given.refusal_count)) {
    options.refusals.push_back({text(refusal.kernel), text(refusal.reason)});
  }
  return options;
}

}  // namespace

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

Result<PlanOptions> attention_options(const vkattn_plan_options& given) {
  auto options = options_of_kernels<PlanOptions>(given);
  options.kv_splits = given.kv_splits;
  if (given.tile != nullptr) {
    const vkattn_tile_sizes& tile = *given.tile;
    options.tile = TileSizes{tile.threads, tile.subgroups, tile.columns, tile.rows, tile.keys, tile.dims};
  }
  options.strict_nonfinite = given.strict_nonfinite != 0;
  return options;
}

Result<AppendOptions> append_options(const vkattn_plan_options& given) {
  AppendOptions options;
  options.pipeline_cache = given.pipeline_cache;
  options.push_descriptors = given.push_descriptors != 0;
  options.deferred_compilation = given.deferred_compilation != 0;
  return options;
}

Result<MergeOptions> merge_options(const vkattn_plan_options& given) {
  return MergeOptions{given.pipeline_cache, given.push_descriptors != 0, given.deferred_compilation != 0};
}

Result<BackwardOptions> backward_options(const vkattn_plan_options& given) {
  auto options = options_of_kernels<BackwardOptions>(given);
  options.chunk_keys = given.chunk_keys;
  return options;
}

Result<MatmulOptions> matmul_options(const vkattn_plan_options& given) {
  auto options = options_of_kernels<MatmulOptions>(given);
  if (given.tile != nullptr) {
    const vkattn_tile_sizes& tile = *given.tile;
    options.tile = MatmulTile{tile.threads, tile.rows, tile.columns, tile.keys, tile.subgroups};
  }
  options.inner_splits = given.inner_splits;
  return options;
}

Result<MultiHeadAttentionOptions> layer_options(const vkattn_plan_options& given) {
  if (given.push_descriptors != 0) {
    return invalid(
        "vkattn_plan_options::push_descriptors is set, but a layer is recorded with bindings: clear it");
  }
  auto attention = attention_options(given);
  if (!attention) return attention.error();
  MultiHeadAttentionOptions options;
  options.pipeline_cache = given.pipeline_cache;
  options.attention = *std::move(attention);
  options.matmul_kernel = text(given.matmul_kernel);
  options.backward_kernel = text(given.backward_kernel);
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
