// What a program sees of the library besides results: its allocator, its log, names and labels in captures,
// and changed state of a command buffer. Also, the library needs no single feature of a device.
#include <vkattn/backward.hpp>
#include <vkattn/cache.hpp>
#include <vkattn/device_features.hpp>
#include <vkattn/matmul.hpp>
#include <vkattn/merge.hpp>
#include <vkattn/multi_head_attention.hpp>
#include <vkattn/pipeline_cache.hpp>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "gpu/layer_run.hpp"
#include "gpu/spy.hpp"
#include "gpu/support.hpp"
#include "runtime/runtime_state.hpp"
#include "support/temp_folder.hpp"
#include "vulkan/device_feature_table.hpp"
#include "vulkan/device_state.hpp"

namespace vkattn::tests {
namespace {

/// Counts the host memory of Vulkan objects.
class CountedMemory {
 public:
  CountedMemory() {
    callbacks_.pUserData = this;
    callbacks_.pfnAllocation = [](void* user, std::size_t bytes, std::size_t alignment,
                                  VkSystemAllocationScope) {
      return static_cast<CountedMemory*>(user)->take(bytes, alignment);
    };
    callbacks_.pfnReallocation = [](void* user, void* old, std::size_t bytes, std::size_t alignment,
                                    VkSystemAllocationScope) {
      return static_cast<CountedMemory*>(user)->retake(old, bytes, alignment);
    };
    callbacks_.pfnFree = [](void* user, void* memory) { static_cast<CountedMemory*>(user)->free(memory); };
  }
  [[nodiscard]] const VkAllocationCallbacks* callbacks() const { return &callbacks_; }
  [[nodiscard]] std::size_t taken() const { return taken_; }
  [[nodiscard]] std::size_t not_freed() const { return blocks_.size(); }
  [[nodiscard]] bool freed_unknown() const { return freed_unknown_; }

 private:
  void* take(std::size_t bytes, std::size_t alignment) {
    if (bytes == 0) return nullptr;
    const std::size_t to = std::max(alignment, sizeof(void*));
    void* const memory = std::aligned_alloc(to, (bytes + to - 1) / to * to);
    const std::lock_guard lock(mutex_);
    ++taken_;
    blocks_[memory] = bytes;
    return memory;
  }
  void* retake(void* old, std::size_t bytes, std::size_t alignment) {
    void* const memory = take(bytes, alignment);
    if (old != nullptr && memory != nullptr) std::memcpy(memory, old, std::min(bytes, blocks_[old]));
    free(old);
    return memory;
  }
  void free(void* memory) {
    if (memory == nullptr) return;
    {
      const std::lock_guard lock(mutex_);
      freed_unknown_ |= blocks_.erase(memory) == 0;
    }
    std::free(memory);
  }

