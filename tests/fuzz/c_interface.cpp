// Draws a sequence of calls of the C interface. Handles are alive and pointers are valid, because the library
// cannot check that. Every number may be any number. Every call must return, commands must stay within what
// was bound, and nothing may be left at the end.
#include <algorithm>
#include <array>
#include <string_view>
#include <vector>

#include "fuzz/call_arguments.hpp"
#include "fuzz/fuzz.hpp"
#include "support/host_vulkan.hpp"
#include "support/initial.hpp"

namespace {

using namespace vkattn;
using fuzz::require;
using tests::HostVulkan;

class Calls {
 public:
  Calls(const std::uint8_t* data, std::size_t size)
      : draw_(data, size),
        vulkan_(draw_.device()),
        parameters_(size % 3 == 0 ? size % 41 * 60 : 0),
        device_(HostVulkan::borrow(parameters_, size % 5 * 36)) {
    vkattn_error_init(&error_);
    pool_ = HostVulkan::pool();
  }
  Calls(const Calls&) = delete;
  Calls& operator=(const Calls&) = delete;

  void run() {
    for (int i = 0; i < 40 && !draw_.is_at_end(); ++i) call();
    release_all();
  }

 private:
  void call();
  [[nodiscard]] vkattn_result create(fuzz::PlanKind kind, const vkattn_plan_options& options,
                                     vkattn_plan*& plan);
  void make_plan();
  void ask_layer();
  void make_bindings();
  void rewrite();
  void record();
  void record_push();
  void sequence();
  void ask_plan();
  /// Asks for a list with room for some items.
  template <class Item, class Query, class Of>
  bool ask_list(Query* query, Of of, std::vector<Item>* given = nullptr) {
    std::array<Item, 3> items{};
    const std::uint32_t room = draw_.choice(items.size());
    std::uint32_t count = room;
    if (!ends(query(of, items.data(), &count, &error_))) return false;
    if (given != nullptr) given->assign(items.begin(), items.begin() + std::min(room, count));
    return true;
  }
  void query_choices();
  void prewarm();
  void budget();
  void self_test();
  void cache();
  void release_one();
  void release_all();

  /// Checks what every call promises: a message if it fails, and none if it succeeds.
  bool ends(vkattn_result result) {
    require(result <= VKATTN_SUCCESS && result >= VKATTN_ERROR_IO, "a result is one of the header's");
    const bool is_cut = error_.message[sizeof(error_.message) - 1] == '\0';
    require(is_cut, "a message ends in its memory");
    require((error_.message[0] == '\0') == (result == VKATTN_SUCCESS), "a failure has a message");
    return result == VKATTN_SUCCESS;
  }
  /// One of the live handles. Null if there is none.
  template <class Handle>
  Handle* pick(const std::vector<Handle*>& from) {
    return from.empty() ? nullptr : from[draw_.choice(static_cast<std::uint32_t>(from.size() - 1))];
  }

