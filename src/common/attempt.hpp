// Work that one thread does for all threads that ask for it meanwhile.
#pragma once

#include <vkattn/result.hpp>

#include <condition_variable>
#include <mutex>
#include <optional>
#include <utility>

namespace vkattn::detail {

/// The outcome of work that one thread does without a lock, for the threads that wait for it. All share it,
/// and the mutex of its owner guards it.
template <class T>
class Attempt {
 public:
  /// For the thread that did the work, with the lock held: wakes the others.
  const Result<T>& end(Result<T> outcome) {
    const Result<T>& kept = outcome_.emplace(std::move(outcome));
    ended_.notify_all();
    return kept;
  }
  /// For the other threads: waits for the outcome that end() is given.
  const Result<T>& wait(std::unique_lock<std::mutex>& lock) {
    ended_.wait(lock, [this] { return outcome_.has_value(); });
    return *outcome_;
  }

 private:
  std::condition_variable ended_;
  std::optional<Result<T>> outcome_;
};

}  // namespace vkattn::detail
