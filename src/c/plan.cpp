// Plans, bindings and recording in C.
#include <algorithm>
#include <condition_variable>
#include <span>
#include <vector>

#include "c/convert.hpp"
#include "c/handles.hpp"

using vkattn::AppendPlan;
using vkattn::AttentionPlan;
using vkattn::MergePlan;
using vkattn::Result;
namespace c = vkattn::c;

namespace {

template <class... Calls>
struct Overloaded : Calls... {
  using Calls::operator()...;
};
template <class... Calls>
Overloaded(Calls...) -> Overloaded<Calls...>;

vkattn::BufferRange workspace(const vkattn_execution& execution) {
  return {execution.workspace, execution.workspace_offset, execution.workspace_size};
}

// Of a plan that the caller wants made.
template <class Make>
vkattn_result create(vkattn_device* device, vkattn_plan** plan, vkattn_error* error, const Make& make) {
  return c::run(error, [&]() -> Result<void> {
    if (device == nullptr || plan == nullptr) return c::invalid("device or plan is null");
    *plan = nullptr;
    auto made = make();
    if (!made) return made.error();
    c::give(std::make_unique<vkattn_plan>(*std::move(made)), plan);
    return {};
  });
}

}  // namespace

vkattn_result vkattn_plan_create_attention(vkattn_device* device, const vkattn_attention_desc* desc,
                                           const vkattn_plan_options* options, vkattn_plan** plan,
                                           vkattn_error* error) {
  return create(device, plan, error, [&]() -> Result<AttentionPlan> {
    const auto problem = c::attention_desc(desc);
    if (!problem) return problem.error();
    const auto given = c::plan_options(options);
    if (!given) return given.error();
    return AttentionPlan::create(device->device, *problem, c::attention_options(*given));
  });
}

vkattn_result vkattn_plan_create_append(vkattn_device* device, const vkattn_append_desc* desc,
                                        const vkattn_plan_options* options, vkattn_plan** plan,
                                        vkattn_error* error) {
  return create(device, plan, error, [&]() -> Result<AppendPlan> {
    const auto problem = c::append_desc(desc);
    if (!problem) return problem.error();
    const auto given = c::plan_options(options);
    if (!given) return given.error();
    return AppendPlan::create(device->device, *problem, c::append_options(*given));
  });
}

vkattn_result vkattn_plan_create_merge(vkattn_device* device, const vkattn_merge_desc* desc,
                                       const vkattn_plan_options* options, vkattn_plan** plan,
                                       vkattn_error* error) {
  return create(device, plan, error, [&]() -> Result<MergePlan> {
    const auto problem = c::merge_desc(desc);
    if (!problem) return problem.error();
    const auto given = c::plan_options(options);
    if (!given) return given.error();
    return MergePlan::create(device->device, *problem, c::merge_options(*given));
  });
}

vkattn_result vkattn_plan_retain(vkattn_plan* plan) {
  return c::retain(plan);
}

vkattn_result vkattn_plan_release(vkattn_plan* plan) {
  return c::release(plan);
}

vkattn_result vkattn_plan_compile(vkattn_plan* plan, vkattn_error* error) {
  return c::run(error, [&]() -> Result<void> {
    if (plan == nullptr) return c::invalid("plan is null");
    return std::visit([](const auto& it) { return it.compile(); }, plan->plan);
  });
}

uint32_t vkattn_plan_is_compiled(const vkattn_plan* plan) {
  if (plan == nullptr) return 0;
  return std::visit([](const auto& it) { return it.is_compiled(); }, plan->plan) ? 1U : 0U;
}

namespace {

/// The jobs of one vkattn_prewarm, and who waits for them.
struct Prewarm {
  std::mutex mutex;
  std::condition_variable changed;
  std::size_t handed_over = 0;
  std::size_t done = 0;  ///< guarded by the mutex

  /// Also where `submit` is left by an exception: workers still have what was handed over.
  ~Prewarm() {
    std::unique_lock lock(mutex);
    changed.wait(lock, [&] { return done >= handed_over; });
  }
};

struct PrewarmJob {
  Prewarm* all = nullptr;
  vkattn_plan* plan = nullptr;
  Result<void> outcome{};

  static void run(void* data) {
    auto* const job = static_cast<PrewarmJob*>(data);
    job->outcome = std::visit([](const auto& it) { return it.compile(); }, job->plan->plan);
    // The last one leaves before the waiting thread may take the mutex away.
    const std::lock_guard lock(job->all->mutex);
    ++job->all->done;
    job->all->changed.notify_one();
  }
};

}  // namespace

