// What the plan of an append holds.
#pragma once

#include <vkattn/cache.hpp>

#include <memory>

#include "program/program.hpp"

namespace vkattn::detail {

struct AppendState {
  Shared<const DeviceState> device;
  AppendDesc desc;
  std::shared_ptr<const Program> program;
};

}  // namespace vkattn::detail
