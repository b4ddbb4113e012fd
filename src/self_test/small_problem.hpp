// The problems that self-tests run, and what is wrong with their results.
#pragma once

#include <vkattn/attention.hpp>
#include <vkattn/host_tensors.hpp>

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "attention/tensor_table.hpp"

namespace vkattn::detail {

/// What tensors of small problems promise of their places, at most. It is that of every tensor in the buffer,
/// whatever more the plan's were promised to have, and no kernel loads more bytes at a time.
inline constexpr std::uint32_t kSmallAlignment = 16;

/// The query rows of a KV head in a test.
enum class TestRows {
  kMany,       ///< the same for every problem: several blocks of them, the last one not full
  kOfProblem,  ///< as many as the problem has: for a kernel that is made for few, and refuses more
};

/// Of a batch of 1, BHSD and with lse: has what a problem does to its scores. Where its keys lie is of no
/// matter to the matrices.
[[nodiscard]] AttentionDesc small_problem(const AttentionDesc& desc, TestRows rows = TestRows::kMany);

/// One that takes long enough to be timed: rows for all of the device's compute units, over 512 keys.
/// Problems that one pipeline computes have the same, whatever their sizes, but for the heads of a group and
/// where rows are the problem's.
[[nodiscard]] AttentionDesc timed_problem(const AttentionDesc& desc, std::int64_t compute_units,
                                          TestRows rows = TestRows::kMany);

/// Tensors of either: random inputs, the same on every machine, and outputs of which each element is a NaN.
[[nodiscard]] PerTensor<std::vector<std::byte>> small_tensors(const AttentionDesc& desc);

/// The first output that differs from the float64 reference by more than its tolerance, in words; empty where
/// none does. For a batch of 1, BHSD. The types are those of the plan, which make the tolerance.
[[nodiscard]] std::string first_difference(const AttentionDesc& desc, const HostTensors& host,
                                           DataType probability_type,
                                           DataType arithmetic_type = DataType::kFloat32);

}  // namespace vkattn::detail
