/// @file
/// What a cache of plans finds a plan by.
#pragma once

#include <string>

namespace vkattn {

/// A short text in ASCII, for a hash table, of any operation's descriptor (AttentionDesc, MergeDesc and so
/// on). It is equal for descriptors that are equal in every member, different for all others. A member that
/// is left unset and the same member set to its default give different keys: take plan_key(desc.resolved())
/// to find one plan for both. Of a score function the key has the object's address, so it counts while
/// something shares the object, as a plan with it does. Keys are of one version of the library: do not store
/// them. A plan also depends on its options, which are the caller's to add.
template <class Desc>
[[nodiscard]] std::string plan_key(const Desc& desc);

}  // namespace vkattn
