// Runs work of a test in several threads at once.
#pragma once

#include <gtest/gtest.h>

#include <cstddef>
#include <thread>
#include <vector>

namespace vkattn::tests {

/// Calls `work` with 0, 1, 2 and so on, each in a thread of its own, and waits for all. must() ends the work
/// of its thread.
template <class Work>
void by_threads(std::size_t count, const Work& work) {
  std::vector<std::thread> threads;
  for (std::size_t i = 0; i < count; ++i) {
    threads.emplace_back([&work, i] {
      try {
        work(i);
      } catch (const testing::AssertionException&) {  // it was reported already
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

}  // namespace vkattn::tests
