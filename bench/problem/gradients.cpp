// The gradients of a problem.
#include "problem/gradients.hpp"

namespace vkattn::bench {

BackwardDesc with_all_gradients(const AttentionDesc& desc) {
  BackwardDesc all;
  all.attention = desc;
  all.attention.has_lse = true;
  all.has_grad_mask = desc.mask.type == MaskType::kFloat32 || desc.mask.type == MaskType::kFloat16;
  all.has_grad_alibi_slopes = has_given_slopes(desc.alibi);
  all.has_grad_sinks = desc.has_sinks;
  return all;
}

}  // namespace vkattn::bench
