// Pipelines that programs of one device have in common.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <vector>

#include "common/attempt.hpp"
#include "vulkan/pipeline.hpp"

namespace vkattn::detail {

/// A pipeline that others may have too.
struct SharedPipeline {
  std::shared_ptr<const Pipeline> pipeline;
  bool is_new = false;  ///< made by the call that gave it
};

/// Hands out one pipeline to all who ask for the same while it lives: plans whose problems differ in lengths
/// and batches only, the steps of a layer, and a product and the small one that tests it. Keeps none alive
/// unless told to. One for each device; safe to use from several threads.
class SharedPipelines {
 public:
  /// The pipeline that was made of the same code, values and options, or a new one. Who asks for one that
  /// another thread is making waits for that thread's outcome, an error too; a later call tries again.
  /// Pipelines that differ are made at the same time. Errors: those of Pipeline::create().
  [[nodiscard]] Result<SharedPipeline> get(Shared<const DeviceState> device, const PipelineDesc& desc);

  /// Forgets the pipelines that were made with this cache. To be called before the cache's end, as the next
  /// cache may have its handle. Pipelines that are being made go only to the threads that wait for them.
  void forget(VkPipelineCache cache);

  /// Keeps the last `most` new pipelines alive, for tests that make many plans one after the other. They also
  /// keep the device's state alive, until keep(0).
  void keep(std::size_t most);
  /// Exchanges the known and kept pipelines of both, for tests in which a driver makes other code for a
  /// while. Pipelines that are being made go only to the threads that wait for them.
  void swap(SharedPipelines& other);

 private:
  /// Everything that a pipeline depends on. Two hashes of 64 bits stand for the code, as several score
  /// functions may use the same memory one after the other.
  struct Key {
    explicit Key(const PipelineDesc& desc);
    [[nodiscard]] bool operator==(const Key&) const = default;

    std::array<std::uint64_t, 2> code{};
    std::vector<SpecializationValue> specialization;
    PipelineLayoutDesc layout;
    std::uint32_t required_subgroup_size = 0;
    bool capture_statistics = false;
    /// Pipelines of different caches are not shared. A caller's cache may have the handle of a destroyed one.
    VkPipelineCache cache = VK_NULL_HANDLE;
  };
  struct Entry {
    Key key;
    std::weak_ptr<const Pipeline> pipeline;
  };
  using Making = Attempt<std::shared_ptr<const Pipeline>>;
  struct BeingMade {
    Key key;
    std::shared_ptr<Making> making;
  };

  /// With the lock held. Null: none lives.
  [[nodiscard]] std::shared_ptr<const Pipeline> find(const Key& key) const;
  /// With the lock held. Null: nobody makes it.
  [[nodiscard]] std::shared_ptr<Making> find_being_made(const Key& key) const;
  /// With the lock held: later calls find it.
  void add(Key key, const std::shared_ptr<const Pipeline>& pipeline);

  std::mutex mutex_;
  std::vector<Entry> entries_;
  std::vector<BeingMade> being_made_;
  std::size_t most_kept_ = 0;
  std::deque<std::shared_ptr<const Pipeline>> kept_;
};

}  // namespace vkattn::detail
