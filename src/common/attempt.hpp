// Work that one thread does for all who ask for it meanwhile.
#pragma once

#include <vkattn/result.hpp>

#include <condition_variable>
#include <mutex>
#include <optional>
#include <utility>

namespace vkattn::detail {

/// The outcome of what one thread does without a lock, for those who wait for it. Shared by all of them, and
/// guarded by the mutex of whatever it belongs to.
template <class T>
class Attempt {
 public:
  /// Of the one who does it, with the lock held: wakes the others.
  const Result<T>& end(Result<T> outcome) {
    const Result<T>& kept = outcome_.emplace(std::move(outcome));
    ended_.notify_all();
    return kept;
  }
  /// Of the others: what end() was given.
  const Result<T>& wait(std::unique_lock<std::mutex>& lock) {
    ended_.wait(lock, [this] { return outcome_.has_value(); });
    return *outcome_;
  }

 private:
  std::condition_variable ended_;
  std::optional<Result<T>> outcome_;
};

}  // namespace vkattn::detail
