// Values of a pipeline's specialization constants.
#pragma once

#include <cstdint>
#include <vector>

namespace vkattn::detail {

struct SpecializationValue {
  std::uint32_t id = 0;
  std::uint32_t value = 0;

  bool operator==(const SpecializationValue&) const = default;
};

using SpecializationValues = std::vector<SpecializationValue>;

}  // namespace vkattn::detail