  VkAllocationCallbacks callbacks_{};
  std::mutex mutex_;
  std::map<void*, std::size_t> blocks_;
  std::size_t taken_ = 0;
  bool freed_unknown_ = false;
};

class EmbeddingTest : public GpuTest {
 protected:
  /// The runtime's device, borrowed as a program would borrow its own.
  static DeviceDesc runtimes_device() {
    const detail::RuntimeState& state = detail::RuntimeState::of(runtime());
    const VkDeviceCreateInfo& info = enabled();
    DeviceDesc desc;
    desc.instance = state.instance->handle;
    desc.physical_device = state.physical_device;
    desc.device = state.handle;
    desc.get_instance_proc_addr = state.instance->loader.vkGetInstanceProcAddr;
    desc.api_version = state.instance->api_version;
    desc.enabled_extensions = {info.ppEnabledExtensionNames, info.enabledExtensionCount};
    desc.enabled_features = info.pNext;
    return desc;
  }
  static Result<AttentionPlan> plan(const Device& device, const std::string& problem) {
    return AttentionPlan::create(device, parsed(problem).desc);
  }
  static Result<MatmulPlan> product(const Device& device, const PlanOptions& options = {}) {
    MatmulDesc desc;
    desc.rows = desc.columns = desc.inner = 70;
    desc.a.type = desc.b.type = desc.output.type = DataType::kFloat16;
    return MatmulPlan::create(device, desc, options);
  }
  static Result<BackwardPlan> gradients(const Device& device, const PlanOptions& options = {}) {
    BackwardDesc desc;
    desc.attention = parsed("h2 33x40 d32 f16 lse").desc;
    return BackwardPlan::create(device, desc, options);
  }
  static Result<AppendPlan> append(const Device& device) {
    AppendDesc desc;
    desc.kv_heads = 2;
    desc.head_dim = desc.value_dim = 32;
    desc.new_length = 3;
    desc.cache_length = 8;
    desc.key.type = desc.value.type = desc.cache_key.type = desc.cache_value.type = DataType::kFloat16;
    return AppendPlan::create(device, desc);
  }
  static MultiHeadAttentionDesc layer() {
    MultiHeadAttentionDesc desc;
    desc.attention.query_heads = 2;
    desc.attention.query_length = 9;
    desc.d_model = 32;
    desc.saves_for_gradients = true;
    return desc;
  }
  /// The lines that the log gets about a plan of each kind.
  struct Kind {
    std::string words;  ///< the start of its description
    std::function<bool(const Device&)> makes;
    bool has_forms;  ///< has other shaders without 16-bit storage
  };
  static std::vector<Kind> kinds() {
    return {
        {"attention: ", [](const Device& on) { return plan(on, "h2 33x40 d32 f16").ok(); }, true},
        {"backward: ", [](const Device& on) { return gradients(on).ok(); }, true},
        {"matmul: ", [](const Device& on) { return product(on).ok(); }, true},
        {"append: ", [](const Device& on) { return append(on).ok(); }, true},
        {"merge: ", [](const Device& on) { return MergePlan::create(on, {.rows = 8, .value_dim = 8}).ok(); },
         false},
        {"layer: ", [](const Device& on) { return MultiHeadAttentionPlan::create(on, layer()).ok(); }, false},
        {"gradients of a layer: ",
         [](const Device& on) {
           MultiHeadAttentionBackwardDesc desc;
           desc.forward = layer();
           return MultiHeadAttentionBackwardPlan::create(on, desc).ok();
         },
         false}};
  }

