// The descriptor of a backward pass: what is not given, and every rule that needs no device.
#include <vkattn/backward.hpp>

#include <utility>

#include "attention/tensor_rules.hpp"
#include "backward/gradient_table.hpp"
#include "common/message.hpp"

namespace vkattn {

namespace {

using detail::invalid;
using detail::unsupported;

bool adds(MaskType type) {
  return type == MaskType::kFloat32 || type == MaskType::kFloat16;
}

// Refuses problems that the forward pass can do and this one cannot.
Result<void> check_forward(const AttentionDesc& desc) {
  if (!desc.has_lse) {
    return invalid(
        "gradients need the log-sum-exp of each row: set AttentionDesc::has_lse and plan the forward pass "
        "with it");
  }
  for (const auto& [name, type] : {std::pair{"key", desc.key.type}, std::pair{"value", desc.value.type}}) {
    if (is_quantised(type)) {
      return unsupported("the type of ", name, " is ", vkattn::name(type),
                         ", which has no gradients; they are of float32, float16 and bfloat16");
    }
  }
  switch (desc.cache.mapping) {
    case KeyMapping::kRing:
      return unsupported("keys lie in a ring, which has no gradients; give them in one piece");
    case KeyMapping::kPaged:
      return unsupported("keys lie in pages, which have no gradients; give them in one piece");
    case KeyMapping::kContiguous:
      break;
  }
  if (desc.score_function) {
    return unsupported("the score function has no gradients: the library does not know its derivative");
  }
  return {};
}

Result<void> check_wanted(const BackwardDesc& desc) {
  const AttentionDesc& attention = desc.attention;
  if (!detail::any_gradient(desc))
    return invalid("no gradient is asked for; set has_grad_query or another of BackwardDesc");
  if (desc.has_grad_mask && !adds(attention.mask.type)) {
    return invalid("has_grad_mask is set, but the mask is ",
                   attention.mask.type == MaskType::kNone ? "not there" : "boolean",
                   "; only a mask of float32 or float16 has a gradient");
  }
  if (desc.has_grad_alibi_slopes && !has_given_slopes(attention.alibi)) {
    return invalid(
        "has_grad_alibi_slopes is set, but the slopes are not AttentionTensors::alibi_slopes; set "
        "alibi to kGiven or kTimesMask");
  }
  if (desc.has_grad_sinks && !attention.has_sinks) {
    return invalid("has_grad_sinks is set, but the problem has no sinks; set has_sinks");
  }
  return {};
}

Result<void> check_all(const BackwardDesc& desc) {
  if (Result<void> s = validate(desc.attention); !s) return s;
  if (Result<void> s = check_forward(desc.attention); !s) return s;
  if (Result<void> s = check_wanted(desc); !s) return s;
  for (const detail::GradientRow& row : detail::tensor_table<BackwardTensors>()) {
    if (!row.is_used(desc)) continue;
    const detail::NamedTensor tensor = row.named(desc);
    if (!tensor.desc.strides) {
      return invalid(tensor.name,
                     " has no strides; give them, or leave the tensor out for those of the other");
    }
    if (Result<void> s = detail::check_tensor(tensor, row.use); !s) return s;
  }
  return {};
}

}  // namespace

BackwardDesc BackwardDesc::resolved() const {
  BackwardDesc full = *this;
  full.attention.weights = WeightsStage::kNone;
  full.attention = full.attention.resolved();
  const auto fill = [](std::optional<TensorDesc>& gradient, const TensorDesc& tensor) {
    if (!gradient) gradient = tensor;
    if (!gradient->strides) gradient->strides = tensor.strides;
  };
  fill(full.grad_output, full.attention.output);
  fill(full.grad_query, full.attention.query);
  fill(full.grad_key, full.attention.key);
  fill(full.grad_value, full.attention.value);
  fill(full.grad_mask,
       TensorDesc{full.attention.mask.type == MaskType::kFloat16 ? DataType::kFloat16 : DataType::kFloat32,
                  full.attention.mask.strides, 0});
  if (attention.mask.heads == 1 && full.grad_mask->strides)
    full.grad_mask->strides->head = 0;  // as the mask's
  return full;
}

Result<void> validate(const BackwardDesc& given) {
  return detail::without_exceptions([&] { return check_all(given.resolved()); });
}

}  // namespace vkattn
