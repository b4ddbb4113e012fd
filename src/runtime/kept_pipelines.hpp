// What a pipeline cache and its file, which other programs write too, have of each other.
#pragma once

#include <cstddef>
#include <utility>
#include <vector>

namespace vkattn::detail {

class KeptPipelines {
 public:
  using Bytes = std::vector<std::byte>;

  KeptPipelines() = default;
  /// Of a cache that was made from the file's bytes.
  explicit KeptPipelines(const Bytes& loaded) : own_(loaded), contained_(loaded) {}

  /// That the cache has nothing that it had not when it was last written or loaded.
  [[nodiscard]] bool has(const Bytes& own) const { return own == own_; }

  /// What the file is to hold: the cache's own bytes, with those in the file now that others have added
  /// since. `merge(there)` gives both together, or nothing where the driver cannot; then the cache's are kept
  /// alone.
  template <class Merge>
  [[nodiscard]] Bytes to_write(const Bytes& own, const Bytes& there, Merge&& merge) const {
    if (there.empty() || there == contained_) return own;
    Bytes both = merge(there);
    return both.empty() ? own : both;
  }

  /// The file was written. What others have added is in the file and not in the cache, so it is merged again
  /// the next time.
  void wrote(Bytes own, const Bytes& written) {
    if (written == own) contained_ = own;
    own_ = std::move(own);
  }

 private:
  Bytes own_;        ///< of the cache, when it was last written or loaded
  Bytes contained_;  ///< a content of the file of which the cache has everything
};

}  // namespace vkattn::detail
