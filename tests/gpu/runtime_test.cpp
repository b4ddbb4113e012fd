// The convenience layer: device choice, buffers, copies and the pipeline cache on disk.
#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <span>

#include "gpu/support.hpp"
#include "runtime/runtime_state.hpp"
#include "support/temp_folder.hpp"

namespace vkattn::tests {
namespace {

class RuntimeTest : public GpuTest {};

TEST_F(RuntimeTest, ListsTheDeviceItUses) {
  const auto devices = must(Runtime::list_devices());
  bool found = false;
  for (const DeviceInfo& device : devices) {
    found = found || device.capabilities.device_name == capabilities().device_name;
  }
  EXPECT_TRUE(found);
  EXPECT_TRUE(has(runtime().device_choice(), capabilities().device_name));
}

/// The version is the newest that the loader, the device and the compiled headers know.
TEST_F(RuntimeTest, UsesTheNewestVersion) {
  const auto& state = detail::RuntimeState::of(runtime());
  std::uint32_t loader = VK_API_VERSION_1_0;
  ASSERT_NE(state.instance->loader.vkEnumerateInstanceVersion, nullptr);
  ASSERT_EQ(state.instance->loader.vkEnumerateInstanceVersion(&loader), VK_SUCCESS);
  VkPhysicalDeviceProperties properties;
  state.instance->vk.vkGetPhysicalDeviceProperties(state.physical_device, &properties);
  const std::uint32_t headers = VK_HEADER_VERSION_COMPLETE;
  const std::uint32_t minor = std::min({VK_API_VERSION_MINOR(loader), VK_API_VERSION_MINOR(headers),
                                        VK_API_VERSION_MINOR(properties.apiVersion)});
  EXPECT_EQ(VK_API_VERSION_MINOR(capabilities().api_version), minor);
}

TEST_F(RuntimeTest, ADeviceThatIsNotThereIsNotFound) {
  RuntimeOptions options;
  options.pipeline_cache = false;
  for (const char* device : {"no such device", "999"}) {
    options.device = device;
    EXPECT_TRUE(is_refused(Runtime::create(options), ErrorCode::kNotFound, {device}));
  }
}

/// These are features that lavapipe has. For others the test shows nothing.
TEST_F(RuntimeTest, DisabledExtensionsStayOff) {
  RuntimeOptions options;
  options.pipeline_cache = false;
  options.disabled_extensions =
      "VK_KHR_vulkan_memory_model,VK_KHR_16bit_storage,VK_KHR_shader_float16_int8,VK_KHR_push_descriptor,"
      "VK_EXT_subgroup_size_control";
  const auto other = must(Runtime::create(options));
  const Capabilities& c = other.device().capabilities();
  EXPECT_EQ(c.device_name, capabilities().device_name);
  EXPECT_FALSE(c.vulkan_memory_model || c.storage_buffer_16bit || c.shader_float16 || c.push_descriptors);
  EXPECT_FALSE(c.subgroup_size_control || c.required_subgroup_size || c.compute_full_subgroups);
  EXPECT_FALSE(c.cooperative_matrix) << "which needs the memory model";
  EXPECT_TRUE(runs_right(other, "h2 9x20 d16 f16 lse", {"tile"}));
  for (const std::string& message : other.validation_messages()) ADD_FAILURE() << message;
}

TEST_F(RuntimeTest, DisablingCooperativeMatricesTurnsTheirKernelsOff) {
  ASSERT_EQ(setenv("VKATTN_DISABLE_EXTENSIONS", "VK_KHR_cooperative_matrix", 1), 0);
  RuntimeOptions options;
  options.pipeline_cache = false;
  const auto other = must(Runtime::create(options));
  const auto devices = must(Runtime::list_devices());
  unsetenv("VKATTN_DISABLE_EXTENSIONS");
  for (const DeviceInfo& device : devices) EXPECT_FALSE(device.capabilities.cooperative_matrix);
  EXPECT_FALSE(other.device().capabilities().cooperative_matrix);
  for (const char* kernel : kOnMatrixUnits) {
    EXPECT_FALSE(reason_against(other, kernel, "64x64 d64 f16").empty()) << kernel;
  }
}

TEST_F(RuntimeTest, OnlyKnownExtensionsCanBeDisabled) {
  RuntimeOptions options;
  options.pipeline_cache = false;
  for (const char* name :
       {"VK_KHR_cooperative_matrx", "VK_KHR_push_descriptor,,", "VK_KHR_push_descriptor, x"}) {
    options.disabled_extensions = name;
    EXPECT_TRUE(
        is_refused(Runtime::create(options), ErrorCode::kInvalidArgument, {"VK_KHR_cooperative_matrix"}))
        << name;
  }
}

/// A heap of the device, of the memory that a GPU has for itself if it shares none with the host.
TEST_F(RuntimeTest, TellsTheMemoryThatBuffersComeFrom) {
  const auto& state = detail::RuntimeState::of(runtime());
  VkPhysicalDeviceMemoryProperties memory;
  state.instance->vk.vkGetPhysicalDeviceMemoryProperties(state.physical_device, &memory);
  const bool is_alone = capabilities().device_type == DeviceType::kDiscreteGpu;
  bool found = false;
  for (const VkMemoryHeap& heap : std::span(memory.memoryHeaps).first(memory.memoryHeapCount))
    found = found || (heap.size == runtime().memory_bytes() &&
                      (!is_alone || (heap.flags & VK_MEMORY_HEAP_DEVICE_LOCAL_BIT) != 0));
  EXPECT_TRUE(found) << runtime().memory_bytes();
  EXPECT_GE(runtime().memory_bytes(), 1U << 20U);
}

TEST_F(RuntimeTest, BytesComeBackFromAnyOffset) {
  for (const std::size_t bytes : {4UL, 300UL, 1UL << 20U, (5UL << 20U) + 12}) {
    const auto buffer = must(runtime().create_buffer(bytes));
    EXPECT_GE(buffer.size(), bytes);
    std::vector<std::byte> data(bytes);
    for (std::size_t i = 0; i < bytes; ++i) data[i] = static_cast<std::byte>(i * 7 + i / 256);
    ASSERT_TRUE(runtime().write(buffer, 0, data).ok());
    std::vector<std::byte> back(bytes);
    ASSERT_TRUE(runtime().read(buffer, 0, back).ok());
    EXPECT_EQ(back, data);
    const std::byte one{0x5a};
    ASSERT_TRUE(runtime().write(buffer, 3, std::span(&one, 1)).ok());
    data[3] = one;
    back.assign(bytes - 1, std::byte{0});
    ASSERT_TRUE(runtime().read(buffer, 1, back).ok());
    EXPECT_TRUE(std::equal(back.begin(), back.end(), data.begin() + 1));
  }
}

TEST_F(RuntimeTest, SmallBuffersServeTheNextOnesOfTheirSize) {
  Buffer held = must(runtime().create_buffer(4444));
  const VkBuffer first = held.handle();
  const Buffer other = must(runtime().create_buffer(4444));
  EXPECT_NE(other.handle(), first) << "somebody holds it";
  held = {};
  EXPECT_NE(must(runtime().create_buffer(4448)).handle(), first) << "the size differs";
  held = must(runtime().create_buffer(4444));
  EXPECT_EQ(held.handle(), first);
  EXPECT_EQ(held.size(), 4444U);
  Buffer moved = std::move(held);
  EXPECT_NE(must(runtime().create_buffer(4444)).handle(), first) << "somebody else holds it now";
  moved = must(runtime().create_buffer(8));
  EXPECT_EQ(must(runtime().create_buffer(4444)).handle(), first);
}

TEST_F(RuntimeTest, AFewSmallBuffersAreKept) {
  std::vector<VkBuffer> given_up;
  {
    std::vector<Buffer> held;
    for (int i = 0; i < 40; ++i) held.push_back(must(runtime().create_buffer(7777)));
    for (const Buffer& buffer : held) given_up.push_back(buffer.handle());
    while (!held.empty()) held.pop_back();
  }
  std::vector<Buffer> held;
  for (int i = 0; i < 32; ++i) {
    held.push_back(must(runtime().create_buffer(7777)));
    EXPECT_EQ(held.back().handle(), given_up[static_cast<std::size_t>(i)])
        << "the one that was given up last";
  }
}

TEST_F(RuntimeTest, BuffersNeedNotBeKept) {
  RuntimeOptions options;
  options.kept_buffers = 1;
  const auto other = must(Runtime::create(options));
  const VkBuffer first = must(other.create_buffer(4444)).handle();
  EXPECT_EQ(must(other.create_buffer(4444)).handle(), first);
  (void)must(other.create_buffer(8888));
  EXPECT_EQ(detail::RuntimeState::of(other).spare_buffers.take(4444), nullptr) << "one is kept";
  options.kept_buffers = 0;
  const auto none = must(Runtime::create(options));
  (void)must(none.create_buffer(4444));
  EXPECT_EQ(detail::RuntimeState::of(none).spare_buffers.take(4444), nullptr);
}

TEST_F(RuntimeTest, CopiesBeyondTheBufferAreRefused) {
  const auto buffer = must(runtime().create_buffer(64));
  std::vector<std::byte> data(static_cast<std::size_t>(buffer.size()) + 4);
  EXPECT_FALSE(runtime().write(buffer, 0, data).ok());
  EXPECT_FALSE(runtime().read(buffer, 8, data).ok());
}

TEST_F(RuntimeTest, HugeBuffersAreRefusedWithTheLimit) {
  const auto buffer = runtime().create_buffer(VkDeviceSize{1} << 60U);
  ASSERT_FALSE(buffer.ok());
  EXPECT_TRUE(has(buffer.error().message, "1152921504606846976"));
}

std::vector<std::filesystem::path> files_in(const TempFolder& folder) {
  std::vector<std::filesystem::path> found;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(folder.path())) {
    if (entry.is_regular_file()) found.push_back(entry.path());
  }
  return found;
}

/// Makes a plan in its own runtime, which keeps its cache in the folder, and runs it.
void run_with_cache(const TempFolder& folder) {
  RuntimeOptions options;
  options.cache_dir = folder.path() / "made by it";
  const auto other = must(Runtime::create(options));
  EXPECT_TRUE(runs_right(other, "h2 9x20 d16 lse", {"lane"}));
  const Result<void> saved = other.save_pipeline_cache();
  EXPECT_TRUE(saved.ok()) << saved.error().message;
}

TEST_F(RuntimeTest, ThePipelineCacheIsKeptAndReadAgain) {
  const TempFolder folder;
  run_with_cache(folder);
  ASSERT_EQ(files_in(folder).size(), 1U) << "one file, and no temporary one left";
  run_with_cache(folder);
  EXPECT_EQ(files_in(folder).size(), 1U);
}

TEST_F(RuntimeTest, ADamagedPipelineCacheDoesNoHarm) {
  const TempFolder folder;
  run_with_cache(folder);
  ASSERT_EQ(files_in(folder).size(), 1U);
  const std::filesystem::path file = files_in(folder).front();
  const std::string good = read_file(file);
  std::vector<std::string> damaged{"", "x", good.substr(0, good.size() / 2), good + "more",
                                   std::string(4096, '\xff')};
  for (std::size_t i = 0; i < good.size() && i < 96; i += 5) {
    std::string flipped = good;
    flipped[i] = static_cast<char>(flipped[i] ^ 0x40);
    damaged.push_back(flipped);
  }
  for (const std::string& content : damaged) {
    write_file(file, content);
    run_with_cache(folder);
  }
}

TEST_F(RuntimeTest, ACacheFolderThatCannotBeMadeDoesNoHarm) {
  const TempFolder folder;
  write_file(folder / "file", "a file where the folder should be");
  RuntimeOptions options;
  options.cache_dir = folder / "file/below";
  const auto other = must(Runtime::create(options));
  EXPECT_TRUE(runs_right(other, "4x4 d8", {"lane"}));
}

}  // namespace
}  // namespace vkattn::tests
