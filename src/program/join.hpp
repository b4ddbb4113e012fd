// A program joined from others, which the one executor records one after the other.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "program/program.hpp"

namespace vkattn::detail {

/// The place of a part's tensor in the whole program.
struct JoinedTensor {
  enum class In : std::uint8_t {
    kNowhere,    ///< the part does not use it
    kTensor,     ///< byte `byte` of the tensor `index`
    kWorkspace,  ///< byte `byte` of the workspace
    kNumbers,    ///< JoinedPart::numbers
  };
  In in = In::kNowhere;
  std::uint32_t index = 0;
  std::uint64_t byte = 0;
  std::uint64_t bytes = 0;  ///< the part's own bytes from there on; 0: all
};

/// A program that becomes a part of another.
struct JoinedPart {
  const ProgramDesc& program;
  std::span<const JoinedTensor> tensors;  ///< of each tensor of the program
  std::uint64_t workspace_byte = 0;       ///< where its workspace begins in that of the whole
  bool waits = false;                     ///< for all parts before it
  /// Constant numbers that are a tensor of the part, and their place in the workspace of programs with push
  /// descriptors.
  std::span<const std::byte> numbers{};
  std::uint64_t numbers_byte = 0;
};

/// Adds the passes, sets and steps of a part, and returns the number of its first pass. The tensors of
/// `whole` are there already; they take over bytes and alignment, and whether they are written.
[[nodiscard]] std::uint32_t join(const JoinedPart& part, ProgramDesc& whole);

}  // namespace vkattn::detail
