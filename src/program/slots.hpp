// The slots of descriptor sets that the bindings of a program take.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace vkattn::detail {

struct ProgramDesc;

/// Vulkan guarantees four storage buffers a stage, and shaders name many more than most problems use. Only
/// bindings that some set of the program binds have slots, from 0 on. A variable of another binding gets the
/// slot of its stand-in, and is never touched. A layout may also say itself which bindings have slots.
class Slots {
 public:
  Slots() = default;
  /// The slots of one layout of a program.
  explicit Slots(const ProgramDesc& program, std::uint32_t layout = 0);

  [[nodiscard]] std::uint32_t count() const { return static_cast<std::uint32_t>(bindings_.size()); }
  /// The binding of each slot.
  [[nodiscard]] std::span<const std::uint32_t> bindings() const { return bindings_; }
  /// Replaces the bindings of SPIR-V by slots (SPIR-V 1.6, sections 2.3 and 3.20).
  void renumber(std::span<std::uint32_t> spirv) const;

 private:
  std::vector<std::uint32_t> bindings_;  ///< by slot
  std::vector<std::uint32_t> slots_;     ///< by binding
};

}  // namespace vkattn::detail
