#include "problem.hpp"

#include <cmath>
#include <cstddef>
#include <cstring>
#include <optional>
#include <span>

namespace vkattn::ggml {

namespace {

/// Where ggml keeps the tensors and the numbers of the operator.
enum Source { kQuery, kKey, kValue, kMask, kSinks };
enum Parameter { kScale, kMaxBias, kSoftcap };

float parameter(const ggml_tensor& node, Parameter which) {
  float value = 0;
  std::memcpy(&value, &node.op_params[which], sizeof(value));
  return value;
}

std::optional<DataType> data_type(ggml_type type) {
  switch (type) {
    case GGML_TYPE_F32:
      return DataType::kFloat32;
    case GGML_TYPE_F16:
      return DataType::kFloat16;
    case GGML_TYPE_BF16:
      return DataType::kBfloat16;
    case GGML_TYPE_Q8_0:
      return DataType::kQ8_0;
    case GGML_TYPE_Q4_0:
      return DataType::kQ4_0;
    default:
      return std::nullopt;
  }
}

std::int64_t in_elements(const ggml_tensor& tensor, std::size_t bytes) {
  return static_cast<std::int64_t>(bytes / ggml_type_size(tensor.type)) * ggml_blck_size(tensor.type);
}

/// Sets the storage of a tensor whose dimensions are (dim, row, head, batch), or says what is wrong.
std::string describe(const ggml_tensor& tensor, const char* name, TensorDesc& desc) {
  const std::optional<DataType> type = data_type(tensor.type);
  if (!type) return std::string(name) + " is " + ggml_type_name(tensor.type) + ", which vkattn does not read";
  const std::size_t size = ggml_type_size(tensor.type);
  for (int i = 1; i < GGML_MAX_DIMS; ++i) {
    if (tensor.nb[i] % size != 0)
      return std::string(name) + " has a stride that is no multiple of its blocks";
  }
  if (tensor.nb[0] != size) return std::string(name) + " has gaps between the elements of a row";
  desc.type = *type;
  desc.strides = Strides{in_elements(tensor, tensor.nb[3]), in_elements(tensor, tensor.nb[2]),
                         in_elements(tensor, tensor.nb[1]), 1};
  return {};
}

/// ggml's slopes, of max_bias: those of ALiBi for max_bias 8.
float slope(std::int64_t head, std::int64_t heads, float max_bias) {
  std::int64_t power = 1;
  while (2 * power <= heads) power *= 2;
  if (head < power)
    return std::pow(std::exp2(-max_bias / static_cast<float>(power)), static_cast<float>(head + 1));
  return std::pow(std::exp2(-max_bias / 2 / static_cast<float>(power)),
                  static_cast<float>(2 * (head - power) + 1));
}

/// A mask of ggml is float16 (key, query, head, batch), and repeats over heads and batch entries.
std::string describe_mask(const ggml_tensor& node, AttentionDesc& desc) {
  const ggml_tensor& mask = *node.src[kMask];
  if (mask.type != GGML_TYPE_F16) return "the mask is no float16";
  if (mask.nb[0] != sizeof(std::uint16_t)) return "the mask has gaps between the elements of a row";
  if (mask.ne[0] < desc.kv_length || mask.ne[1] < desc.query_length) {
    return "the mask has fewer keys or rows than K or Q";
  }
  if (mask.ne[3] != 1 && mask.ne[3] != desc.batch) return "the mask repeats over some batch entries";
  desc.mask.type = MaskType::kFloat16;
  desc.mask.heads = mask.ne[2];
  desc.mask.strides = Strides{mask.ne[3] == 1 ? 0 : in_elements(mask, mask.nb[3]),
                              in_elements(mask, mask.nb[2]), in_elements(mask, mask.nb[1]), 1};
  if (parameter(node, kMaxBias) > 0) desc.alibi = Alibi::kTimesMask;
  return {};
}

std::string describe_shape(const ggml_tensor& node, AttentionDesc& desc) {
  const ggml_tensor &query = *node.src[kQuery], &key = *node.src[kKey], &value = *node.src[kValue];
  if (key.ne[1] != value.ne[1]) return "K and V differ in rows";
  if (key.ne[2] != value.ne[2]) return "K and V differ in heads";
  if (query.ne[3] != key.ne[3] || query.ne[3] != value.ne[3]) return "Q, K and V differ in batch entries";
  desc.batch = query.ne[3];
  desc.query_heads = query.ne[2];
  desc.kv_heads = key.ne[2];
  desc.query_length = query.ne[1];
  desc.kv_length = key.ne[1];
  desc.head_dim = query.ne[0];
  desc.value_dim = value.ne[0];
  if (query.type != GGML_TYPE_F32 || node.type != GGML_TYPE_F32) return "Q or the output is no float32";
  std::string reason = describe(query, "Q", desc.query);
  if (reason.empty()) reason = describe(key, "K", desc.key);
  if (reason.empty()) reason = describe(value, "V", desc.value);
  // The output's dimensions are (dim, head, query, batch).
  desc.output.strides =
      Strides{in_elements(node, node.nb[3]), in_elements(node, node.nb[1]), in_elements(node, node.nb[2]), 1};
  return reason;
}

HostInput input(const ggml_tensor& tensor) {
  return std::span(static_cast<const std::byte*>(tensor.data), ggml_nbytes(&tensor));
}

}  // namespace

Problem problem_of(const ggml_tensor& node) {
  Problem problem;
  AttentionDesc& desc = problem.desc;
  problem.reason = describe_shape(node, desc);
  if (!problem.reason.empty()) return problem;
  desc.scale = parameter(node, kScale);
  desc.softcap = parameter(node, kSoftcap);
  if (node.src[kSinks] != nullptr) desc.has_sinks = true;
  if (node.src[kMask] != nullptr) problem.reason = describe_mask(node, desc);
  if (!problem.reason.empty()) return problem;
  if (const Result<void> valid = validate(desc); !valid) problem.reason = valid.error().message;
  return problem;
}

HostTensors arrays_of(const ggml_tensor& node, const Problem& problem, std::vector<float>& slopes) {
  HostTensors arrays;
  arrays.query = input(*node.src[kQuery]);
  arrays.key = input(*node.src[kKey]);
  arrays.value = input(*node.src[kValue]);
  arrays.output = std::span(static_cast<std::byte*>(node.data), ggml_nbytes(&node));
  if (node.src[kSinks] != nullptr) arrays.sinks = input(*node.src[kSinks]);
  if (node.src[kMask] != nullptr) arrays.mask = input(*node.src[kMask]);
  if (problem.desc.alibi == Alibi::kTimesMask) {
    for (std::int64_t head = 0; head < problem.desc.query_heads; ++head) {
      slopes.push_back(slope(head, problem.desc.query_heads, parameter(node, kMaxBias)));
    }
    arrays.alibi_slopes = slopes;
  }
  return arrays;
}

}  // namespace vkattn::ggml
