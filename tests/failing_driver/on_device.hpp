// Scenarios on a device that is borrowed from its program.
#pragma once

#include <vkattn/device.hpp>
#include <vkattn/device_features.hpp>

#include "failing_driver/scenario.hpp"

namespace vkattn::tests {

/// Of the driver that the layer has below it.
/// @{
[[nodiscard]] PhysicalDeviceDesc physical_device();
[[nodiscard]] Result<Device> borrow_device();
/// @}

class OnDevice : public Scenario {
 protected:
  Device device_ = borrow_device().value();
};

/// Of the caller's, made and destroyed where no fault is: the sets in it go with it.
class OwnPool {
 public:
  OwnPool();
  OwnPool(const OwnPool&) = delete;
  OwnPool& operator=(const OwnPool&) = delete;
  ~OwnPool();
  [[nodiscard]] VkDescriptorPool get() const;
};

}  // namespace vkattn::tests
