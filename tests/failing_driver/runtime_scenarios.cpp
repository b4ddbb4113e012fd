// Scenarios of the runtime: making it, and everything that can be asked of it.
#include <vkattn/runtime.hpp>

#include <array>
#include <filesystem>
#include <span>
#include <string>

#include "failing_driver/host_memory.hpp"
#include "failing_driver/scenario.hpp"
#include "support/temp_folder.hpp"

namespace vkattn::tests {

namespace {

class WithFolder : public Scenario {
 protected:
  WithFolder() { under_validation_.validation = true; }

  TempFolder folder_;
  RuntimeOptions options_ = small_runtime(folder_.path());
  RuntimeOptions under_validation_ = options_;
};

class Listing : public Scenario {
 public:
  Listing() {
    step("list_devices", [] { return Runtime::list_devices(); });
  }
};

class Living : public WithFolder {
 public:
  Living() {
    step("create", [this] { return Runtime::create(options_); });
    step("create under validation", [this] { return Runtime::create(under_validation_); });
    step("create and execute",
         [this] { must(must(Runtime::create(options_)).execute([](VkCommandBuffer /*commands*/) {})); });
  }
};

/// Another program has saved its pipelines after this one started.
class Merging : public WithFolder {
 public:
  Merging() {
    must(must(Runtime::create(options_)).save_pipeline_cache());
    for (const auto& entry : std::filesystem::directory_iterator(options_.cache_dir)) file_ = entry.path();
    others_ = read_file(file_);
    step("save_pipeline_cache beside another program", [this] {
      remove_file();
      const Runtime runtime = must(Runtime::create(options_));
      leave_file();
      return runtime.save_pipeline_cache();
    });
  }

 private:
  void remove_file() const {
    const UncountedMemory ours;
    std::filesystem::remove(file_);
  }
  void leave_file() const {
    const UncountedMemory ours;
    write_file(file_, others_);
  }

  std::filesystem::path file_;
  std::string others_;
};

/// The function that records throws in the middle.
class Throwing : public WithFolder {
 public:
  Throwing() {
    step("execute what throws", [this] {
      const auto thrown = runtime_->execute([](VkCommandBuffer /*commands*/) { throw 1; });
      if (thrown.ok()) throw Failed{{ErrorCode::kIo, 0, "nobody was told"}};
      if (thrown.error().code != ErrorCode::kIo) throw Failed{thrown.error()};
      must(runtime_->execute([](VkCommandBuffer /*commands*/) {}));
    });
  }

 private:
  std::unique_ptr<Runtime> runtime_ = std::make_unique<Runtime>(Runtime::create(options_).value());
};

class Using : public WithFolder {
 public:
  explicit Using(bool is_memory_visible) {
    use_host_device(is_memory_visible);
    runtime_ = std::make_unique<Runtime>(Runtime::create(options_).value());
    plan_ = std::make_unique<AttentionPlan>(
        runtime_->make_plan(small_attention(), {.kernel = "tile", .kv_splits = 2}).value());
    buffer_ = runtime_->create_buffer(256).value();
    bindings_ = std::make_unique<Bindings>(
        plan_->make_bindings(made_up_tensors(*plan_), made_up_buffer(100)).value());
    step("create_buffer", [this] { return runtime_->create_buffer(1000); });
    step("create_workspace", [this] { return runtime_->create_workspace(*plan_); });
    step("write", [this] { return runtime_->write(buffer_, 4, std::as_bytes(std::span(numbers_))); });
    step("read", [this] { return runtime_->read(buffer_, 4, std::as_writable_bytes(std::span(numbers_))); });
    step("make_plan", [this] { return runtime_->make_plan(small_attention()); });
    step("make_plan", [this] { return runtime_->make_plan(small_append()); });
    step("execute", [this] { return runtime_->execute(*plan_, *bindings_); });
    step("execute thrice", [this] { return runtime_->execute([](VkCommandBuffer /*commands*/) {}, 3); });
    step("compute", [this] { return compute(); });
    step("save_pipeline_cache", [this] { return runtime_->save_pipeline_cache(); });
  }

 private:
  [[nodiscard]] Result<void> compute() {
    AttentionDesc desc;
    desc.query_length = desc.kv_length = 1;
    desc.head_dim = 8;
    const std::span<float> all(numbers_);
    return runtime_->compute(desc, {.query = all, .key = all, .value = all, .output = all});
  }

  std::unique_ptr<Runtime> runtime_;
  std::unique_ptr<AttentionPlan> plan_;
  Buffer buffer_;
  std::unique_ptr<Bindings> bindings_;
  std::array<float, 8> numbers_{};
};

/// Buffers of a CPU that lie in memory of the program. If that cannot be had, the driver's own memory does.
class LargeBuffers : public WithFolder {
 public:
  explicit LargeBuffers(std::size_t kept_buffers) {
    use_host_cpu();
    options_.kept_buffers = kept_buffers;
    runtime_ = std::make_unique<Runtime>(Runtime::create(options_).value());
    step("create_buffer of 256 KiB", [this] { use(262144); });
    step("create_buffer of more", [this] { use(1000004); });
  }

 private:
  void use(VkDeviceSize bytes) const {
    const Buffer buffer = must(runtime_->create_buffer(bytes));
    const std::span<std::byte> memory = runtime_->mapped(buffer);
    if (memory.size() != bytes) throw Failed{{ErrorCode::kIo, 0, "the buffer is not mapped"}};
    memory.front() = memory.back() = std::byte{1};
  }

  std::unique_ptr<Runtime> runtime_;
};

}  // namespace

std::vector<ScenarioRow> runtime_scenarios() {
  const std::set<std::string> imports{"vkGetMemoryHostPointerPropertiesEXT", "vkCreateBuffer",
                                      "vkAllocateMemory", "vkBindBufferMemory"};
  // If one way of waiting fails, another one is tried; and memory may be had where spare buffers were.
  const std::set<std::string> in_use{
      "vkSetDebugUtilsObjectNameEXT", "vkAllocateDescriptorSets", "vkCreateComputePipelines",
      "vkCreateShaderModule",         "vkWaitForFences",          "vkAllocateMemory"};
  return {
      // Without a driver there are no devices.
      row<Listing>("RuntimeList", {"vkCreateInstance"}),
      // A cache that cannot be saved is no failure, and the end of a runtime cannot return errors.
      row<Living>("RuntimeLife", {"vkSetDebugUtilsObjectNameEXT", "vkGetPipelineCacheData",
                                  "vkDeviceWaitIdle", "vkWaitForFences"}),
      row<Merging>("RuntimeMerging", {"vkSetDebugUtilsObjectNameEXT", "vkGetPipelineCacheData",
                                      "vkMergePipelineCaches", "vkCreatePipelineCache", "vkDeviceWaitIdle"}),
      // Ending a command buffer that is thrown away may fail.
      row<Throwing>("RuntimeThrown", {"vkEndCommandBuffer", "vkWaitForFences"}),
      row<Using>("RuntimeStaged", in_use, false), row<Using>("RuntimeMapped", in_use, true),
      row<LargeBuffers>("RuntimeLargeBuffers", imports, std::size_t{0}),
      row<LargeBuffers>("RuntimeLargeBuffersKept", imports, std::size_t{32})};
}

}  // namespace vkattn::tests
