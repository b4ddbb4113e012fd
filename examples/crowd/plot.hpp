// The picture of frame_budget.cpp.
#pragma once

#include <vkattn/result.hpp>

#include <string>
#include <vector>

namespace crowd {

struct FrameTimes {
  double frame_ms = 0, budget_ms = 0;       // the requested times
  std::vector<double> interval, attention;  // of each frame, in milliseconds; attention 0: none in this frame
};

// Draws two panels: the time from frame to frame, and the device's time for attention with its budget.
vkattn::Result<void> draw(const FrameTimes& times, const std::string& device, const std::string& path);

}  // namespace crowd