 private:
  static const VkDeviceCreateInfo& enabled() {
    static EnableMemory memory;
    static const VkDeviceCreateInfo made = [] {
      const detail::RuntimeState& state = detail::RuntimeState::of(runtime());
      VkDeviceCreateInfo info{VK_STRUCTURE_TYPE_DEVICE_CREATE_INFO};
      EXPECT_TRUE(enable_wanted({state.instance->handle,
                                 state.physical_device,
                                 state.instance->loader.vkGetInstanceProcAddr,
                                 state.instance->api_version,
                                 {}},
                                info, memory)
                      .ok());
      return info;
    }();
    return made;
  }
};

TEST_F(EmbeddingTest, WhatTheAllocatorGaveComesBack) {
  CountedMemory memory;
  {
    DeviceDesc desc = runtimes_device();
    desc.allocator = memory.callbacks();
    const auto device = must(Device::borrow(desc));
    auto cache = must(PipelineCache::create(device, {}));
    // Features make parameters take memory of the device. Parts add a second pass.
    const Problem problem = parsed("h2 3x200 d16 softcap=3");
    PlanOptions options{.pipeline_cache = cache.handle(), .kv_splits = 2};
    const auto made = must(AttentionPlan::create(device, problem.desc, options));
    const Bound it = bound(made, problem);
    // A plan that is refused leaves nothing behind.
    options.kernel = "tile";
    options.tile = TileSizes{7, 7, 7};
    EXPECT_FALSE(AttentionPlan::create(device, problem.desc, options).ok());
    EXPECT_GT(memory.not_freed(), 0U);
  }
  EXPECT_GT(memory.taken(), 0U);
  EXPECT_EQ(memory.not_freed(), 0U);
  EXPECT_FALSE(memory.freed_unknown());
}

/// What attention of a small problem gives on a runtime.
std::vector<float> computed(const Runtime& runtime, const AttentionDesc& desc) {
  std::vector<float> query(2 * 33 * 16), key(2 * 40 * 16), output(query.size());
  for (std::size_t i = 0; i < query.size(); ++i) query[i] = static_cast<float>(i % 7) - 3;
  for (std::size_t i = 0; i < key.size(); ++i) key[i] = static_cast<float>(i % 5) - 2;
  HostTensors tensors;
  tensors.query = query;
  tensors.key = tensors.value = key;
  tensors.output = output;
  must(runtime.compute(desc, tensors));
  return output;
}

TEST_F(EmbeddingTest, ARuntimeWorksOnADeviceOfTheApplications) {
  const AttentionDesc desc = parsed("h2 33x40 d16").desc;
  const std::vector<float> expected = computed(runtime(), desc);
  const auto device = must(Device::borrow(runtimes_device()));
  const TempFolder folder;
  {
    RuntimeOptions options;
    options.cache_dir = folder.path();
    const Runtime borrowed =
        must(Runtime::borrow(device, runtime().queue(), runtime().queue_family(), options));
    EXPECT_EQ(borrowed.device().handle(), runtime().device().handle());
    EXPECT_EQ(borrowed.queue(), runtime().queue());
    EXPECT_EQ(borrowed.timestamp_period_ns(), runtime().timestamp_period_ns());
    EXPECT_EQ(borrowed.memory_bytes(), runtime().memory_bytes());
    EXPECT_TRUE(has(borrowed.device_choice(), "the application's device: "));
    EXPECT_EQ(computed(borrowed, desc), expected);
  }
  EXPECT_FALSE(std::filesystem::is_empty(folder.path())) << "its pipeline cache is kept";
  EXPECT_EQ(computed(runtime(), desc), expected) << "the device is still there";
}

TEST_F(EmbeddingTest, ABorrowedRuntimeNamesWhatItCannotObey) {
  const auto device = must(Device::borrow(runtimes_device()));
  const auto why = [&](VkQueue queue, std::uint32_t family, const RuntimeOptions& options = {}) {
    const auto made = Runtime::borrow(device, queue, family, options);
    return made ? std::string() : made.error().message;
  };
  const VkQueue queue = runtime().queue();
  const std::uint32_t family = runtime().queue_family();
  EXPECT_EQ(why(VK_NULL_HANDLE, family), "the queue is null");
  EXPECT_TRUE(has(why(queue, 1000), "the queue family is 1000, and the device has "));
  const auto is_named = [&](const std::string& name, const RuntimeOptions& options) {
    EXPECT_TRUE(has(why(queue, family, options), "RuntimeOptions::" + name + " is set"));
  };
  is_named("device", {.device = "0"});
  is_named("disabled_extensions", {.disabled_extensions = "shaderFloat16"});
  is_named("validation", {.validation = true});
  is_named("gpu_assisted_validation", {.gpu_assisted_validation = true});
  is_named("import_host_memory", {.import_host_memory = true});
}

TEST_F(EmbeddingTest, ParametersTakeMemoryOfTheCallers) {
  // A piece of the memory of the runtime's device serves as the caller's memory.
  constexpr VkDeviceSize kBytes = 4096;
  const detail::ParameterPiece memory = runtime().device().state().parameters->take(kBytes).value();
  DeviceDesc desc = runtimes_device();
  desc.parameter_buffer = memory.buffer();
  desc.parameter_offset = memory.offset();
  desc.parameter_size = kBytes;
  desc.parameter_data = memory.data();
  std::memset(memory.data(), 0xa5, kBytes);
  const auto device = must(Device::borrow(desc));
  const Problem problem = parsed("h2 3x200 d16 softcap=3");
  const auto made = must(AttentionPlan::create(device, problem.desc));
  const VkDeviceSize each = made.requirements().parameter_bytes;
  ASSERT_GT(each, 0U);
  const auto is_used = [&](VkDeviceSize piece) {
    return std::any_of(memory.data() + piece * each, memory.data() + (piece + 1) * each,
                       [](std::byte byte) { return byte != std::byte{0xa5}; });
  };
  const Bound first = bound(made, problem);
  EXPECT_TRUE(is_used(0));
  EXPECT_FALSE(is_used(1));
  std::vector<Bindings> others;
  for (VkDeviceSize i = 1; i < kBytes / each; ++i) {
    others.push_back(made.make_bindings(first.run.tensors(), first.workspace.range()).value());
  }
  EXPECT_TRUE(is_used(kBytes / each - 1));
  EXPECT_TRUE(is_refused(made.make_bindings(first.run.tensors(), first.workspace.range()),
                         ErrorCode::kOutOfMemory,
                         {std::to_string(each) + " bytes", std::to_string(kBytes), "parameter_size"}));
  others.clear();
  EXPECT_TRUE(made.make_bindings(first.run.tensors(), first.workspace.range()).ok());
  ASSERT_TRUE(runtime().execute(made, first.bindings).ok());
  expect_right(first.run);
}

using Lines = std::vector<std::pair<LogLevel, std::string>>;

Log log_to(Lines& lines, LogLevel least) {
  return {[](void* user, LogLevel level, const char* text) {
            static_cast<Lines*>(user)->push_back({level, text});
          },
          &lines, least, nullptr};
}

bool begins(const Lines& lines, LogLevel level, const std::string& words) {
  return std::any_of(lines.begin(), lines.end(),
                     [&](const auto& line) { return line.first == level && line.second.starts_with(words); });
}

bool says(const Lines& lines, LogLevel level, const std::string& words) {
  return std::any_of(lines.begin(), lines.end(), [&](const auto& line) {
    return line.first == level && line.second.find(words) != std::string::npos;
  });
}

Result<Device> lent_with_log(DeviceDesc desc, Lines& lines, LogLevel least) {
  desc.log = log_to(lines, least);
  return Device::borrow(desc);
}

TEST_F(EmbeddingTest, TheLogSaysWhatWasDone) {
  Lines lines;
  const auto device = must(lent_with_log(runtimes_device(), lines, LogLevel::kDetail));
  EXPECT_TRUE(says(lines, LogLevel::kDetail, "device: " + capabilities().device_name));
  EXPECT_TRUE(says(lines, LogLevel::kDetail, "not supported: "));
  for (const Kind& kind : kinds()) {
    ASSERT_TRUE(kind.makes(device)) << kind.words;
    EXPECT_TRUE(begins(lines, LogLevel::kDetail, kind.words)) << kind.words;
  }
  EXPECT_TRUE(says(lines, LogLevel::kInfo, "compiled "));
  EXPECT_TRUE(says(lines, LogLevel::kInfo, " ms"));
  const std::byte nonsense[] = {std::byte{1}, std::byte{2}};
  ASSERT_TRUE(PipelineCache::create(device, nonsense).ok());
  EXPECT_TRUE(says(lines, LogLevel::kWarning, "pipeline cache"));
  for (const auto& line : lines) EXPECT_FALSE(line.second.ends_with('\n')) << line.second;
}

TEST_F(EmbeddingTest, AddressesNeedTheirFeature) {
  DeviceDesc desc = runtimes_device();
  desc.buffer_addresses = true;
  if (capabilities().buffer_device_address) {
    EXPECT_TRUE(must(Device::borrow(desc)).capabilities().buffer_addresses);
    desc.enabled_features = nullptr;
  }
  EXPECT_TRUE(
      has(message_of(Device::borrow(desc)),
          "DeviceDesc::buffer_addresses is set, but bufferDeviceAddress is not enabled on the device"));
}

TEST_F(EmbeddingTest, TheLogHasWhatWasAskedForOnly) {
  if (!capabilities().storage_buffer_16bit) GTEST_SKIP() << "nothing that can be left out";
  Lines lines;
  DeviceDesc desc = runtimes_device();
  desc.log = log_to(lines, LogLevel::kWarning);
  desc.enabled_features = nullptr;
  desc.enabled_extensions = {};
  const auto device = must(Device::borrow(desc));
  EXPECT_TRUE(has(device.describe(), "not enabled: storageBuffer16BitAccess: "));
  for (const Kind& kind : kinds()) {
    lines.clear();
    ASSERT_TRUE(kind.makes(device)) << kind.words;
    if (!kind.has_forms) continue;
    ASSERT_EQ(lines.size(), 1U) << kind.words;
    EXPECT_TRUE(begins(lines, LogLevel::kWarning, "not enabled: storageBuffer16BitAccess"))
        << kind.words << lines[0].second;
  }
  const auto appends = append(device);
  EXPECT_TRUE(
      has(appends->describe(), "with which keys (cache_append), values (cache_append) would be used"));
}

#ifndef VKATTN_CHECKED  // a Debug build of the core asserts there
TEST_F(EmbeddingTest, TheLogSaysWhatIsNotRecorded) {
  Lines lines;
  const auto device = must(lent_with_log(runtimes_device(), lines, LogLevel::kWarning));
  PlanOptions options{.kernel = "lane", .deferred_compilation = true};
  const Problem problem = parsed("h2 9x12 d16");
  const auto late = must(AttentionPlan::create(device, problem.desc, options));
  const auto other = must(AttentionPlan::create(device, parsed("h2 9x12 d24").desc, options));
  const harness::ProblemRun run = ready_run(problem);
  const auto bindings = must(late.make_bindings(run.tensors()));
  const auto record = [&](const AttentionPlan& plan) {
    lines.clear();
    return runtime().execute([&](VkCommandBuffer commands) { plan.record(commands, bindings); });
  };
  ASSERT_TRUE(record(other).ok());
  EXPECT_TRUE(says(lines, LogLevel::kWarning, "bindings of another plan record nothing"));
  ASSERT_TRUE(record(late).ok());
  EXPECT_TRUE(says(lines, LogLevel::kWarning, "a plan that is not compiled records nothing"));
  ASSERT_TRUE(late.compile().ok());
  ASSERT_TRUE(record(late).ok());
  EXPECT_TRUE(lines.empty());
  expect_right(run);
}

TEST_F(EmbeddingTest, TheLogWarnsOfALayerThatIsNotCompiled) {
  Lines lines;
  const auto device = must(lent_with_log(runtimes_device(), lines, LogLevel::kWarning));
  const auto warns = [&](const auto& plan, const auto& bindings) {
    lines.clear();
    EXPECT_TRUE(runtime().execute([&](VkCommandBuffer commands) { plan.record(commands, bindings); }).ok());
    return says(lines, LogLevel::kWarning, "a plan that is not compiled records nothing");
  };
  MultiHeadAttentionDesc forward = layer();
  forward.saves_for_gradients = false;
  const LayerRun run = LayerRun::create(runtime(), forward, random_layer_data(forward, 1), {});
  MultiHeadAttentionOptions options;
  options.deferred_compilation = true;
  const auto plan = must(MultiHeadAttentionPlan::create(device, forward, options));
  const Buffer workspace = runtime().create_buffer(plan.requirements().workspace_bytes).value();
  const auto bindings = must(plan.make_bindings(run.tensors(), workspace.range()));
  EXPECT_TRUE(warns(plan, bindings));
  ASSERT_TRUE(plan.compile().ok());
  EXPECT_FALSE(warns(plan, bindings));
}
#endif

TEST_F(EmbeddingTest, TheLogWarnsOfDispatchesThatAreNotCut) {
  Lines lines;
  const auto device = must(lent_with_log(runtimes_device(), lines, LogLevel::kWarning));
  const auto with_limit = [](auto options, std::uint64_t ns) {
    options.max_dispatch_ns = ns;
    return options;
  };
  const std::vector<std::pair<std::string, std::function<bool(std::uint64_t)>>> plans{
      {"kv_splits",
       [&](std::uint64_t ns) {
         PlanOptions options = with_limit(PlanOptions(), ns);
         options.kv_splits = 1;
         return AttentionPlan::create(device, parsed("h2 33x40 d32").desc, options).ok();
       }},
      {"chunk_keys", [&](std::uint64_t ns) { return gradients(device, with_limit(PlanOptions(), ns)).ok(); }},
      {"inner_splits", [&](std::uint64_t ns) { return product(device, with_limit(PlanOptions(), ns)).ok(); }},
      {"inner_splits", [&](std::uint64_t ns) {
         return MultiHeadAttentionPlan::create(device, layer(), with_limit(MultiHeadAttentionOptions(), ns))
             .ok();
       }}};
  for (const auto& [advice, makes] : plans) {
    lines.clear();
    ASSERT_TRUE(makes(1)) << advice;
    EXPECT_TRUE(says(lines, LogLevel::kWarning, " ns; max_dispatch_ns is 1: ") &&
                says(lines, LogLevel::kWarning, advice))
        << advice;
    lines.clear();
    ASSERT_TRUE(makes(1'000'000'000)) << advice;
    EXPECT_TRUE(lines.empty()) << advice << ": " << lines.front().second;
  }
}

TEST_F(EmbeddingTest, PassesAndObjectsHaveNames) {
  Device device = device_with([](Capabilities&) {});
  Spy::reset();
  auto& vk = own_state(device).vk;
  Spy::watch_state(vk);
  Spy::watch_debug(vk);
  const Problem problem = parsed("h2 3x200 d16");
  const auto made = must(AttentionPlan::create(device, problem.desc, {.kernel = "tile", .kv_splits = 2}));
  made.record(VK_NULL_HANDLE, bound(made, problem).bindings);
  ASSERT_TRUE(PipelineCache::create(device, {}).ok());
  // Parameter memory has functions of its own (parameter_memory_test.cpp).
  for (const char* const name :
       {"vkattn pipeline layout", "vkattn set layout", "vkattn descriptor pool", "vkattn pipeline cache"}) {
    EXPECT_EQ(std::count(Spy::names.begin(), Spy::names.end(), name), 1) << name;
  }
  EXPECT_EQ(Spy::labels, (std::vector<std::string>{"vkattn tile", "vkattn combine"}));
  EXPECT_EQ(Spy::open_labels, 0);
}

// Uses real devices without the feature, so that validation reports a shader that needs it.
TEST_F(EmbeddingTest, NothingDependsOnAnyOneFeature) {
  std::size_t tried = 0;
  for (const detail::DeviceFeatureRow& row : detail::device_feature_table()) {
    if (!(capabilities().*row.member)) continue;
    RuntimeOptions options;
    options.disabled_extensions = row.name;
    options.validation = detail::RuntimeState::of(runtime()).instance->messenger != VK_NULL_HANDLE;
    options.pipeline_cache = false;
    const auto without = Runtime::create(options);
    ASSERT_TRUE(without.ok()) << row.name << ": " << without.error().message;
    // Push descriptors are also an extension, so the feature stays.
    const bool is_there = without->device().capabilities().*row.member;
    EXPECT_TRUE(!is_there || row.name == "pushDescriptor") << row.name;
    const std::string problem = "hq4 hkv2 3x70 d32 f16 softcap=3 lse";
    std::vector<std::string> kernels =
        accepting_kernels(parsed(problem).desc, without->device().capabilities());
    // If only a part of the tests runs, each feature takes one kernel in turn, another in each part.
    const TestPart part = wanted_test_part();
    if (part.count > 1) kernels = {kernels[(tried + part.index) % kernels.size()]};
    for (const std::string& kernel : kernels) {
      EXPECT_TRUE(runs_right(*without, problem, {.kernel = kernel})) << "without " << row.name;
    }
    for (const std::string& message : without->validation_messages()) {
      ADD_FAILURE() << "without " << row.name << ": " << message;
    }
    ++tried;
  }
  EXPECT_GT(tried, 0U);
}

}  // namespace
}  // namespace vkattn::tests
