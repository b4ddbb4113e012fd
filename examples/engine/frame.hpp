// The objects that a frame of engine_frame.cpp uses.
#pragma once

#include <vkattn/cache.hpp>

#include <array>
#include <memory>

#include "memory.hpp"
#include "pipelines.hpp"

namespace engine {

constexpr std::uint32_t kQueryHeads = 4, kKvHeads = 2, kDim = 16, kCapacity = 48;
constexpr std::uint32_t kBars = kQueryHeads * kDim, kBarWidth = 4;
constexpr VkExtent2D kExtent{kBars * kBarWidth, 64};

struct Plans {
  vkattn::AppendPlan append;
  vkattn::AttentionPlan attention;
};

inline Plans make_plans(const vkattn::Device& device) {
  vkattn::AppendDesc append;
  append.kv_heads = kKvHeads;
  append.new_length = 1;
  append.head_dim = kDim;
  append.cache_length = kCapacity;
  append.has_positions = append.writes_kv_lengths = true;  // the cache's length stays on the device
  vkattn::AttentionDesc attention;
  attention.query_heads = kQueryHeads;
  attention.kv_heads = kKvHeads;
  attention.query_length = 1;
  attention.kv_length = kCapacity;  // at most
  attention.kv_lengths = vkattn::Lengths::kPerEntry;
  attention.head_dim = kDim;
  return {example::checked(vkattn::AppendPlan::create(device, append)),
          example::checked(vkattn::AttentionPlan::create(device, attention))};
}

// The cache is shared by all frames, which run one after the other on the queue.
struct Cache {
  explicit Cache(const Memory& memory)
      : key(memory, kKvHeads * kCapacity * kDim * 4, VK_BUFFER_USAGE_STORAGE_BUFFER_BIT),
        value(memory, kKvHeads * kCapacity * kDim * 4, VK_BUFFER_USAGE_STORAGE_BUFFER_BIT),
        length(memory, 4, VK_BUFFER_USAGE_STORAGE_BUFFER_BIT) {}
  Buffer key, value, length;
};

// The objects of one frame in flight.
struct Frame {
  Frame(const example::Gpu& gpu, const Memory& memory, const Pipelines& pipelines, const Plans& plans,
        const Cache& cache, VkCommandBuffer allocated)
      : commands(allocated),
        query(memory, kBars * 4, VK_BUFFER_USAGE_STORAGE_BUFFER_BIT),
        key(memory, kKvHeads * kDim * 4, VK_BUFFER_USAGE_STORAGE_BUFFER_BIT),
        value(memory, kKvHeads * kDim * 4, VK_BUFFER_USAGE_STORAGE_BUFFER_BIT),
        output(memory, kBars * 4, VK_BUFFER_USAGE_STORAGE_BUFFER_BIT),
        bars(memory, kBars * 4, VK_BUFFER_USAGE_STORAGE_BUFFER_BIT),
        pixels(memory, kExtent.width * kExtent.height * 4, VK_BUFFER_USAGE_TRANSFER_DST_BIT),
        image(gpu, memory, kExtent, kFormat) {
    const std::array<VkBuffer, kBindings> buffers{query.handle(), key.handle(), value.handle(),
                                                  output.handle(), bars.handle()};
    set = pipelines.make_set(buffers);
    vkattn::AppendTensors rows;
    rows.key = key.range();
    rows.value = value.range();
    rows.cache_key = cache.key.range();
    rows.cache_value = cache.value.range();
    rows.positions = rows.kv_lengths = cache.length.range();
    append.emplace(example::checked(plans.append.make_bindings(rows)));
    vkattn::AttentionTensors tensors;
    tensors.query = query.range();
    tensors.key = cache.key.range();
    tensors.value = cache.value.range();
    tensors.kv_lengths = cache.length.range();
    tensors.output = output.range();
    const vkattn::PlanRequirements needs = plans.attention.requirements();
    if (needs.workspace_bytes != 0) {
      workspace = std::make_unique<Buffer>(memory, needs.workspace_bytes, needs.workspace_usage);
    }
    attention.emplace(example::checked(
        plans.attention.make_bindings(tensors, workspace ? workspace->range() : vkattn::BufferRange{})));
  }

  VkCommandBuffer commands;
  Buffer query, key, value, output, bars, pixels;
  Image image;
  std::unique_ptr<Buffer> workspace;
  VkDescriptorSet set = VK_NULL_HANDLE;
  std::optional<vkattn::Bindings> append, attention;
};

}  // namespace engine
