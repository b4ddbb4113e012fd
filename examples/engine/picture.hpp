// The picture of engine_frame.cpp.
#pragma once

#include <vkattn/result.hpp>

#include <cstdint>
#include <span>
#include <string>

namespace engine {

// A frame's pixels, R8G8B8A8 row by row, and what they show: of each head a bar for each number.
struct FramePicture {
  std::span<const std::uint32_t> pixels;
  std::uint32_t width = 0, heads = 0, keys = 0;
  std::string device;
};

vkattn::Result<void> save(const FramePicture& frame, const std::string& path);

}  // namespace engine
