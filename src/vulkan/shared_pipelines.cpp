// Pipelines that programs have in common: see shared_pipelines.hpp.
#include "vulkan/shared_pipelines.hpp"

#include <algorithm>
#include <utility>

#include "common/message.hpp"
#include "common/mix.hpp"

namespace vkattn::detail {

SharedPipelines::Key::Key(const PipelineDesc& desc)
    : code{desc.words.size(), ~std::uint64_t{desc.words.size()}},
      specialization(desc.specialization.begin(), desc.specialization.end()),
      layout(desc.layout->desc()),
      required_subgroup_size(desc.required_subgroup_size),
      capture_statistics(desc.capture_statistics),
      cache(desc.cache) {
  for (std::size_t i = 0; i < desc.words.size(); i += 2) {
    const std::uint64_t high = i + 1 < desc.words.size() ? desc.words[i + 1] : 0;
    const std::uint64_t pair = high << 32U | desc.words[i];
    code[0] = mix(code[0] ^ pair);
    code[1] = mix(code[1] + pair * kGolden);
  }
}

std::shared_ptr<const Pipeline> SharedPipelines::find(const Key& key) const {
  for (const Entry& entry : entries_) {
    if (!(entry.key == key)) continue;
    if (std::shared_ptr<const Pipeline> pipeline = entry.pipeline.lock()) return pipeline;
  }
  return nullptr;
}

std::shared_ptr<SharedPipelines::Making> SharedPipelines::find_being_made(const Key& key) const {
  const auto found = std::find_if(being_made_.begin(), being_made_.end(),
                                  [&](const BeingMade& one) { return one.key == key; });
  return found != being_made_.end() ? found->making : nullptr;
}

void SharedPipelines::add(Key key, const std::shared_ptr<const Pipeline>& pipeline) {
  std::erase_if(entries_, [](const Entry& entry) { return entry.pipeline.expired(); });
  entries_.push_back({std::move(key), pipeline});
  if (most_kept_ == 0) return;
  if (kept_.size() == most_kept_) kept_.pop_front();
  kept_.push_back(pipeline);
}

void SharedPipelines::keep(std::size_t most) {
  std::deque<std::shared_ptr<const Pipeline>> dropped;  // they are destroyed without the lock
  const std::lock_guard lock(mutex_);
  most_kept_ = most;
  kept_.swap(dropped);
}

void SharedPipelines::forget(VkPipelineCache cache) {
  const std::lock_guard lock(mutex_);
  std::erase_if(entries_, [&](const Entry& entry) { return entry.key.cache == cache; });
  std::erase_if(being_made_, [&](const BeingMade& one) { return one.key.cache == cache; });
}

void SharedPipelines::swap(SharedPipelines& other) {
  const std::scoped_lock lock(mutex_, other.mutex_);
  entries_.swap(other.entries_);
  kept_.swap(other.kept_);
  std::swap(most_kept_, other.most_kept_);
  // Threads that make a pipeline or wait for it use the mutex that they began with.
  being_made_.clear();
  other.being_made_.clear();
}

Result<SharedPipeline> SharedPipelines::get(Shared<const DeviceState> device, const PipelineDesc& desc) {
  Key key(desc);
  std::unique_lock lock(mutex_);
  if (std::shared_ptr<const Pipeline> known = find(key)) return SharedPipeline{known, false};
  if (const std::shared_ptr<Making> others = find_being_made(key)) {
    const auto& outcome = others->wait(lock);
    if (!outcome) return outcome.error();
    return SharedPipeline{*outcome, false};
  }
  const auto making = std::make_shared<Making>();
  being_made_.push_back({key, making});
  // Without the lock: it takes long, and other threads compile others. Whatever is thrown, some may wait.
  lock.unlock();
  auto made = without_exceptions([&]() -> Result<std::shared_ptr<const Pipeline>> {
    auto pipeline = Pipeline::create(std::move(device), desc);
    if (!pipeline) return pipeline.error();
    return std::shared_ptr<const Pipeline>(std::make_shared<const Pipeline>(*std::move(pipeline)));
  });
  lock.lock();
  const bool is_forgotten =
      std::erase_if(being_made_, [&](const BeingMade& one) { return one.making == making; }) == 0;
  const auto& outcome = making->end(std::move(made));
  if (!outcome) return outcome.error();
  if (!is_forgotten) add(std::move(key), *outcome);
  return SharedPipeline{*outcome, true};
}

}  // namespace vkattn::detail
