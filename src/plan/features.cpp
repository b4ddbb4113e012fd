// Features: see features.hpp.
#include "plan/features.hpp"

#include <algorithm>
#include <bit>
#include <cmath>

#include "common/message.hpp"
#include "plan/checked.hpp"
#include "plan/tensor_rules.hpp"

namespace vkattn {

namespace detail {

namespace {

constexpr std::int64_t kMaxLength = std::int64_t{1} << 30;
constexpr std::int64_t kMaxTotalLength = (std::int64_t{1} << 31) - 1;  // int32 lengths count to it

template <class... Parts>
Error invalid(Parts&&... parts) {
  return Error{ErrorCode::kInvalidArgument, VK_SUCCESS, message(parts...)};
}

Status check_window(const SlidingWindow& window) {
  if (Status s = check_size("window.left", window.left, kUnlimited, kMaxLength); !s) return s;
  return check_size("window.right", window.right, kUnlimited, kMaxLength);
}

Status check_scores(const AttentionDesc& desc) {
  if (!std::isfinite(desc.softcap) || desc.softcap < 0) {
    return invalid("softcap is ", desc.softcap, " but must be finite and not negative; 0 is for none");
  }
  // The reciprocal must be a normal number too.
  if (desc.softcap != 0 && (desc.softcap < 1e-30F || desc.softcap > 1e30F)) {
    return invalid("softcap is ", desc.softcap, " but must be 0 or from 1e-30 to 1e30");
  }
  if (!(desc.dropout >= 0) || desc.dropout >= 1) {
    return invalid("dropout is ", desc.dropout, " but must be from 0 to below 1");
  }
  if (desc.alibi > Alibi::kGiven) {
    return invalid("alibi holds ", static_cast<std::uint32_t>(desc.alibi), ", which names no kind of slopes");
  }
  if (desc.weights > WeightsStage::kProbabilities) {
    return invalid("weights holds ", static_cast<std::uint32_t>(desc.weights), ", which names no stage");
  }
  if (desc.mask.type > MaskType::kBits) {
    return invalid("mask.type holds ", static_cast<std::uint32_t>(desc.mask.type),
                   ", which names no storage of masks");
  }
  return check_window(desc.window);
}

Status check_packed_sequences(const AttentionDesc& desc) {
  if (!desc.has_cumulative_lengths) return {};
  if (desc.has_kv_lengths || desc.has_query_lengths) {
    return invalid("has_cumulative_lengths gives the length of each sequence, so ",
                   desc.has_kv_lengths ? "has_kv_lengths" : "has_query_lengths", " cannot be set as well");
  }
  if (desc.has_cumulative_query_lengths) {
    return invalid(
        "has_cumulative_lengths packs queries and keys, has_cumulative_query_lengths queries alone, so both "
        "cannot be set");
  }
  if (desc.cache.mapping != KeyMapping::kContiguous) {
    return invalid(
        "has_cumulative_lengths packs the keys too, so they must be contiguous, but "
        "cache.mapping is ",
        desc.cache.mapping == KeyMapping::kRing ? "kRing" : "kPaged",
        "; has_cumulative_query_lengths packs the queries alone");
  }
  return check_size("total_kv_length", desc.total_kv_length, 0, kMaxTotalLength);
}

Status check_packed_queries(const AttentionDesc& desc) {
  if (!desc.has_packed_queries()) return {};
  if (desc.has_query_lengths) {
    return invalid(
        "has_cumulative_query_lengths gives the number of queries of each batch entry, so has_query_lengths "
        "cannot be set as well");
  }
  return check_size("total_query_length", desc.total_query_length, 0, kMaxTotalLength);
}

}  // namespace

Status check_cache(const CacheLayout& cache) {
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
  if (Status s = check_size("cache.page_size", cache.page_size, 1, kMaxLength); !s) return s;
  if (Status s = check_size("cache.page_count", cache.page_count, 1, kMaxLength); !s) return s;
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

Status check_features(const AttentionDesc& desc) {
  if (Status s = check_scores(desc); !s) return s;
  if (Status s = check_packed_sequences(desc); !s) return s;
  if (Status s = check_packed_queries(desc); !s) return s;
  if (Status s = check_cache(desc.cache); !s) return s;
  const std::int64_t most = cache_capacity(desc.cache, desc.kv_length);
  if (desc.kv_length > most) {
    return invalid("kv_length is ", desc.kv_length, " but a page table with ", desc.cache.page_table_stride,
                   " pages of ", desc.cache.page_size, " keys holds ", most);
  }
  return {};
}

std::string first_feature(const AttentionDesc& desc) {
  if (desc.mask.type != MaskType::kNone) return "a mask";
  if (desc.window != SlidingWindow{}) return "a sliding window";
  if (desc.softcap != 0) return "softcap";
  if (desc.alibi != Alibi::kNone) return "ALiBi";
  if (desc.has_sinks) return "sinks";
  if (desc.dropout != 0) return "dropout";
  if (desc.has_query_lengths) return "query lengths";
  if (desc.has_cumulative_lengths) return "packed sequences";
  if (desc.has_cumulative_query_lengths) return "packed queries";
  if (desc.cache.mapping == KeyMapping::kRing) return "a ring of keys";
  if (desc.cache.mapping == KeyMapping::kPaged) return "paged keys";
  for (const TensorDesc* tensor : {&desc.key, &desc.value}) {
    if (is_quantised(tensor->type)) return message(name(tensor->type), " storage");
  }
  if (desc.weights != WeightsStage::kNone) return "attention weights";
  if (desc.has_score_function) return "a score function";
  return {};
}

bool has_features(const AttentionDesc& desc) {
  const bool scores = desc.mask.type != MaskType::kNone || desc.window != SlidingWindow{} ||
                      desc.softcap != 0 || desc.alibi != Alibi::kNone || desc.has_sinks ||
                      desc.dropout != 0 || desc.has_score_function || desc.weights != WeightsStage::kNone;
  return scores || desc.has_query_lengths || desc.has_cumulative_query_lengths || has_movable_keys(desc);
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
  const MaskDesc& mask = desc.mask;
  const Strides& strides = mask.strides;
  const TensorExtents extents = score_extents(desc);
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
