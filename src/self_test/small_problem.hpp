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

/// The largest alignment that tensors of small problems promise. Every tensor in the buffer has it, even if
/// the plan's promise more; no kernel loads more bytes at a time.
inline constexpr std::uint32_t kSmallAlignment = 16;

/// The query rows of a KV head in a test.
enum class TestRows {
  kMany,       ///< the same for every problem: several blocks of them, the last one not full
  kOfProblem,  ///< as many as the problem has: for a kernel that is made for few, and refuses more
};

/// A problem with batch 1, BHSD and lse that does the same to its scores. The places of keys do not matter to
/// matrices.
[[nodiscard]] AttentionDesc small_problem(const AttentionDesc& desc, TestRows rows = TestRows::kMany);

/// A problem that takes long enough to be timed: rows for all compute units of the device, over 512 keys. All
/// problems of one pipeline have the same one, except for the heads of a group, and for TestRows::kOfProblem.
[[nodiscard]] AttentionDesc timed_problem(const AttentionDesc& desc, std::int64_t compute_units,
                                          TestRows rows = TestRows::kMany);

/// Tensors of both kinds of problems: random inputs, the same on every machine, and outputs whose elements
/// are NaN.
[[nodiscard]] PerTensor<std::vector<std::byte>> small_tensors(const AttentionDesc& desc);

/// The first output that differs from the float64 reference by more than its tolerance, in words; empty where
/// none does. For a batch of 1, BHSD. The types are those of the plan, which make the tolerance.
[[nodiscard]] std::string first_difference(const AttentionDesc& desc, const HostTensors& host,
                                           DataType probability_type,
                                           DataType arithmetic_type = DataType::kFloat32);

}  // namespace vkattn::detail
