// The picture of frame_budget.cpp, drawn by cairo if the build has it.
#pragma once

#include <string>
#include <vector>

namespace crowd {

struct FrameTimes {
  double frame_ms = 0, budget_ms = 0;       // the requested times
  std::vector<double> interval, attention;  // of each frame, in milliseconds; attention 0: none in this frame
};

// Draws two panels: the time from frame to frame, and the device's time for attention with its budget.
// Returns false if the picture could not be written.
bool draw(const FrameTimes& times, const std::string& path);

}  // namespace crowd
