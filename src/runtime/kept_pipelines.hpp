// Merges a pipeline cache with its file, which other programs write too.
#pragma once

#include <cstddef>
#include <utility>
#include <vector>

namespace vkattn::detail {

class KeptPipelines {
 public:
  using Bytes = std::vector<std::byte>;

  KeptPipelines() = default;
  /// For a cache that was made from the file's bytes.
  explicit KeptPipelines(const Bytes& loaded) : own_(loaded), contained_(loaded) {}

  /// Whether the cache has nothing new since it was last written or loaded.
  [[nodiscard]] bool has(const Bytes& own) const { return own == own_; }

  /// The bytes to write: the cache's own, merged with the file's if others have added some. `merge(there)`
  /// gives both together, or nothing if the driver cannot; then the cache's are written alone.
  template <class Merge>
  [[nodiscard]] Bytes to_write(const Bytes& own, const Bytes& there, Merge&& merge) const {
    if (there.empty() || there == contained_) return own;
    Bytes both = merge(there);
    return both.empty() ? own : both;
  }

  /// Notes that the file was written. Pipelines that others have added are in the file but not in the cache,
  /// so the next time merges again.
  void wrote(Bytes own, const Bytes& written) {
    if (written == own) contained_ = own;
    own_ = std::move(own);
  }

 private:
  Bytes own_;        ///< of the cache, when it was last written or loaded
  Bytes contained_;  ///< a content of the file of which the cache has everything
};

}  // namespace vkattn::detail
