// Scenarios on a device that is borrowed from the program.
#pragma once

#include <vkattn/device.hpp>
#include <vkattn/device_features.hpp>

#include "failing_driver/scenario.hpp"

namespace vkattn::tests {

/// The device of the driver below the layer.
/// @{
[[nodiscard]] PhysicalDeviceDesc physical_device();
[[nodiscard]] Result<Device> borrow_device();
/// @}

class OnDevice : public Scenario {
 protected:
  Device device_ = borrow_device().value();
};

/// A descriptor pool of the caller. It is made and destroyed while no fault is armed, and its sets are
/// destroyed with it.
class OwnPool {
 public:
  OwnPool();
  OwnPool(const OwnPool&) = delete;
  OwnPool& operator=(const OwnPool&) = delete;
  ~OwnPool();
  [[nodiscard]] VkDescriptorPool get() const;
};

}  // namespace vkattn::tests
