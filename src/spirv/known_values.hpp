// The values of a shader that are known before it runs.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "spirv/specialization.hpp"
#include "spirv/spirv.hpp"

namespace vkattn::detail {

/// Integers of 32 bits and booleans (0 or 1) of a module's ids, as far as specialization values decide them.
class KnownValues {
 public:
  using Instruction = SpirvInstruction<const std::uint32_t>;

  /// Ids are below `bound`.
  KnownValues(std::size_t bound, std::span<const SpecializationValue> specialization)
      : ids_(bound), specialization_(specialization) {}

  /// Learns what the instruction says, of all before the first function in their order, then of those that
  /// run; more of the others is harmless.
  void read(const Instruction& instruction);
  void know(std::uint32_t id, std::uint32_t value) {
    if (id < ids_.size()) ids_[id].value = value;
  }
  /// Whether its type is one of these, whatever its value; false if nothing was read of it.
  [[nodiscard]] bool is_of_known_type(std::uint32_t id) const { return id < ids_.size() && ids_[id].is_ours; }
  [[nodiscard]] std::optional<std::uint32_t> of(std::uint32_t id) const {
    return id < ids_.size() ? ids_[id].value : std::nullopt;
  }

 private:
  struct Id {
    std::optional<std::uint32_t> value;
    bool is_known_type = false;
    bool is_ours = false;  // a value of such a type
    /// The default of a specialization constant; later the value that it is given, if any.
    std::optional<std::uint32_t> specialized;
  };

  void read_constant(const Instruction& instruction);
  [[nodiscard]] std::optional<std::uint32_t> result(std::uint32_t op,
                                                    std::span<const std::uint32_t> operands) const;

  std::vector<Id> ids_;
  std::span<const SpecializationValue> specialization_;
};

}  // namespace vkattn::detail
