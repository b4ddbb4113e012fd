// The table of features: see features.hpp.
#include "attention/features.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>

#include "attention/positions.hpp"
#include "attention/tensor_rules.hpp"
#include "common/checked.hpp"
#include "common/integers.hpp"
#include "common/message.hpp"

namespace vkattn {

namespace detail {

namespace {

constexpr std::int64_t kMaxLength = std::int64_t{1} << 30;
constexpr std::int64_t kMaxTotalLength = (std::int64_t{1} << 31) - 1;  // int32 lengths count to it

using Desc = const AttentionDesc&;

void add(SpecializationValues& values, std::uint32_t id, std::uint32_t value) {
  values.push_back({id, value});
}

bool has_mask(Desc desc) {
  return desc.mask.type != MaskType::kNone;
}

std::uint32_t mask_kind(Desc desc) {
  return static_cast<std::uint32_t>(desc.mask.type);
}

std::uint32_t alibi_kind(Desc desc) {
  return static_cast<std::uint32_t>(desc.alibi);
}

Result<void> check_mask(Desc desc) {
  if (Result<void> s = check_enum("mask.type", desc.mask.type, MaskType::kBits, "storage of masks"); !s)
    return s;
  if (!has_mask(desc)) return {};
  const std::int64_t heads = mask_extents(desc).heads;
  if (heads < 0 || (heads == 0 ? desc.query_heads != 0 : desc.query_heads % heads != 0)) {
    return invalid("mask.heads is ", heads, " but must divide query_heads, ", desc.query_heads,
                   ": query head h reads head h % mask.heads");
  }
  const auto bytes = mask_bytes(desc);
  return bytes ? Result<void>() : Result<void>(bytes.error());
}

// Strides of bits are in words.
void set_mask(Desc desc, const Window& /*window*/, FeatureParams& params) {
  if (!has_mask(desc)) return;
  params.mask_heads = narrow(mask_extents(desc).heads);
  const Strides strides = *mask_tensor(desc.mask).strides;
  params.mask_batch_stride = narrow(strides.batch);
  params.mask_head_stride = narrow(strides.head);
  params.mask_row_stride = narrow(strides.row);
  params.mask_key_stride = narrow(strides.dim);
}

void specialize_mask(Desc desc, SpecializationValues& values) {
  add(values, VKATTN_SPEC_MASK_TYPE, mask_kind(desc));
  add(values, VKATTN_SPEC_MASK_HEADS_REPEAT, mask_heads_repeat(desc));
}

Result<void> check_alibi(Desc desc) {
  if (Result<void> s = check_enum("alibi", desc.alibi, Alibi::kTimesMask, "kind of slopes"); !s) return s;
  const bool adds = desc.mask.type == MaskType::kFloat32 || desc.mask.type == MaskType::kFloat16;
  if (desc.alibi != Alibi::kTimesMask || adds) return {};
  return invalid("alibi is kTimesMask, whose slopes multiply a mask of float32 or float16, but the mask is ",
                 has_mask(desc) ? "boolean" : "not there");
}

Result<void> check_window(Desc desc) {
  const auto check = [](const char* name, std::int64_t side) -> Result<void> {
    if (side >= kUnlimited) return {};
    return invalid(name, " is ", side, " but must be a count of keys, or ", kUnlimited, " for no bound");
  };
  if (Result<void> s = check("window.left", desc.window.left); !s) return s;
  return check("window.right", desc.window.right);
}

// The right side is part of causality (AttentionParams).
void specialize_window(Desc desc, SpecializationValues& values) {
  add(values, VKATTN_SPEC_HAS_LEFT_LIMIT, desc.window.left != kUnlimited);
  add(values, VKATTN_SPEC_ALIGN_BOTTOM_RIGHT, desc.align == Align::kBottomRight);  // ALiBi's positions too
}

void set_window(Desc desc, const Window& window, FeatureParams& params) {
  params.left_offset = left_offset(desc, window);
  params.position_offset = static_cast<std::int32_t>(position_offset(desc) + window.first_row);
}

Result<void> check_softcap(Desc desc) {
  if (!std::isfinite(desc.softcap) || desc.softcap < 0) {
    return invalid("softcap is ", desc.softcap, " but must be finite and not negative; 0 is for none");
  }
  // The reciprocal must be a normal number too.
  if (desc.softcap != 0 && (desc.softcap < 1e-30F || desc.softcap > 1e30F)) {
    return invalid("softcap is ", desc.softcap, " but must be 0 or from 1e-30 to 1e30");
  }
  return {};
}

void set_softcap(Desc desc, const Window& /*window*/, FeatureParams& params) {
  const double softcap_log2 = static_cast<double>(desc.softcap) * kLog2E;
  params.softcap_log2 = static_cast<float>(softcap_log2);
  params.softcap_log2_inverse = desc.softcap == 0 ? 0 : static_cast<float>(1 / softcap_log2);
}

Result<void> check_dropout(Desc desc) {
  if (desc.dropout >= 0 && desc.dropout <= 1) return {};
  return invalid("dropout is ", desc.dropout, " but must be from 0 to 1");
}

// A dropout of 1 drops the one word in 2^32 that its threshold keeps by a scale of 0.
void set_dropout(Desc desc, const Window& /*window*/, FeatureParams& params) {
  const auto share = static_cast<double>(desc.dropout);
  params.dropout_threshold = static_cast<std::uint32_t>(std::min(std::floor(share * 0x1p32), 0x1p32 - 1));
  params.dropout_scale = share < 1 ? static_cast<float>(1 / (1 - share)) : 0;
}

std::string_view length_name(Lengths lengths) {
  return lengths == Lengths::kPacked ? "kPacked" : lengths == Lengths::kPerEntry ? "kPerEntry" : "kUniform";
}

Result<void> check_packed_sequences(Desc desc) {
  if (!desc.has_packed_keys()) return {};
  if (!desc.has_packed_queries()) {
    return invalid("kv_lengths is kPacked but query_lengths is ", length_name(desc.query_lengths),
                   "; packed keys need packed queries, so set query_lengths to kPacked too");
  }
  if (desc.cache.mapping != KeyMapping::kContiguous) {
    return invalid("kv_lengths is kPacked, so keys must lie in one piece, but cache.mapping is ",
                   desc.cache.mapping == KeyMapping::kRing ? "kRing" : "kPaged",
                   "; of a cache set kv_lengths to kPerEntry or kUniform, which packed queries go with too");
  }
  return check_given("total_kv_length", desc.total_kv_length, kMaxTotalLength);
}

Result<void> check_packed_queries(Desc desc) {
  if (!desc.has_packed_queries()) return {};
  return check_given("total_query_length", desc.total_query_length, kMaxTotalLength);
}

// Where keys lie, in the constants of all mappings.
void specialize_keys(Desc desc, SpecializationValues& values) {
  add(values, VKATTN_SPEC_KEY_MAPPING,
      desc.has_packed_keys() ? VKATTN_KEYS_PACKED : static_cast<std::uint32_t>(desc.cache.mapping));
  // 1 without a cache, as each value makes a pipeline of its own.
  const bool has_cache_rows = desc.cache.mapping != KeyMapping::kContiguous;
  add(values, VKATTN_SPEC_CACHE_ROWS, has_cache_rows ? narrow(key_extents(desc, 1).rows) : 1);
}

void set_pages(Desc desc, const Window& /*window*/, FeatureParams& params) {
  params.page_table_stride = narrow(desc.cache.page_table_stride);
  params.page_count = narrow(desc.cache.page_count);
}

Result<void> check_cached_keys(Desc desc) {
  if (Result<void> s = check_cache(desc.cache); !s) return s;
  const std::int64_t most = cache_capacity(desc.cache, desc.kv_length);
  if (desc.kv_length <= most) return {};
  return invalid("kv_length is ", desc.kv_length, " but a page table with ", desc.cache.page_table_stride,
                 " pages of ", desc.cache.page_size, " keys holds ", most);
}

Result<void> check_score_function(Desc desc) {
  const std::size_t buffers = desc.score_function ? desc.score_function->buffers().size() : 0;
  if (buffers <= kMaxScoreBuffers) return {};
  return invalid("the score function has ", buffers, " buffers but at most ", kMaxScoreBuffers,
                 " are possible");
}

void set_weights(Desc desc, const Window& /*window*/, FeatureParams& params) {
  params.weights_batch_stride = narrow(desc.weights_strides->batch);
  params.weights_head_stride = narrow(desc.weights_strides->head);
  params.weights_row_stride = narrow(desc.weights_strides->row);
  params.weights_key_stride = narrow(desc.weights_strides->dim);
}

constexpr std::array kFeatures{
    FeatureRow{"a mask", has_mask, check_mask, specialize_mask, set_mask, mask_kind},
    FeatureRow{"a sliding window", [](Desc d) { return d.window != SlidingWindow{}; }, check_window,
               specialize_window, set_window},
    FeatureRow{"softcap", [](Desc d) { return d.softcap != 0; }, check_softcap,
               [](Desc d, SpecializationValues& v) { add(v, VKATTN_SPEC_HAS_SOFTCAP, d.softcap != 0); },
               set_softcap},
    FeatureRow{"ALiBi", [](Desc d) { return d.alibi != Alibi::kNone; }, check_alibi,
               [](Desc d, SpecializationValues& v) { add(v, VKATTN_SPEC_ALIBI, alibi_kind(d)); }, nullptr,
               alibi_kind},
    FeatureRow{"sinks", [](Desc d) { return d.has_sinks; }, nullptr,
               [](Desc d, SpecializationValues& v) { add(v, VKATTN_SPEC_HAS_SINKS, d.has_sinks); }, nullptr},
    FeatureRow{"dropout", [](Desc d) { return d.dropout != 0; }, check_dropout,
               [](Desc d, SpecializationValues& v) { add(v, VKATTN_SPEC_HAS_DROPOUT, d.dropout != 0); },
               set_dropout},
    FeatureRow{"query lengths", [](Desc d) { return d.query_lengths == Lengths::kPerEntry; }, nullptr,
               [](Desc d, SpecializationValues& v) {
                 add(v, VKATTN_SPEC_HAS_QUERY_LENGTHS, d.query_lengths == Lengths::kPerEntry);
               },
               nullptr},
    FeatureRow{"packed sequences", [](Desc d) { return d.has_packed_keys(); }, check_packed_sequences,
               nullptr, nullptr},
    FeatureRow{
        "packed queries", [](Desc d) { return d.has_packed_queries() && !d.has_packed_keys(); },
        check_packed_queries,
        [](Desc d, SpecializationValues& v) { add(v, VKATTN_SPEC_PACKED_QUERIES, d.has_packed_queries()); },
        nullptr},
    FeatureRow{"a ring of keys", [](Desc d) { return d.cache.mapping == KeyMapping::kRing; }, nullptr,
               nullptr, nullptr},
    FeatureRow{"paged keys", [](Desc d) { return d.cache.mapping == KeyMapping::kPaged; }, check_cached_keys,
               specialize_keys, set_pages},
    FeatureRow{"quantised keys or values",
               [](Desc d) { return is_quantised(d.key.type) || is_quantised(d.value.type); }, nullptr,
               nullptr, nullptr},
    FeatureRow{"attention weights", [](Desc d) { return d.weights != WeightsStage::kNone; },
               [](Desc d) { return check_enum("weights", d.weights, WeightsStage::kProbabilities, "stage"); },
               nullptr, set_weights},
    FeatureRow{"a score function", [](Desc d) { return d.score_function != nullptr; }, check_score_function,
               nullptr, nullptr},
};

}  // namespace

Result<void> check_cache(const CacheLayout& cache) {
  switch (cache.mapping) {
    case KeyMapping::kContiguous:
      return {};
    case KeyMapping::kRing:
      return check_size("cache.ring_length", cache.ring_length, 1, kMaxLength);
    case KeyMapping::kPaged:
      break;
    default:
      return invalid("cache.mapping holds ", static_cast<std::uint32_t>(cache.mapping),
                     ", which names no mapping");
  }
  if (Result<void> s = check_size("cache.page_size", cache.page_size, 1, kMaxLength); !s) return s;
  if (Result<void> s = check_size("cache.page_count", cache.page_count, 1, kMaxLength); !s) return s;
  return check_size("cache.page_table_stride", cache.page_table_stride, 0, kMaxLength);
}

std::int64_t cache_capacity(const CacheLayout& cache, std::int64_t contiguous) {
  switch (cache.mapping) {
    case KeyMapping::kRing:
      return kMaxTotalLength;
    case KeyMapping::kPaged:
      return std::min(saturating_multiply(cache.page_table_stride, cache.page_size), kMaxTotalLength);
    case KeyMapping::kContiguous:
      break;
  }
  return contiguous;
}

std::span<const FeatureRow> feature_table() {
  return kFeatures;
}

Result<void> check_features(Desc desc) {
  for (const FeatureRow& row : kFeatures) {
    if (row.check == nullptr) continue;
    if (Result<void> s = row.check(desc); !s) return s;
  }
  return {};
}

std::string_view first_feature(Desc desc) {
  for (const FeatureRow& row : kFeatures) {
    if (row.is_used(desc)) return row.name;
  }
  return {};
}

}  // namespace detail

float standard_alibi_slope(std::int64_t head, std::int64_t heads) {
  const auto power = static_cast<std::int64_t>(std::bit_floor(static_cast<std::uint64_t>(heads)));
  const double exponent =
      head < power ? -8.0 * static_cast<double>(head + 1) / static_cast<double>(power)
                   : -4.0 * static_cast<double>(2 * (head - power) + 1) / static_cast<double>(power);
  return static_cast<float>(std::exp2(exponent));
}

Result<std::int64_t> mask_bytes(const AttentionDesc& desc) {
  const AttentionDesc full = desc.resolved();
  const MaskDesc& mask = full.mask;
  const Strides& strides = *mask.strides;
  const TensorExtents extents = mask_extents(full);
  if (mask.type == MaskType::kBits) {
    const bool words = strides.batch % 32 == 0 && strides.head % 32 == 0 && strides.row % 32 == 0;
    if (!words || (strides.dim != 0 && strides.dim != 1)) {
      return detail::invalid(
          "mask: strides of bits are ", strides.batch, ", ", strides.head, ", ", strides.row, ", ",
          strides.dim, " but the first three must be multiples of 32 and the last 1, or 0 for one bit a row");
    }
  }
  const auto bytes = tensor_bytes(detail::mask_tensor(mask), extents.batch, extents.heads, extents.rows,
                                  detail::mask_columns(mask, extents.dims));
  if (!bytes.ok()) return detail::invalid("mask: ", bytes.error().message);
  return bytes;
}

}  // namespace vkattn