vkattn_result vkattn_prewarm(vkattn_plan* const* plans, uint32_t count, vkattn_submit submit, void* user,
                             vkattn_error* error) {
  return c::run(error, [&]() -> Result<void> {
    if (count == 0) return {};
    if (plans == nullptr || submit == nullptr) return c::invalid("plans or submit is null");
    std::vector<PrewarmJob> jobs(count);
    for (std::uint32_t i = 0; i < count; ++i) {
      if (plans[i] == nullptr) return c::invalid(vkattn::detail::message("plan ", i, " is null"));
      jobs[i].plan = plans[i];
    }
    {
      Prewarm all;
      for (PrewarmJob& job : jobs) {
        job.all = &all;
        submit(user, &PrewarmJob::run, &job);
        ++all.handed_over;
      }
    }
    const auto failed =
        std::find_if(jobs.begin(), jobs.end(), [](const PrewarmJob& job) { return !job.outcome; });
    return failed != jobs.end() ? failed->outcome : Result<void>();
  });
}

vkattn_result vkattn_plan_get_requirements(const vkattn_plan* plan, vkattn_requirements* requirements,
                                           vkattn_error* error) {
  return c::run(error, [&]() -> Result<void> {
    if (plan == nullptr) return c::invalid("plan is null");
    const auto given = c::read(requirements, vkattn_requirements_init, "vkattn_requirements");
    if (!given) return given.error();
    const vkattn::PlanRequirements needs =
        std::visit([](const auto& it) { return it.requirements(); }, plan->plan);
    vkattn_requirements all = *given;
    all.workspace_bytes = needs.workspace_bytes;
    all.workspace_alignment = needs.workspace_alignment;
    all.workspace_usage = needs.workspace_usage;
    all.tensor_usage = needs.tensor_usage;
    all.descriptor_sets = needs.descriptor_sets;
    all.storage_buffers = needs.storage_buffers;
    all.dispatches = needs.dispatches;
    all.first_stages = needs.first_stages;
    all.first_access = needs.first_access;
    all.last_stages = needs.last_stages;
    all.last_access = needs.last_access;
    all.descriptor_set = needs.descriptor_set;
    all.push_constant_bytes = needs.push_constant_bytes;
    std::memcpy(requirements, &all, given->struct_size);
    return {};
  });
}

vkattn_result vkattn_plan_get_estimates(const vkattn_plan* plan, double* estimates, uint32_t* count,
                                        vkattn_error* error) {
  return c::run(error, [&]() -> Result<void> {
    if (plan == nullptr || count == nullptr) return c::invalid("plan or count is null");
    const auto dispatches = std::visit([](const auto& it) { return it.dispatches(); }, plan->plan);
    for (std::size_t i = 0; estimates != nullptr && i < dispatches.size() && i < *count; ++i) {
      estimates[i] = dispatches[i].estimated_ns;
    }
    *count = static_cast<uint32_t>(dispatches.size());
    return {};
  });
}

size_t vkattn_plan_describe(const vkattn_plan* plan, char* text, size_t capacity) {
  std::size_t bytes = 0;
  (void)c::run(nullptr, [&]() -> Result<void> {
    const std::string all = plan != nullptr
                                ? std::visit([](const auto& it) { return it.describe(); }, plan->plan)
                                : std::string();
    bytes = c::copy_text(all, text, capacity);
    return {};
  });
  return bytes;
}

size_t vkattn_plan_get_configuration(const vkattn_plan* plan, char* text, size_t capacity) {
  std::size_t bytes = 0;
  (void)c::run(nullptr, [&]() -> Result<void> {
    const auto* const attention = plan != nullptr ? std::get_if<AttentionPlan>(&plan->plan) : nullptr;
    bytes = c::copy_text(attention != nullptr ? attention->configuration() : std::string(), text, capacity);
    return {};
  });
  return bytes;
}

VkDeviceSize vkattn_plan_tensor_range(const vkattn_plan* plan, vkattn_tensor tensor, VkDeviceSize offset) {
  if (plan == nullptr || tensor >= c::tensor_members().size()) return 0;
  const c::TensorMembers& members = c::tensor_members()[tensor];
  return std::visit(
      Overloaded{[&](const AttentionPlan& it) -> VkDeviceSize {
                   return members.attention != nullptr ? it.range_bytes(members.attention, offset) : 0;
                 },
                 [&](const AppendPlan& it) -> VkDeviceSize {
                   return members.append != nullptr ? it.range_bytes(members.append, offset) : 0;
                 },
                 [&](const MergePlan& it) -> VkDeviceSize {
                   return members.merge != nullptr ? it.range_bytes(members.merge, offset) : 0;
                 }},
      plan->plan);
}

