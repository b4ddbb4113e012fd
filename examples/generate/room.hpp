// Whether a device has room for a checkpoint and a graph.
#pragma once

#include "generate/graph.hpp"

namespace generate {

// What a device has.
struct Room {
  std::string device;                   // its name
  std::uint64_t range = 0, memory = 0;  // bytes: maxStorageBufferRange, and its own memory
  std::string advice;                   // the end of a refusal: what needs less
};

// The largest heap of the device's own memory. It bounds nothing if the device tells of none.
[[nodiscard]] std::uint64_t memory_of(VkPhysicalDevice device);

// For before anything is allocated: what is bound must fit a binding, and what is held, with so many bytes of
// workspaces, must fit the device.
[[nodiscard]] vkattn::Result<void> check_room(const Room& room, const Model& model, const Weights& weights,
                                              const GraphOptions& options, std::uint64_t workspaces = 0);

[[nodiscard]] std::string megabytes(std::uint64_t bytes);

}  // namespace generate
