// What a plan holds.
#pragma once

#include <vkattn/plan.hpp>

#include <memory>
#include <string>
#include <vector>

#include "forward/layout.hpp"
#include "kernels/select.hpp"
#include "program/program.hpp"

namespace vkattn::detail {

struct PlanState {
  Shared<const DeviceState> device;
  AttentionDesc desc;
  PlanOptions options;  ///< as they were given
  Selection selection;
  std::string tuning_note;  ///< what became of the tuning file; may be empty
  ForwardLayout layout;     ///< no windows where nothing is to be computed
  std::shared_ptr<const Program> program;
  std::uint32_t kernel_pass = 0;
};

/// Of a plan whose kernel the caller has not named: missed_form().
[[nodiscard]] std::string missed_form_of(const PlanState& plan);

}  // namespace vkattn::detail