vkattn_result vkattn_bindings_create(vkattn_plan* plan, const vkattn_execution* execution,
                                     VkDescriptorPool pool, vkattn_bindings** bindings, vkattn_error* error) {
  return c::run(error, [&]() -> Result<void> {
    if (plan == nullptr || bindings == nullptr) return c::invalid("plan or bindings is null");
    *bindings = nullptr;
    const auto given = c::execution(execution);
    if (!given) return given.error();
    auto made = std::visit(Overloaded{[&](const AttentionPlan& it) -> Result<vkattn::Bindings> {
                                        const auto tensors = c::attention_tensors(*given);
                                        if (!tensors) return tensors.error();
                                        return it.make_bindings(*tensors, workspace(*given), pool);
                                      },
                                      [&](const AppendPlan& it) -> Result<vkattn::Bindings> {
                                        const auto tensors = c::append_tensors(*given);
                                        if (!tensors) return tensors.error();
                                        return it.make_bindings(*tensors, pool);
                                      },
                                      [&](const MergePlan& it) -> Result<vkattn::Bindings> {
                                        const auto tensors = c::merge_tensors(*given);
                                        if (!tensors) return tensors.error();
                                        return it.make_bindings(*tensors, pool);
                                      }},
                           plan->plan);
    if (!made) return made.error();
    c::give(std::make_unique<vkattn_bindings>(vkattn_bindings{plan->plan, *std::move(made)}), bindings);
    return {};
  });
}

vkattn_result vkattn_bindings_rewrite(vkattn_bindings* bindings, const vkattn_execution* execution,
                                      vkattn_error* error) {
  return c::run(error, [&]() -> Result<void> {
    if (bindings == nullptr) return c::invalid("bindings is null");
    const auto given = c::execution(execution);
    if (!given) return given.error();
    return std::visit(Overloaded{[&](const AttentionPlan& it) -> Result<void> {
                                   const auto tensors = c::attention_tensors(*given);
                                   if (!tensors) return tensors.error();
                                   return it.rewrite(bindings->bindings, *tensors, workspace(*given));
                                 },
                                 [&](const AppendPlan& it) -> Result<void> {
                                   const auto tensors = c::append_tensors(*given);
                                   if (!tensors) return tensors.error();
                                   return it.rewrite(bindings->bindings, *tensors);
                                 },
                                 [&](const MergePlan& it) -> Result<void> {
                                   const auto tensors = c::merge_tensors(*given);
                                   if (!tensors) return tensors.error();
                                   return it.rewrite(bindings->bindings, *tensors);
                                 }},
                      bindings->plan);
  });
}

vkattn_result vkattn_bindings_destroy(vkattn_bindings* bindings) {
  return c::destroy(bindings);
}

vkattn_result vkattn_record(vkattn_plan* plan, VkCommandBuffer commands, const vkattn_bindings* bindings,
                            const vkattn_record_options* options, vkattn_error* error) {
  return c::run(error, [&]() -> Result<void> {
    if (plan == nullptr || commands == nullptr || bindings == nullptr) {
      return c::invalid("plan, commands or bindings is null");
    }
    const auto how = c::record_options(options);
    if (!how) return how.error();
    return std::visit(
        [&](const auto& it) -> Result<void> {
          if (!it.has_made(bindings->bindings)) return c::invalid("these bindings were made by another plan");
          if (!it.is_compiled()) {
            return c::invalid("the plan is not compiled yet: call vkattn_plan_compile and wait for it");
          }
          it.record(commands, bindings->bindings, *how);
          return {};
        },
        plan->plan);
  });
}

vkattn_result vkattn_record_push(vkattn_plan* plan, VkCommandBuffer commands,
                                 const vkattn_execution* execution, const vkattn_record_options* options,
                                 vkattn_error* error) {
  return c::run(error, [&]() -> Result<void> {
    if (plan == nullptr || commands == nullptr) return c::invalid("plan or commands is null");
    const auto given = c::execution(execution);
    if (!given) return given.error();
    const auto how = c::record_options(options);
    if (!how) return how.error();
    return std::visit(Overloaded{[&](const AttentionPlan& it) -> Result<void> {
                                   const auto tensors = c::attention_tensors(*given);
                                   if (!tensors) return tensors.error();
                                   return it.record(commands, *tensors, workspace(*given), *how);
                                 },
                                 [&](const AppendPlan& it) -> Result<void> {
                                   const auto tensors = c::append_tensors(*given);
                                   if (!tensors) return tensors.error();
                                   return it.record(commands, *tensors, *how);
                                 },
                                 [&](const MergePlan& it) -> Result<void> {
                                   const auto tensors = c::merge_tensors(*given);
                                   if (!tensors) return tensors.error();
                                   return it.record(commands, *tensors, *how);
                                 }},
                      plan->plan);
  });
}
