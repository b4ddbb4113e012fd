// Sequences of plans, and frame budgets, in C.
#include <vkattn/frame_budget.hpp>
#include <vkattn/sequence.hpp>

#include <vector>

#include "c/convert.hpp"
#include "c/handles.hpp"

using vkattn::Result;
namespace c = vkattn::c;

struct vkattn_sequence {
  vkattn::Sequence sequence;
};

struct vkattn_frame_budget {
  vkattn::FrameBudget budget;
};

namespace {

Result<vkattn::SequenceItem> item_of(const vkattn_sequence_item& given) {
  if (Result<void> s = c::check_given({{given.plan, "plan"}, {given.bindings, "bindings"}}); !s)
    return s.error();
  if (given.reserved != 0) {
    return c::invalid("vkattn_sequence_item::reserved is ", given.reserved, " but must be 0");
  }
  return vkattn::SequenceItem{&c::plan_of(*given.plan), &given.bindings->bindings, given.is_independent != 0};
}

void give_budget(const std::vector<vkattn::DispatchInfo>& dispatches, vkattn_frame_budget** budget) {
  c::give(std::make_unique<vkattn_frame_budget>(vkattn_frame_budget{vkattn::FrameBudget(dispatches)}),
          budget);
}

}  // namespace

vkattn_result vkattn_sequence_create(const vkattn_sequence_item* items, uint32_t count,
                                     vkattn_sequence** sequence, vkattn_error* error) {
  return c::run(error, [&]() -> Result<void> {
    if (Result<void> s = c::check_given({{sequence, "sequence"}}); !s) return s;
    *sequence = nullptr;
    if (Result<void> s = c::check_list(items, count, "items"); !s) return s;
    std::vector<vkattn::SequenceItem> all;
    for (const vkattn_sequence_item& given : std::span(items, count)) {
      const auto item = item_of(given);
      if (!item) return item.error();
      all.push_back(*item);
    }
    auto made = vkattn::Sequence::create(all);
    if (!made) return made.error();
    c::give(std::make_unique<vkattn_sequence>(vkattn_sequence{std::move(*made)}), sequence);
    return {};
  });
}

vkattn_result vkattn_sequence_record(const vkattn_sequence* sequence, VkCommandBuffer commands,
                                     const vkattn_record_options* slice, vkattn_error* error) {
  return c::run(error, [&]() -> Result<void> {
    if (Result<void> s = c::check_given({{sequence, "sequence"}, {commands, "commands"}}); !s) return s;
    const auto how = c::record_options(slice);
    if (!how) return how.error();
    sequence->sequence.record(commands, *how);
    return {};
  });
}

vkattn_result vkattn_sequence_destroy(vkattn_sequence* sequence) {
  return c::destroy(sequence);
}

vkattn_result vkattn_frame_budget_create(const vkattn_plan* plan, vkattn_frame_budget** budget,
                                         vkattn_error* error) {
  return c::run(error, [&]() -> Result<void> {
    if (Result<void> s = c::check_given({{plan, "plan"}, {budget, "budget"}}); !s) return s;
    *budget = nullptr;
    give_budget(c::plan_of(*plan).dispatches(), budget);
    return {};
  });
}

vkattn_result vkattn_frame_budget_create_sequence(const vkattn_sequence* sequence,
                                                  vkattn_frame_budget** budget, vkattn_error* error) {
  return c::run(error, [&]() -> Result<void> {
    if (Result<void> s = c::check_given({{budget, "budget"}}); !s) return s;
    *budget = nullptr;
    if (Result<void> s = c::check_given({{sequence, "sequence"}}); !s) return s;
    give_budget(sequence->sequence.dispatches(), budget);
    return {};
  });
}

vkattn_result vkattn_frame_budget_next(vkattn_frame_budget* budget, double budget_ns,
                                       vkattn_record_options* slice, vkattn_error* error) {
  return c::run(error, [&]() -> Result<void> {
    if (Result<void> s = c::check_given({{budget, "budget"}, {slice, "slice"}}); !s) return s;
    const auto given = c::record_options(slice);
    if (!given) return given.error();
    const vkattn::RecordOptions next = budget->budget.next(budget_ns);
    slice->first_dispatch = next.first_dispatch;
    slice->dispatch_count = next.dispatch_count;
    return {};
  });
}

vkattn_result vkattn_frame_budget_measured(vkattn_frame_budget* budget, const vkattn_record_options* slice,
                                           double ns, vkattn_error* error) {
  return c::run(error, [&]() -> Result<void> {
    if (Result<void> s = c::check_given({{budget, "budget"}, {slice, "slice"}}); !s) return s;
    const auto given = c::record_options(slice);
    if (!given) return given.error();
    budget->budget.measured(*given, ns);
    return {};
  });
}

double vkattn_frame_budget_estimate(const vkattn_frame_budget* budget, const vkattn_record_options* slice) {
  double ns = -1;
  (void)c::run(nullptr, [&]() -> Result<void> {
    if (!c::is_alive(budget) || slice == nullptr) return {};
    const auto given = c::record_options(slice);
    if (given) ns = budget->budget.estimated_ns(*given);
    return {};
  });
  return ns;
}

uint32_t vkattn_frame_budget_is_done(const vkattn_frame_budget* budget) {
  return !c::is_alive(budget) || budget->budget.is_done() ? 1U : 0U;
}

vkattn_result vkattn_frame_budget_restart(vkattn_frame_budget* budget) {
  if (!c::is_alive(budget)) return VKATTN_ERROR_INVALID_ARGUMENT;
  budget->budget.restart();
  return VKATTN_SUCCESS;
}

vkattn_result vkattn_frame_budget_destroy(vkattn_frame_budget* budget) {
  return c::destroy(budget);
}
