// Plans in C: made, compiled, asked; and keys of their descriptors.
#include <vkattn/plan_key.hpp>

#include <algorithm>
#include <condition_variable>
#include <span>
#include <string>
#include <vector>

#include "c/convert.hpp"
#include "c/handles.hpp"
#include "c/tensors.hpp"

using vkattn::Result;
namespace c = vkattn::c;

namespace {

/// Creates a plan of any kind. `to_desc` and `to_options` are its conversions.
template <class Plan, class Given, class Desc, class Options>
vkattn_result create(vkattn_device* device, const Given* desc, const vkattn_plan_options* options,
                     vkattn_plan** plan, vkattn_error* error, Result<Desc> (*to_desc)(const Given*),
                     Result<Options> (*to_options)(const vkattn_plan_options&, const char*)) {
  return c::run(error, [&]() -> Result<void> {
    if (Result<void> s = c::check_given({{device, "device"}, {plan, "plan"}}); !s) return s;
    *plan = nullptr;
    const auto problem = to_desc(desc);
    if (!problem) return problem.error();
    const auto given = c::plan_options(options);
    if (!given) return given.error();
    const auto how = to_options(*given, c::Kind<Plan>::kName);
    if (!how) return how.error();
    auto made = Plan::create(device->device, *problem, *how);
    if (!made) return made.error();
    c::give(std::make_unique<vkattn_plan>(*std::move(made)), plan);
    return {};
  });
}

}  // namespace

#define VKATTN_OPERATION(NAME, PLAN, DESC, WORDS, OPTIONS)                                         \
  vkattn_result vkattn_plan_create_##NAME(vkattn_device* device, const vkattn_##NAME##_desc* desc, \
                                          const vkattn_plan_options* options, vkattn_plan** plan,  \
                                          vkattn_error* error) {                                   \
    return create<vkattn::PLAN>(device, desc, options, plan, error, c::NAME##_desc, c::OPTIONS);   \
  }
#include "common/operations.def"

vkattn_result vkattn_plan_retain(vkattn_plan* plan) {
  return c::retain(plan);
}

vkattn_result vkattn_plan_release(vkattn_plan* plan) {
  return c::release(plan);
}

vkattn_result vkattn_plan_compile(vkattn_plan* plan, vkattn_error* error) {
  return c::run(error, [&]() -> Result<void> {
    if (Result<void> s = c::check_given({{plan, "plan"}}); !s) return s;
    return c::plan_of(*plan).compile();
  });
}

uint32_t vkattn_plan_is_compiled(const vkattn_plan* plan) {
  return c::is_alive(plan) && c::plan_of(*plan).is_compiled() ? 1U : 0U;
}

namespace {

/// The jobs of one vkattn_prewarm, and the thread that waits for them.
struct Prewarm {
  std::mutex mutex;
  std::condition_variable changed;
  std::size_t pending = 0;  ///< and not done; guarded by the mutex

  /// Waits also if `submit` throws, as workers may still run jobs that were handed over.
  ~Prewarm() {
    std::unique_lock lock(mutex);
    changed.wait(lock, [&] { return pending == 0; });
  }
};

struct PrewarmJob {
  Prewarm* all = nullptr;
  vkattn_plan* plan = nullptr;
  bool is_begun = false;  ///< guarded by the mutex of all
  Result<void> outcome{};

  static void run(void* data) {
    auto* const job = static_cast<PrewarmJob*>(data);
    {
      const std::lock_guard lock(job->all->mutex);
      job->is_begun = true;
    }
    job->outcome = c::plan_of(*job->plan).compile();
    // Under the lock, so that the waiting thread cannot destroy the mutex before this.
    const std::lock_guard lock(job->all->mutex);
    --job->all->pending;
    job->all->changed.notify_one();
  }
};

/// A job on its way to a worker, which may do it before `submit` returns.
class HandOver {
 public:
  explicit HandOver(PrewarmJob& job) : job_(job) {
    const std::lock_guard lock(job.all->mutex);
    ++job.all->pending;
  }
  HandOver(const HandOver&) = delete;
  HandOver& operator=(const HandOver&) = delete;
  /// If `submit` throws, the job is waited for only if a worker runs it already.
  ~HandOver() {
    const std::lock_guard lock(job_.all->mutex);
    if (!is_taken_ && !job_.is_begun) --job_.all->pending;
  }
  void taken() { is_taken_ = true; }

 private:
  PrewarmJob& job_;
  bool is_taken_ = false;
};

}  // namespace

vkattn_result vkattn_prewarm(vkattn_plan* const* plans, uint32_t count, vkattn_submit submit, void* user,
                             vkattn_error* error) {
  return c::run(error, [&]() -> Result<void> {
    if (count == 0) return {};
    if (Result<void> s = c::check_list(plans, count, "plans"); !s) return s;
    if (submit == nullptr) return c::invalid("submit is null");
    std::vector<PrewarmJob> jobs(count);
    for (std::uint32_t i = 0; i < count; ++i) {
      const std::string name = vkattn::detail::message("plans[", i, "]");
      if (Result<void> s = c::check_given({{plans[i], name.c_str()}}); !s) return s;
      jobs[i].plan = plans[i];
    }
    {
      Prewarm all;
      for (PrewarmJob& job : jobs) {
        job.all = &all;
        HandOver hand_over(job);
        submit(user, &PrewarmJob::run, &job);
        hand_over.taken();
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
    if (Result<void> s = c::check_given({{plan, "plan"}}); !s) return s;
    const auto given = c::read(requirements, vkattn_requirements_init, "vkattn_requirements");
    if (!given) return given.error();
    const vkattn::PlanRequirements needs = c::plan_of(*plan).requirements();
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
    all.parameter_bytes = needs.parameter_bytes;
    c::write_back(all, requirements);
    return {};
  });
}

size_t vkattn_plan_describe(const vkattn_plan* plan, char* text, size_t capacity) {
  return c::copy_words(plan, text, capacity, [](const vkattn_plan& it) { return c::plan_of(it).describe(); });
}

size_t vkattn_plan_get_configuration(const vkattn_plan* plan, char* text, size_t capacity) {
  return c::copy_words(plan, text, capacity,
                       [](const vkattn_plan& it) { return c::kernel_plan(it).configuration(); });
}

namespace {

/// Writes the key of a descriptor of any kind. `to_desc` is its conversion.
template <class Given, class Desc>
vkattn_result write_key(const Given* desc, char* text, size_t* bytes, vkattn_error* error,
                        Result<Desc> (*to_desc)(const Given*)) {
  return c::run(error, [&]() -> Result<void> {
    if (Result<void> s = c::check_given({{bytes, "bytes"}}); !s) return s;
    const auto problem = to_desc(desc);
    if (!problem) return problem.error();
    const std::string key = vkattn::plan_key(*problem);
    // With the 0 at its end.
    return c::copy_blob(std::as_bytes(std::span(key.c_str(), key.size() + 1)), "the key", text, bytes);
  });
}

}  // namespace

#define VKATTN_OPERATION(NAME, PLAN, DESC, WORDS, OPTIONS)                                          \
  vkattn_result vkattn_plan_key_##NAME(const vkattn_##NAME##_desc* desc, char* text, size_t* bytes, \
                                       vkattn_error* error) {                                       \
    return write_key(desc, text, bytes, error, c::NAME##_desc);                                     \
  }
#define VKATTN_EVERY_OPERATION
#include "common/operations.def"
