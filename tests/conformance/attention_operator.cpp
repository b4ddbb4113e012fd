// Turns a case into a problem of the library: see attention_operator.hpp.
#include "conformance/attention_operator.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <limits>
#include <span>
#include <stdexcept>
#include <string_view>
#include <type_traits>
#include <utility>

#include "common/message.hpp"

namespace vkattn::tests {
namespace {

using detail::message;

constexpr std::array<std::string_view, 9> kInputs = {
    "Q", "K", "V", "attn_mask", "past_key", "past_value", "nonpad_kv_seqlen", "alibi_slopes", "sinks"};
constexpr std::array<std::string_view, 5> kOutputs = {"Y", "present_key", "present_value", "qk_matmul_output",
                                                      "lse"};
// softmax_precision asks for at least the precision of a type, and every softmax here is in float32.
constexpr std::array<std::string_view, 11> kAttributes = {
    "q_num_heads",           "kv_num_heads",      "scale",        "softcap",     "is_causal",
    "qk_matmul_output_mode", "softmax_precision", "bottom_right", "window_left", "window_right",
    "standard_alibi"};

[[noreturn]] void refuse(const Case& test_case, const std::string& why) {
  throw std::runtime_error(message("the case ", test_case.name, " ", why));
}

/// Every part of a case must be known. Nothing is ignored.
void check_names(const Case& test_case) {
  const auto check = [&](const char* kind, std::span<const std::string_view> known, const std::string& name) {
    if (std::find(known.begin(), known.end(), name) == known.end())
      refuse(test_case, message("has an ", kind, " ", name));
  };
  for (const auto& [name, value] : test_case.attributes) check("attribute", kAttributes, name);
  for (const CaseTensor& tensor : test_case.inputs) check("input", kInputs, tensor.role);
  for (const CaseTensor& tensor : test_case.outputs) check("output", kOutputs, tensor.role);
  for (const std::string_view role : {"Q", "K", "V"}) {
    const CaseTensor* const tensor = test_case.input(role);
    if (tensor == nullptr || (tensor->shape.size() != 3 && tensor->shape.size() != 4)) {
      refuse(test_case, message("has no ", role, " of 3 or 4 dimensions"));
    }
  }
}

/// The extents (batch, heads, rows, dims), whether the heads are a dimension of the tensor or lie within its
/// rows.
TensorExtents extents_of(const CaseTensor& tensor, std::int64_t heads) {
  const std::vector<std::int64_t>& shape = tensor.shape;
  if (shape.size() == 4) return {shape[0], shape[1], shape[2], shape[3]};
  return {shape[0], heads, shape[1], shape[2] / std::max<std::int64_t>(heads, 1)};
}

/// Copies a tensor's rows into a tensor of (batch, heads, all_rows, dims), from a row on.
void put_rows(const CaseTensor& tensor, const TensorExtents& extents, std::int64_t first_row,
              std::int64_t all_rows, std::vector<std::byte>& to) {
  const std::size_t row_bytes = static_cast<std::size_t>(extents.dims) * element_bytes(tensor.type);
  for (std::int64_t b = 0; b < extents.batch; ++b) {
    for (std::int64_t h = 0; h < extents.heads; ++h) {
      for (std::int64_t row = 0; row < extents.rows; ++row) {
        const std::int64_t from_row = tensor.shape.size() == 4 ? (b * extents.heads + h) * extents.rows + row
                                                               : (b * extents.rows + row) * extents.heads + h;
        const std::int64_t to_row = (b * extents.heads + h) * all_rows + first_row + row;
        std::memcpy(to.data() + static_cast<std::size_t>(to_row) * row_bytes,
                    tensor.bytes.data() + static_cast<std::size_t>(from_row) * row_bytes, row_bytes);
      }
    }
  }
}

/// A cache is larger than its contents. No kernel may use the spare rows.
constexpr std::int64_t kSpareRows = 3;

/// The contents of a cache: NaN, the past, and after it the new rows if they are given.
std::vector<std::byte> cache_content(const CaseTensor* past, const CaseTensor* tensor,
                                     const TensorExtents& extents, ElementType type) {
  std::vector<std::byte> bytes(
      static_cast<std::size_t>(extents.batch * extents.heads * extents.rows * extents.dims) *
          element_bytes(type),
      std::byte{0xff});
  if (past != nullptr) put_rows(*past, extents_of(*past, extents.heads), 0, extents.rows, bytes);
  const std::int64_t past_rows = past != nullptr ? past->shape[2] : 0;
  if (tensor != nullptr)
    put_rows(*tensor, extents_of(*tensor, extents.heads), past_rows, extents.rows, bytes);
  return bytes;
}

void set_sizes(const Case& test_case, AttentionDesc& desc) {
  const auto heads = [&](const char* attribute) {
    return static_cast<std::int64_t>(test_case.attribute(attribute, 0));
  };
  const TensorExtents query = extents_of(*test_case.input("Q"), heads("q_num_heads"));
  const TensorExtents key = extents_of(*test_case.input("K"), heads("kv_num_heads"));
  const TensorExtents value = extents_of(*test_case.input("V"), heads("kv_num_heads"));
  const CaseTensor* const past = test_case.input("past_key");
  desc.batch = query.batch;
  desc.query_heads = query.heads;
  desc.kv_heads = key.heads;
  desc.query_length = query.rows;
  desc.kv_length = key.rows + (past != nullptr ? past->shape[2] : 0);
  desc.head_dim = query.dims;
  desc.value_dim = value.dims;
}

/// Inputs of three dimensions keep their memory order. A cache has the layout of the operator's present, with
/// spare rows.
void set_strides(const Case& test_case, bool has_cache, AttentionDesc& desc) {
  AttentionDesc cache = desc;
  cache.kv_length += kSpareRows;
  cache.set_layout(Layout::kBhsd);
  cache = cache.resolved();
  desc.set_layout(test_case.input("Q")->shape.size() == 3 ? Layout::kBshd : Layout::kBhsd);
  if (has_cache) {
    desc.key.strides = cache.key.strides;
    desc.value.strides = cache.value.strides;
  }
  desc = desc.resolved();
}

/// The device appends K and V to the cache, whatever their order in memory.
void set_append(const Case& test_case, OperatorProblem& problem) {
  const AttentionDesc& desc = problem.desc;
  const CaseTensor* const past_key = test_case.input("past_key");
  const CaseTensor* const past_value = test_case.input("past_value");
  const CaseTensor& key = *test_case.input("K");
  const CaseTensor& value = *test_case.input("V");
  AppendDesc append{
      .batch = desc.batch, .kv_heads = desc.kv_heads, .head_dim = desc.head_dim, .value_dim = desc.value_dim};
  append.position = past_key != nullptr ? past_key->shape[2] : 0;
  append.new_length = desc.kv_length - append.position;
  append.cache_length = desc.kv_length + kSpareRows;
  append.set_layout(key.shape.size() == 3 ? Layout::kBshd : Layout::kBhsd);
  append.key.type = desc.key.type;
  append.value.type = desc.value.type;
  append.cache_key = desc.key;
  append.cache_value = desc.value;
  problem.append = append;
  const TensorExtents keys = cache_extents(append, append.head_dim);
  const TensorExtents values = cache_extents(append, append.value_dim);
  problem.caches[&AttentionTensors::key] = {cache_content(past_key, nullptr, keys, key.type), key.bytes};
  problem.caches[&AttentionTensors::value] = {cache_content(past_value, nullptr, values, value.type),
                                              value.bytes};
  problem.host[&AttentionTensors::key] = cache_content(past_key, &key, keys, key.type);
  problem.host[&AttentionTensors::value] = cache_content(past_value, &value, values, value.type);
}

void set_options(const Case& test_case, AttentionDesc& desc) {
  const auto number = [&](const char* attribute, std::int64_t otherwise) {
    return static_cast<std::int64_t>(test_case.attribute(attribute, static_cast<double>(otherwise)));
  };
  if (test_case.attributes.contains("scale")) {
    desc.scale = static_cast<float>(test_case.attribute("scale", 0));
  }
  desc.softcap = static_cast<float>(test_case.attribute("softcap", 0));
  desc.causal = number("is_causal", 0) != 0;
  desc.window = {number("window_left", kUnlimited), number("window_right", kUnlimited)};
  if (number("standard_alibi", 0) != 0) desc.alibi = Alibi::kStandard;
  // With a past, query 0 comes after it. With lengths or bottom_right, the last query lies at the last key.
  if (const CaseTensor* const past = test_case.input("past_key"); past != nullptr) {
    desc.align = Align::kOffset;
    desc.offset = past->shape[2];
  } else if (test_case.input("nonpad_kv_seqlen") != nullptr || number("bottom_right", 0) != 0) {
    desc.align = Align::kBottomRight;
  }
  desc.has_lse = test_case.output("lse") != nullptr;
  if (test_case.output("qk_matmul_output") != nullptr) {
    desc.weights = static_cast<WeightsStage>(number("qk_matmul_output_mode", 0) +
                                             static_cast<std::int64_t>(WeightsStage::kScores));
  }
}

/// The elements of an input in another type.
template <class T>
std::vector<std::byte> elements_as(const CaseTensor* tensor) {
  std::vector<T> values;
  for (std::size_t n = 0; tensor != nullptr && n < tensor->elements(); ++n) {
    constexpr double kMost = std::is_integral_v<T> ? std::numeric_limits<std::int32_t>::max() : HUGE_VAL;
    values.push_back(static_cast<T>(std::min(tensor->number(n), kMost)));
  }
  const auto bytes = std::as_bytes(std::span(values));
  return {bytes.begin(), bytes.end()};
}

void set_small_inputs(const Case& test_case, OperatorProblem& problem) {
  const auto& lengths = problem.host[&AttentionTensors::kv_lengths] =
      elements_as<std::int32_t>(test_case.input("nonpad_kv_seqlen"));
  if (!lengths.empty()) problem.desc.kv_lengths = Lengths::kPerEntry;
  const auto& sinks = problem.host[&AttentionTensors::sinks] = elements_as<float>(test_case.input("sinks"));
  problem.desc.has_sinks = !sinks.empty();
  const auto& slopes = problem.host[&AttentionTensors::alibi_slopes] =
      elements_as<float>(test_case.input("alibi_slopes"));
  if (!slopes.empty()) problem.desc.alibi = Alibi::kGiven;
}

MaskType mask_type(const Case& test_case, ElementType type) {
  if (type == ElementType::kBool) return MaskType::kBytes;
  if (type == ElementType::kFloat32) return MaskType::kFloat32;
  if (type == ElementType::kFloat16) return MaskType::kFloat16;
  refuse(test_case, "has a mask of a type that no kernel reads");
}

/// The mask's rows, each with `missing` more keys that are hidden.
std::vector<std::byte> padded_mask(const CaseTensor& mask, std::int64_t keys, std::int64_t missing) {
  const std::size_t size = element_bytes(mask.type);
  const std::size_t row_bytes = static_cast<std::size_t>(keys) * size;
  const std::uint32_t minus_infinity = mask.type == ElementType::kFloat16 ? 0xfc00U : 0xff800000U;
  const std::uint32_t hidden = mask.type == ElementType::kBool ? 0U : minus_infinity;
  std::vector<std::byte> bytes;
  for (std::size_t row = 0; row < mask.bytes.size(); row += row_bytes) {
    const auto first = mask.bytes.begin() + static_cast<std::ptrdiff_t>(row);
    bytes.insert(bytes.end(), first, first + static_cast<std::ptrdiff_t>(row_bytes));
    for (std::int64_t j = 0; j < missing; ++j) {
      const auto word = std::as_bytes(std::span(&hidden, 1));
      bytes.insert(bytes.end(), word.begin(), word.begin() + static_cast<std::ptrdiff_t>(size));
    }
  }
  return bytes;
}

/// The mask's dimensions are the last ones of (batch, query_heads, query_length, kv_length). A dimension of
/// size 1 repeats, the last one too. If the last dimension is otherwise too short, it hides the keys after
/// it.
void set_mask(const Case& test_case, OperatorProblem& problem) {
  const CaseTensor* const mask = test_case.input("attn_mask");
  if (mask == nullptr) return;
  const AttentionDesc& desc = problem.desc;
  std::vector<std::int64_t> shape = mask->shape;
  const std::int64_t keys = shape.empty() ? 0 : shape.back();
  if (keys < 1 || shape.size() > 4) refuse(test_case, "has a mask of 0 or of more than 4 dimensions");
  const std::int64_t missing = keys == 1 ? 0 : std::max<std::int64_t>(0, desc.kv_length - keys);
  problem.host[&AttentionTensors::mask] = missing > 0 ? padded_mask(*mask, keys, missing) : mask->bytes;
  shape.back() = keys + missing;
  shape.insert(shape.begin(), 4 - shape.size(), 1);
  const std::array<std::int64_t, 4> full = {desc.batch, desc.query_heads, desc.query_length, desc.kv_length};
  std::array<std::int64_t, 4> strides{};
  std::int64_t stride = 1;
  for (std::size_t dim = 4; dim-- > 0;) {
    if (shape[dim] != 1 && shape[dim] != full[dim]) {
      refuse(test_case, message("has a mask of size ", shape[dim], " where it must be 1 or ", full[dim]));
    }
    strides[dim] = shape[dim] == 1 ? 0 : stride;
    stride *= shape[dim];
  }
  problem.desc.mask = {mask_type(test_case, mask->type),
                       Strides{strides[0], strides[1], strides[2], strides[3]}};
}

/// Y has the type of Q.
void set_types(const Case& test_case, AttentionDesc& desc) {
  const std::pair<std::string_view, TensorDesc*> tensors[] = {
      {"Q", &desc.query}, {"Q", &desc.output}, {"K", &desc.key}, {"V", &desc.value}};
  for (const auto& [role, tensor] : tensors) {
    const std::optional<DataType> type = storage_type(test_case.input(role)->type);
    if (!type) refuse(test_case, message("has a type of ", role, " that no kernel stores"));
    tensor->type = *type;
  }
}

}  // namespace

OperatorProblem as_problem(const Case& test_case) {
  check_names(test_case);
  OperatorProblem problem;
  AttentionDesc& desc = problem.desc;
  const bool has_cache = test_case.input("past_key") != nullptr || test_case.output("present_key") != nullptr;
  set_types(test_case, desc);
  set_sizes(test_case, desc);
  set_strides(test_case, has_cache, desc);
  set_options(test_case, desc);
  set_small_inputs(test_case, problem);
  set_mask(test_case, problem);
  problem.host[&AttentionTensors::query] = test_case.input("Q")->bytes;
  problem.host[&AttentionTensors::key] = test_case.input("K")->bytes;
  problem.host[&AttentionTensors::value] = test_case.input("V")->bytes;
  if (has_cache) set_append(test_case, problem);
  return problem;
}

}  // namespace vkattn::tests