  fuzz::CallArguments draw_;
  HostVulkan vulkan_;
  /// Memory for parameters. The length of the input decides its size, so that saved inputs keep their
  /// meaning. Two thirds of the inputs have none.
  std::vector<std::byte> parameters_;
  vkattn_device* device_;
  VkDescriptorPool pool_;
  vkattn_error error_;
  std::vector<vkattn_plan*> plans_;
  std::vector<vkattn_bindings*> bindings_;
  std::vector<vkattn_pipeline_cache*> caches_;
};

vkattn_result Calls::create(fuzz::PlanKind kind, const vkattn_plan_options& options, vkattn_plan*& plan) {
  const auto made = [&](const auto& desc, auto* create) {
    return create(device_, &desc, &options, &plan, &error_);
  };
  switch (kind) {
    case fuzz::PlanKind::kAppend:
      return made(draw_.append(), vkattn_plan_create_append);
    case fuzz::PlanKind::kMerge:
      return made(draw_.merge(), vkattn_plan_create_merge);
    case fuzz::PlanKind::kBackward:
      return made(draw_.backward(), vkattn_plan_create_backward);
    case fuzz::PlanKind::kMatmul:
      return made(draw_.matmul(), vkattn_plan_create_matmul);
    case fuzz::PlanKind::kLayer:
      return made(draw_.layer(), vkattn_plan_create_multi_head_attention);
    case fuzz::PlanKind::kLayerBackward:
      return made(draw_.layer_backward(), vkattn_plan_create_multi_head_attention_backward);
    default:
      return made(draw_.attention(), vkattn_plan_create_attention);
  }
}

void Calls::make_plan() {
  const fuzz::PlanKind kind = draw_.kind();
  vkattn_plan_options options = draw_.options(kind);
  options.pipeline_cache = vkattn_pipeline_cache_handle(pick(caches_));
  vkattn_plan* plan = nullptr;
  require(ends(create(kind, options, plan)) == (plan != nullptr), "there is a plan where the call succeeds");
  if (plan != nullptr) plans_.push_back(plan);
}

void Calls::ask_layer() {
  const vkattn_multi_head_attention_desc desc = draw_.layer();
  std::array<vkattn_parameter, 3> parameters;
  std::uint32_t count = draw_.choice(parameters.size());
  (void)ends(vkattn_query_parameters(&desc, parameters.data(), &count, &error_));
  const vkattn_parameter parameter = draw_.parameter();
  std::array<float, 64> values{};
  // Counts as the library does, but modulo 2^64. The library must refuse more elements than there are values,
  // whatever number of values is given, and must refuse more than any memory has.
  const auto rows = static_cast<std::uint64_t>(parameter.rows);
  const auto columns = static_cast<std::uint64_t>(parameter.columns);
  const std::uint64_t elements = columns == 0 ? rows : rows * columns;
  const bool is_whole = columns == 0 || elements / columns == rows;
  const bool is_too_many = !is_whole || elements >= static_cast<std::uint64_t>(INT64_MAX);
  const std::uint64_t given = is_too_many && draw_.flag() ? static_cast<std::uint64_t>(INT64_MAX)
                                                          : std::min<std::uint64_t>(elements, values.size());
  const bool is_filled =
      ends(vkattn_initial_values(&parameter, draw_.choice(4), draw_.any(), values.data(), given, &error_));
  require(!is_filled || (is_whole && given == elements), "as many values are written as there is room for");
}

void Calls::make_bindings() {
  vkattn_plan* const plan = pick(plans_);
  if (plan == nullptr) return;
  const vkattn_execution execution = draw_.execution(plan);
  vkattn_bindings* bindings = nullptr;
  const VkDescriptorPool pool = draw_.rarely() ? pool_ : VkDescriptorPool{};
  const bool is_made = ends(vkattn_bindings_create(plan, &execution, pool, &bindings, &error_));
  require(is_made == (bindings != nullptr), "there are bindings where the call succeeds");
  if (bindings != nullptr) bindings_.push_back(bindings);
}

void Calls::rewrite() {
  vkattn_bindings* const bindings = pick(bindings_);
  vkattn_plan* const plan = pick(plans_);
  if (bindings == nullptr || plan == nullptr) return;
  const vkattn_execution execution = draw_.execution(plan);
  (void)ends(vkattn_bindings_rewrite(bindings, &execution, &error_));
}

void Calls::record() {
  vkattn_plan* const plan = pick(plans_);
  vkattn_bindings* const bindings = pick(bindings_);
  const vkattn_record_options slice = draw_.slice();
  HostVulkan::begin_commands();
  (void)ends(
      vkattn_record(plan, HostVulkan::commands(), bindings, draw_.rarely() ? nullptr : &slice, &error_));
}

void Calls::sequence() {
  std::array<vkattn_sequence_item, 3> items{};
  for (vkattn_sequence_item& item : items) {
    item = {pick(plans_), pick(bindings_), draw_.choice(2), draw_.rarely() ? 1U : 0U};
  }
  vkattn_sequence* sequence = nullptr;
  if (!ends(vkattn_sequence_create(items.data(), draw_.choice(3), &sequence, &error_))) return;
  vkattn_frame_budget* budget = nullptr;
  require(ends(vkattn_frame_budget_create_sequence(sequence, &budget, &error_)), "a sequence has a budget");
  for (int i = 0; i < 3; ++i) {
    auto slice = tests::initial(vkattn_record_options_init);
    require(ends(vkattn_frame_budget_next(budget, draw_.number(), &slice, &error_)), "there is a next slice");
    if (draw_.flag()) slice = draw_.slice();
    HostVulkan::begin_commands();
    (void)ends(vkattn_sequence_record(sequence, HostVulkan::commands(), &slice, &error_));
  }
  require(vkattn_frame_budget_destroy(budget) == VKATTN_SUCCESS, "a budget can be destroyed");
  require(vkattn_sequence_destroy(sequence) == VKATTN_SUCCESS, "a sequence can be destroyed");
}

void Calls::record_push() {
  vkattn_plan* const plan = pick(plans_);
  const vkattn_execution execution = draw_.execution(plan);
  const vkattn_record_options slice = draw_.slice();
  HostVulkan::begin_commands();
  (void)ends(vkattn_record_push(plan, HostVulkan::commands(), &execution, &slice, &error_));
}

void Calls::ask_plan() {
  const vkattn_plan* const plan = pick(plans_);
  std::array<char, 64> text{};
  const std::size_t capacity = draw_.choice(text.size());
  const std::size_t bytes = vkattn_plan_describe(plan, text.data(), capacity);
  require(capacity == 0 || text[std::min(bytes, capacity) - 1] == '\0', "a text ends in its memory");
  (void)vkattn_plan_get_configuration(plan, nullptr, 0);
  (void)vkattn_device_describe(device_, text.data(), capacity);
  vkattn_kernel_choice choice;
  (void)ends(vkattn_plan_get_choice(plan, &choice, &error_));
  vkattn_block_mask_layout layout;
  (void)ends(vkattn_plan_get_block_mask_layout(plan, &layout, &error_));
  (void)ask_list<double>(vkattn_plan_get_estimates, plan);
  (void)ask_list<vkattn_dispatch>(vkattn_plan_get_dispatches, plan);
  (void)ask_list<vkattn_pipeline>(vkattn_plan_get_pipelines, plan);
  vkattn_data_type type = 0;
  (void)ends(vkattn_plan_get_probability_type(plan, &type, &error_));
  (void)ends(vkattn_plan_get_arithmetic_type(plan, &type, &error_));
  std::uint32_t count = 0;
  (void)ends(vkattn_plan_get_statistics(plan, nullptr, &count, &error_));
  (void)ends(vkattn_plan_compile(pick(plans_), &error_));
  (void)vkattn_plan_needs_self_test(plan);
  // The plan of a step can be used like any other.
  std::vector<vkattn_layer_step> steps;
  (void)ask_list(vkattn_plan_get_steps, plan, &steps);
  for (const vkattn_layer_step& step : steps) plans_.push_back(step.plan);
}

void Calls::query_choices() {
  const vkattn_attention_desc desc = draw_.attention();
  std::size_t key_bytes = 0;
  (void)ends(vkattn_plan_key_attention(&desc, nullptr, &key_bytes, &error_));
  std::array<vkattn_kernel_choice, 3> choices;
  std::uint32_t count = draw_.choice(choices.size());
  (void)ends(vkattn_query_choices(device_, &desc, choices.data(), &count, &error_));
  std::array<vkattn_kernel_support, 3> kernels;
  count = kernels.size();
  (void)ends(vkattn_query_kernels_attention(device_, &desc, kernels.data(), &count, &error_));
}

void Calls::prewarm() {
  const auto at_once = [](void*, vkattn_job job, void* data) { job(data); };
  (void)ends(
      vkattn_prewarm(plans_.data(), static_cast<std::uint32_t>(plans_.size()), at_once, nullptr, &error_));
}

void Calls::budget() {
  if (draw_.rarely()) return sequence();
  const vkattn_plan* const plan = pick(plans_);
  vkattn_frame_budget* budget = nullptr;
  if (!ends(vkattn_frame_budget_create(plan, &budget, &error_))) return;
  auto needs = tests::initial(vkattn_requirements_init);
  require(vkattn_plan_get_requirements(plan, &needs, nullptr) == VKATTN_SUCCESS, "a plan tells its needs");
  for (int i = 0; i < 4; ++i) {
    vkattn_record_options slice = draw_.slice();
    if (draw_.flag()) (void)ends(vkattn_frame_budget_measured(budget, &slice, draw_.number(), &error_));
    (void)vkattn_frame_budget_estimate(budget, &slice);
    slice = tests::initial(vkattn_record_options_init);
    require(ends(vkattn_frame_budget_next(budget, draw_.number(), &slice, &error_)), "there is a next slice");
    require(slice.first_dispatch <= needs.dispatches &&
                slice.dispatch_count <= needs.dispatches - slice.first_dispatch,
            "a slice is one of the plan's");
    if (vkattn_frame_budget_is_done(budget) != 0) (void)vkattn_frame_budget_restart(budget);
  }
  require(vkattn_frame_budget_destroy(budget) == VKATTN_SUCCESS, "a budget can be destroyed");
}

void Calls::self_test() {
  const vkattn_plan* const plan = pick(plans_);
  vkattn_self_test* test = nullptr;
  if (plan == nullptr || !ends(vkattn_self_test_create(device_, plan, VkPipelineCache{}, &test, &error_)))
    return;
  const VkDeviceSize bytes = vkattn_self_test_buffer_bytes(test);
  require(bytes != 0 && bytes < (1U << 26U), "a self-test is small");
  std::vector<std::byte> memory(bytes);
  const std::size_t given = draw_.rarely() ? memory.size() / 2 : memory.size();
  (void)ends(vkattn_self_test_fill(test, memory.data(), given, &error_));
  const VkBuffer buffer = HostVulkan::buffer(0, bytes);
  HostVulkan::begin_commands();
  (void)ends(vkattn_self_test_record(test, HostVulkan::commands(), buffer, 0, &error_));
  std::array<char, 100> difference{};
  (void)ends(
      vkattn_self_test_check(test, memory.data(), given, difference.data(), difference.size(), &error_));
  require(vkattn_self_test_destroy(test) == VKATTN_SUCCESS, "a self-test can be destroyed");
}

void Calls::cache() {
  const std::vector<std::byte> blob = draw_.bytes(100);
  vkattn_pipeline_cache* cache = nullptr;
  if (ends(vkattn_pipeline_cache_create(device_, blob.data(), blob.size(), nullptr, 0, &cache, &error_))) {
    caches_.push_back(cache);
  }
  std::size_t bytes = draw_.choice(100);
  std::vector<std::byte> target(bytes);
  (void)ends(vkattn_pipeline_cache_save(pick(caches_), target.data(), &bytes, &error_));
}

void Calls::release_one() {
  if (draw_.flag()) {
    vkattn_bindings* const bindings = pick(bindings_);
    std::erase(bindings_, bindings);
    require(vkattn_bindings_destroy(bindings) == VKATTN_SUCCESS, "bindings can be destroyed");
    return;
  }
  vkattn_plan* const plan = pick(plans_);
  std::erase(plans_, plan);
  if (plan != nullptr && draw_.flag()) {
    require(vkattn_plan_retain(plan) == VKATTN_SUCCESS, "a plan that is alive is retained");
    require(vkattn_plan_release(plan) == VKATTN_SUCCESS, "a reference more is one to release");
  }
  require(vkattn_plan_release(plan) == VKATTN_SUCCESS, "a plan can be released");
  if (plan == nullptr) return;
  require(vkattn_plan_release(plan) == VKATTN_ERROR_INVALID_ARGUMENT, "a handle too many is noticed");
  require(vkattn_plan_retain(plan) == VKATTN_ERROR_INVALID_ARGUMENT, "a dead handle is noticed");
}

void Calls::release_all() {
  // Plans keep the device alive, and bindings keep their plan alive.
  require(vkattn_device_release(device_) == VKATTN_SUCCESS, "a device can be released");
  for (vkattn_plan* const plan : plans_) {
    require(vkattn_plan_release(plan) == VKATTN_SUCCESS, "a plan can be released");
  }
  for (vkattn_bindings* const bindings : bindings_) {
    require(vkattn_bindings_destroy(bindings) == VKATTN_SUCCESS, "bindings can be destroyed");
  }
  for (vkattn_pipeline_cache* const cache : caches_) {
    require(vkattn_pipeline_cache_destroy(cache) == VKATTN_SUCCESS, "a cache can be destroyed");
  }
}

void Calls::call() {
  constexpr std::array kCalls = {
      &Calls::make_plan, &Calls::make_bindings, &Calls::record,   &Calls::record_push, &Calls::rewrite,
      &Calls::ask_plan,  &Calls::query_choices, &Calls::budget,   &Calls::self_test,   &Calls::cache,
      &Calls::prewarm,   &Calls::release_one,   &Calls::ask_layer};
  (this->*kCalls[draw_.choice(kCalls.size() - 1)])();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  Calls(data, size).run();
  return 0;
}
