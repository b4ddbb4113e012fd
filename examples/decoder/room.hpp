// Whether a device has room for what a program needs, before anything is made.
#pragma once

#include <vkattn/runtime.hpp>

#include <cstdint>
#include <string>
#include <vector>

namespace decoder {

// Bytes of several buffers, and of the largest of them.
struct Bytes {
  void add(std::int64_t count, std::uint64_t each);
  std::uint64_t all = 0, largest = 0;
};

// What takes memory, and how much.
struct Need {
  std::string what;
  std::uint64_t bytes;
};

// What a device has.
struct Room {
  [[nodiscard]] static Room of(const vkattn::Runtime& runtime, std::string advice);
  // Refuses a buffer that does not fit a binding, and what is held in all if it does not fit the memory.
  [[nodiscard]] vkattn::Result<void> check(const std::vector<Need>& buffers, const Need& all) const;

  std::string device;                   // its name
  std::uint64_t range = 0, memory = 0;  // bytes: maxStorageBufferRange, and the memory that buffers come from
  std::string advice;                   // the end of a refusal: what needs less
};

}  // namespace decoder
