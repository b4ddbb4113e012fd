// Executions of several plans in a row.
#include <vkattn/sequence.hpp>

#include <algorithm>

#include "common/message.hpp"
#include "operation/plan_state.hpp"

namespace vkattn {

namespace {

/// Checks an item against the first one. `number` counts from 1.
Result<void> check(const SequenceItem& item, const SequenceItem& first, std::size_t number) {
  using detail::invalid;
  if (item.plan == nullptr) return invalid("plan ", number, " of the sequence is null");
  if (item.bindings == nullptr) return invalid("the bindings of plan ", number, " of the sequence are null");
  if (!item.plan->has_made(*item.bindings)) {
    return invalid("the bindings of plan ", number, " of the sequence were made by another plan");
  }
  if (item.plan->state().device->device != first.plan->state().device->device) {
    return invalid("plan ", number, " of the sequence is on another VkDevice than plan 1");
  }
  if (!item.plan->is_compiled()) {
    return invalid("plan ", number, " of the sequence is not compiled yet: compile it and wait for it");
  }
  return {};
}

/// The part of a slice that lies in an item with `count` dispatches, the first of which has the number
/// `begin`.
RecordOptions part_of(const RecordOptions& slice, std::uint64_t begin, std::uint64_t count) {
  const std::uint64_t end = std::uint64_t{slice.first_dispatch} + slice.dispatch_count;
  const auto within = [&](std::uint64_t number) { return std::clamp(number, begin, begin + count) - begin; };
  RecordOptions part;
  part.first_dispatch = static_cast<std::uint32_t>(within(slice.first_dispatch));
  part.dispatch_count = static_cast<std::uint32_t>(within(end)) - part.first_dispatch;
  return part;
}

}  // namespace

Result<Sequence> Sequence::create(std::span<const SequenceItem> items) {
  return detail::without_exceptions([&]() -> Result<Sequence> {
    std::vector<Item> all;
    for (const SequenceItem& item : items) {
      if (Result<void> s = check(item, items.front(), all.size() + 1); !s) return s.error();
      const Shared<detail::BindingsState>& bindings = item.bindings->shared_state();
      all.push_back({bindings, bindings->program->desc().steps.size(), item.is_independent});
    }
    return Sequence(std::move(all));
  });
}

std::vector<DispatchInfo> Sequence::dispatches() const {
  std::vector<DispatchInfo> all;
  for (const Item& item : items_) {
    const std::vector<DispatchInfo> its = item.bindings->program->dispatches();
    all.insert(all.end(), its.begin(), its.end());
  }
  return all;
}

void Sequence::record(VkCommandBuffer commands, const RecordOptions& slice) const noexcept {
  std::uint64_t begin = 0;
  bool waits = slice.wait_for_earlier;  // before the slice's first dispatch
  for (const Item& item : items_) {
    RecordOptions part = part_of(slice, begin, item.dispatches);
    // The item's first timestamp is the last one of the item before.
    const std::uint64_t earlier = begin + part.first_dispatch - slice.first_dispatch;
    const bool is_continued = part.dispatch_count != 0 && earlier != 0;
    part.timestamps = slice.timestamps;
    part.first_timestamp = slice.first_timestamp + static_cast<std::uint32_t>(earlier);
    begin += item.dispatches;
    // Bindings may leave out dispatches, the first ones too. The item's barrier comes before its first one.
    if (!detail::Program::has_steps(*item.bindings, part)) {
      // Dispatches that the bindings leave out have timestamps too.
      if (slice.timestamps != VK_NULL_HANDLE)
        item.bindings->program->record(commands, *item.bindings, part, is_continued);
      continue;
    }
    const bool is_begun = part.first_dispatch > item.bindings->steps.begin;
    part.wait_for_earlier = waits || !(is_begun || item.is_independent);
    item.bindings->program->record(commands, *item.bindings, part, is_continued);
    waits = false;
  }
}

}  // namespace vkattn
