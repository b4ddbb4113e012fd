// How to plan and record, from C: see convert.hpp.
#include <array>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "c/convert.hpp"
#include "c/enumerators.hpp"
#include "c/handles.hpp"

namespace vkattn::c {

namespace {

const char* text(const char* given) {
  return given != nullptr ? given : "";
}

bool is_text(const char* given) {
  return given != nullptr && *given != '\0';
}

/// A field that some kinds of plan do not use, and the value to leave it at. The library itself refuses
/// unused options that it has.
struct FieldRow {
  const char* name;
  const char* unset;
  bool (*is_set)(const vkattn_plan_options&);
};
using O = vkattn_plan_options;

/// Fields that layers alone use.
constexpr std::array<FieldRow, 4> kOfLayers{{
    {"matmul_kernel", "null", [](const O& o) { return is_text(o.matmul_kernel); }},
    {"backward_kernel", "null", [](const O& o) { return is_text(o.backward_kernel); }},
    {"matmul_refusal_count", "0", [](const O& o) { return o.matmul_refusal_count != 0; }},
    {"backward_refusal_count", "0", [](const O& o) { return o.backward_refusal_count != 0; }},
}};

/// Fields that some operations use, but no layer.
constexpr std::array<FieldRow, 2> kNotOfLayers{{
    {"chunk_keys", "0", [](const O& o) { return o.chunk_keys != 0; }},
    {"inner_splits", "0", [](const O& o) { return o.inner_splits != 0; }},
}};

// A request that cannot be met is an error, as with `kernel`.
Result<void> check_unused(const vkattn_plan_options& given, std::span<const FieldRow> rows,
                          const char* name) {
  for (const FieldRow& row : rows) {
    if (!row.is_set(given)) continue;
    return invalid("vkattn_plan_options::", row.name, " is set, but is not used by ", name, ": leave it ",
                   row.unset);
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
  if (const auto type = enumerator<DataType>(o.arithmetic_type, "arithmetic_type"); !type)
    return type.error();
  return copy;
}

namespace {

PlanOptions options_of(const vkattn_plan_options& given) {
  PlanOptions options;
  options.kernel = text(given.kernel);
  options.refusals = refusals_of(given.refusals, given.refusal_count);
  options.strict_nonfinite = given.strict_nonfinite != 0;
  options.arithmetic_type = static_cast<DataType>(given.arithmetic_type);
  options.pipeline_cache = given.pipeline_cache;
  options.max_dispatch_ns = given.max_dispatch_ns;
  options.kv_splits = given.kv_splits;
  options.chunk_keys = given.chunk_keys;
  options.inner_splits = given.inner_splits;
  options.capture_statistics = given.capture_statistics != 0;
  options.push_descriptors = given.push_descriptors != 0;
  options.deferred_compilation = given.deferred_compilation != 0;
  if (const vkattn_tile_sizes* const tile = given.tile; tile != nullptr) {
    options.tile =
        TileSizes{tile->threads, tile->subgroups, tile->columns, tile->rows, tile->keys, tile->dims};
  }
  return options;
}

/// Converts block sizes to those of products.
void take_matmul_tile(PlanOptions& options) {
  if (!options.tile) return;
  const TileSizes tile = *std::exchange(options.tile, std::nullopt);
  options.matmul_tile =
      MatmulTile{tile.threads, tile.rows, tile.columns, tile.keys, tile.subgroups, tile.dims};
}

}  // namespace

vkattn_tile_sizes tile_sizes(const MatmulTile& tile) {
  return {tile.threads, tile.subgroups, tile.columns, tile.rows, tile.inner, tile.stages};
}

Result<PlanOptions> options_for(const vkattn_plan_options& given, const char* operation) {
  if (Result<void> s = check_unused(given, kOfLayers, operation); !s) return s.error();
  return options_of(given);
}

Result<PlanOptions> matmul_options(const vkattn_plan_options& given, const char* operation) {
  auto options = options_for(given, operation);
  if (!options) return options;
  take_matmul_tile(*options);
  return options;
}

Result<MultiHeadAttentionOptions> layer_options(const vkattn_plan_options& given, const char* layer) {
  if (Result<void> s = check_unused(given, kNotOfLayers, layer); !s) {
    return s.error();
  }
  MultiHeadAttentionOptions options;
  options.pipeline_cache = given.pipeline_cache;
  options.attention = options_of(given);
  // This is an option of the layer, set below.
  options.attention.push_descriptors = false;
  options.matmul.kernel = text(given.matmul_kernel);
  options.backward.kernel = text(given.backward_kernel);
  options.matmul.refusals = refusals_of(given.matmul_refusals, given.matmul_refusal_count);
  options.backward.refusals = refusals_of(given.backward_refusals, given.backward_refusal_count);
  options.max_dispatch_ns = given.max_dispatch_ns;
  options.capture_statistics = given.capture_statistics != 0;
  options.push_descriptors = given.push_descriptors != 0;
  options.deferred_compilation = given.deferred_compilation != 0;
  return options;
}

Result<RecordOptions> record_options(const vkattn_record_options* given) {
  if (given == nullptr) return RecordOptions{};
  const auto c = read(given, vkattn_record_options_init, "vkattn_record_options");
  if (!c) return c.error();
  if (c->timestamp_reserved != 0) {
    return invalid("vkattn_record_options::timestamp_reserved is ", c->timestamp_reserved,
                   " but must be 0: call the structure's init function first");
  }
  return RecordOptions{c->first_dispatch, c->dispatch_count, c->wait_for_earlier != 0, c->timestamps,
                       c->first_timestamp};
}

}  // namespace vkattn::c
