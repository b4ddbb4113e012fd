// The picture of frame_budget.cpp, by cairo where the build has it.
#pragma once

#include <string>
#include <vector>

namespace crowd {

struct FrameTimes {
  double frame_ms = 0, budget_ms = 0;       // what was asked for
  std::vector<double> interval, attention;  // of each frame, in milliseconds; attention 0: none in this frame
};

// Two panels, one frame beside the other: time from frame to frame, and the device's time for attention with
// its budget. False where it could not be written.
bool draw(const FrameTimes& times, const std::string& path);

}  // namespace crowd
