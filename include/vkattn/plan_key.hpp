/// @file
/// What a cache of plans finds a plan by.
#pragma once

#include <vkattn/attention.hpp>
#include <vkattn/backward.hpp>
#include <vkattn/cache.hpp>
#include <vkattn/matmul.hpp>
#include <vkattn/merge.hpp>
#include <vkattn/multi_head_attention.hpp>

#include <string>

namespace vkattn {

/// A short text in ASCII, for a hash table: equal for descriptors that are equal in every member, different
/// for all others. A member that is left unset and the same member set to its default give different keys:
/// take plan_key(desc.resolved()) to find one plan for both. Of a score function the key has the object's
/// address, so it counts while something shares the object, as a plan with it does. Keys are of one version
/// of the library: do not store them. A plan also depends on its options, which are the caller's to add.
/// @{
[[nodiscard]] std::string plan_key(const AttentionDesc& desc);
[[nodiscard]] std::string plan_key(const AppendDesc& desc);
[[nodiscard]] std::string plan_key(const MergeDesc& desc);
[[nodiscard]] std::string plan_key(const BackwardDesc& desc);
[[nodiscard]] std::string plan_key(const MatmulDesc& desc);
[[nodiscard]] std::string plan_key(const MultiHeadAttentionDesc& desc);
[[nodiscard]] std::string plan_key(const MultiHeadAttentionBackwardDesc& desc);
/// @}

}  // namespace vkattn
