/// @file
/// Executions of several plans in a row, recorded as one: a frame's slice may then span plans.
#pragma once

#include <vkattn/bindings.hpp>
#include <vkattn/recording.hpp>
#include <vkattn/result.hpp>

#include <cstdint>
#include <span>
#include <utility>
#include <vector>

namespace vkattn {

class Plan;

/// An execution of a Sequence.
struct SequenceItem {
  const Plan* plan = nullptr;          ///< of any operation; it may be destroyed once the sequence is made
  const Bindings* bindings = nullptr;  ///< that it has made; likewise
  /// It reads nothing that was written before, and overwrites nothing that was read or written before, the
  /// workspace included: no barrier comes before it. Otherwise one does, as of
  /// RecordOptions::wait_for_earlier, after all compute and transfers recorded before; before the first item
  /// too.
  bool is_independent = false;
};

/// Executions in their order, whose dispatches are numbered through, with the barriers between them. Slices
/// are those of RecordOptions, over all items. It shares what bindings and plans have, so that both may be
/// destroyed once it is made; bindings that are rewritten are rewritten for it too. Immutable; like its
/// bindings it is used by one thread at a time.
///
///     const SequenceItem items[] = {{&append, &rows}, {&attention, &tensors}, {&product, &weights}};
///     const Sequence token = Sequence::create(items).value();
///     FrameBudget frames(token.dispatches());
///     while (!frames.is_done()) {                        // once a frame
///       const RecordOptions slice = frames.next(2e6);    // 2 ms
///       token.record(commands, slice);
///       ...                                              // later, from timestamps around it
///       frames.measured(slice, took_ns);
///     }
class Sequence {
 public:
  /// Errors: a null pointer, a plan on another VkDevice than the first's, bindings that another plan made, a
  /// plan that is not compiled. Items may name one plan or the same bindings several times. No items are a
  /// sequence too.
  [[nodiscard]] static Result<Sequence> create(std::span<const SequenceItem> items);

  /// The dispatches of every plan, in order. record() leaves out those that an item's bindings leave out; of
  /// a slice of only these nothing is recorded. The names live as long as the sequence.
  [[nodiscard]] std::vector<DispatchInfo> dispatches() const;

  /// Records a slice as Plan::record() does, with the items' barriers. Slices are submitted in their order to
  /// one queue. No allocation, no wait, no lock. The caller orders the whole against everything else, and
  /// binds its own compute state again afterwards (Plan::requirements()).
  void record(VkCommandBuffer commands, const RecordOptions& slice = {}) const noexcept;

 private:
  struct Item {
    Shared<detail::BindingsState> bindings;
    std::uint64_t dispatches;  ///< of its plan
    bool is_independent;
  };
  explicit Sequence(std::vector<Item> items) : items_(std::move(items)) {}

  std::vector<Item> items_;
};

}  // namespace vkattn
