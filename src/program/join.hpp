// A program made of others, which are recorded one after the other by the one executor.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "program/program.hpp"

namespace vkattn::detail {

/// Where a tensor of a program lies in the one that it becomes a part of.
struct JoinedTensor {
  enum class In : std::uint8_t {
    kNowhere,    ///< the part has no use for it
    kTensor,     ///< byte `byte` of the tensor `index`
    kWorkspace,  ///< byte `byte` of the workspace
    kNumbers,    ///< JoinedPart::numbers
  };
  In in = In::kNowhere;
  std::uint32_t index = 0;
  std::uint64_t byte = 0;
  std::uint64_t bytes = 0;  ///< from there on that are the part's; 0: all that is there
};

/// A program that becomes a part of another.
struct JoinedPart {
  const ProgramDesc& program;
  std::span<const JoinedTensor> tensors;  ///< of each tensor of the program
  std::uint64_t workspace_byte = 0;       ///< where its workspace begins in that of the whole
  bool waits = false;                     ///< for all parts before it
  /// Numbers that no call changes, which are a tensor of the part's; and their place in the workspace, for
  /// programs with push descriptors.
  std::span<const std::byte> numbers{};
  std::uint64_t numbers_byte = 0;
};

/// Adds the passes, sets and steps of a part. The tensors of `whole` are there already; they get what the
/// part asks of them: bytes, alignment, that they are written. Its numbers of passes begin at the returned
/// one.
[[nodiscard]] std::uint32_t join(const JoinedPart& part, ProgramDesc& whole);

}  // namespace vkattn::detail
