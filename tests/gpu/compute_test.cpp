// Runtime::compute(), which takes host arrays and runs attention in one call.
#include <vkattn/runtime.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <span>
#include <string>
#include <vector>

#include "gpu/support.hpp"
#include "runtime/runtime_state.hpp"

namespace vkattn::tests {
namespace {

using ComputeTest = GpuTest;

/// Two queries and keys. Their scaled scores are 1 on the diagonal and 0 elsewhere.
const std::vector<float> kTwoRows{1, 0, 1, 0, 0, 1, 0, 1};
const std::vector<float> kValues{2, 3, 5, 7};

AttentionDesc two_by_two() {
  return {.query_length = 2, .kv_length = 2, .head_dim = 4, .value_dim = 2};
}

TEST_F(ComputeTest, TheWorkedExample) {
  AttentionDesc desc = two_by_two();
  desc.has_lse = true;
  std::vector<float> output(4), lse(2);
  const HostTensors tensors{
      .query = kTwoRows, .key = kTwoRows, .value = kValues, .output = output, .lse = lse};
  for (int call = 0; call < 2; ++call) {  // the second call finds the plan of the first
    must(runtime().compute(desc, tensors));
    const float p = 1 / (1 + std::exp(-1.0F));
    const std::vector<float> expected{2 * p + 5 * (1 - p), 3 * p + 7 * (1 - p), 5 * p + 2 * (1 - p),
                                      7 * p + 3 * (1 - p)};
    for (std::size_t i = 0; i < 4; ++i) EXPECT_NEAR(output[i], expected[i], 1e-5) << i;
    for (const float value : lse) EXPECT_NEAR(value, std::log(1 + std::exp(1.0F)), 1e-5);
    output.assign(4, 0);
    lse.assign(2, 0);
  }
}

/// A mask, a length, and a row that is not written and keeps its contents.
TEST_F(ComputeTest, FeaturesTakeTheirArraysByName) {
  AttentionDesc desc = two_by_two();
  desc.mask.type = MaskType::kBytes;
  desc.query_lengths = Lengths::kPerEntry;
  const std::vector<std::uint8_t> mask{0, 1, 1, 1};
  const std::vector<std::int32_t> one{1};
  std::vector<float> output(4, 9);
  must(runtime().compute(desc, {.query = kTwoRows,
                                .key = kTwoRows,
                                .value = kValues,
                                .output = output,
                                .query_lengths = one,
                                .mask = mask}));
  EXPECT_EQ(output, (std::vector<float>{5, 7, 9, 9}));
}

TEST_F(ComputeTest, ArraysThatAreMissingOrTooSmallAreNamed) {
  std::vector<float> output(4), small(3);
  const auto is_missing = [](const AttentionDesc& desc, const HostTensors& tensors,
                             const std::vector<std::string>& words) {
    EXPECT_TRUE(is_refused(runtime().compute(desc, tensors), ErrorCode::kInvalidArgument, words));
  };
  is_missing(two_by_two(), {.query = kTwoRows, .key = kTwoRows, .output = output},
             {"value has 0 bytes", "HostTensors::value"});
  is_missing(two_by_two(), {.query = kTwoRows, .key = kTwoRows, .value = kValues, .output = small},
             {"output has 12 bytes"});
  is_missing(AttentionDesc{}, {}, {"query_length is not set"});
}

/// 16-bit tensors with an odd number of elements, and empty tensors.
TEST_F(ComputeTest, OddAndEmptyArrays) {
  AttentionDesc desc{.query_length = 1, .kv_length = 1, .head_dim = 1};
  desc.set_type(DataType::kFloat16);
  const std::vector<std::uint16_t> one{float_to_half(1.0F)}, value{float_to_half(-3.5F)};
  std::vector<std::uint16_t> output(1);
  must(runtime().compute(desc, {.query = one, .key = one, .value = value, .output = output}));
  EXPECT_EQ(output, value);
  desc.query_length = 0;
  EXPECT_TRUE(runtime().compute(desc, {.key = one, .value = value}).ok());
}

/// Counts the buffers that a call makes, and its copies from and to the staging buffer.
struct Copies {
  inline static std::vector<VkDeviceSize> buffers;
  inline static std::size_t uploads = 0, downloads = 0;
  inline static PFN_vkCreateBuffer create = nullptr;
  inline static PFN_vkCmdCopyBuffer copy = nullptr;
  inline static VkBuffer staging = VK_NULL_HANDLE;

  /// Watches the calls of a runtime from here on. Memory behaves as on a discrete GPU: only the staging
  /// buffer is mapped.
  static void watch(const Runtime& runtime) {
    detail::RuntimeState& state = detail::RuntimeState::of(runtime);
    state.staging = must(detail::create_buffer(state, 65536, true));
    staging = state.staging->buffer;
    for (VkMemoryType& type : state.memory.memoryTypes) type.propertyFlags = 0;
    create = state.vk.vkCreateBuffer;
    copy = state.vk.vkCmdCopyBuffer;
    state.vk.vkCreateBuffer = [](VkDevice device, const VkBufferCreateInfo* info,
                                 const VkAllocationCallbacks* memory, VkBuffer* buffer) {
      buffers.push_back(info->size);
      return create(device, info, memory, buffer);
    };
    state.vk.vkCmdCopyBuffer = [](VkCommandBuffer commands, VkBuffer from, VkBuffer to, std::uint32_t count,
                                  const VkBufferCopy* regions) {
      ++(to == staging ? downloads : uploads);
      copy(commands, from, to, count, regions);
    };
    reset();
  }
  static void reset() {
    buffers.clear();
    uploads = downloads = 0;
  }
};

/// The test's own runtime, whose functions it may change.
Runtime own_runtime(std::size_t kept_plans = 64) {
  RuntimeOptions options;
  options.pipeline_cache = false;
  options.kept_plans = kept_plans;
  return must(Runtime::create(options));
}

/// K has rows of 6 elements. V is the first 2 of each: 4 keys, 96 bytes.
TEST_F(ComputeTest, InputsThatShareMemoryAreCopiedOnce) {
  const Runtime runtime = own_runtime();
  AttentionDesc desc{.query_length = 4, .kv_length = 4, .head_dim = 6, .value_dim = 2};
  desc.value.strides = Strides{0, 0, 6, 1};
  std::vector<float> keys(24), shared(8), apart(8);
  for (std::size_t i = 0; i < keys.size(); ++i) keys[i] = static_cast<float>(i % 7) / 4;
  const auto plan = must(runtime.make_plan(desc));
  Copies::watch(runtime);
  must(runtime.compute(plan, {.query = keys, .key = keys, .value = keys, .output = shared}));
  EXPECT_EQ(std::count(Copies::buffers.begin(), Copies::buffers.end(), VkDeviceSize{96}), 1);
  EXPECT_EQ(Copies::uploads, 1U);
  EXPECT_EQ(Copies::downloads, 1U);
  const std::vector<float> same_keys = keys, same_values = keys;
  Copies::reset();
  must(runtime.compute(plan, {.query = keys, .key = same_keys, .value = same_values, .output = apart}));
  EXPECT_EQ(Copies::uploads, 3U);
  EXPECT_EQ(shared, apart);
}

/// One array holds Q, K and V. If its heads begin at multiples of 16 bytes, they are parts of one buffer.
/// Otherwise they cannot be bound as parts of it.
TEST_F(ComputeTest, PackedInputsAreCopiedOnceWhereTheirPlacesAllowIt) {
  for (const std::int64_t dim : {4, 3}) {
    const Runtime runtime = own_runtime();
    AttentionDesc desc{.query_heads = 2, .query_length = 5, .kv_length = 5, .head_dim = dim};
    desc.set_layout(Layout::kPackedQkv);
    std::vector<float> packed(static_cast<std::size_t>(5 * 6 * dim));
    for (std::size_t i = 0; i < packed.size(); ++i) packed[i] = static_cast<float>(i * i % 11) / 5;
    std::vector<float> output(static_cast<std::size_t>(5 * 2 * dim)), apart(output.size());
    const auto part = [&](std::int64_t first) {
      return std::span<const float>(packed).subspan(static_cast<std::size_t>(first * dim));
    };
    const auto plan = must(runtime.make_plan(desc));
    Copies::watch(runtime);
    must(runtime.compute(plan, {.query = part(0), .key = part(2), .value = part(4), .output = output}));
    EXPECT_EQ(Copies::uploads, dim == 4 ? 1U : 3U) << dim;
    const std::vector<float> key(part(2).begin(), part(2).end()), value(part(4).begin(), part(4).end());
    must(runtime.compute(plan, {.query = packed, .key = key, .value = value, .output = apart}));
    EXPECT_EQ(output, apart);
  }
}

/// Some elements are kept if rows have gaps, or if there are more rows than the lengths say.
TEST_F(ComputeTest, OutputsAreUploadedOnlyWhereSomeOfThemIsKept) {
  const Runtime runtime = own_runtime();
  Copies::watch(runtime);
  AttentionDesc desc = two_by_two();
  const std::vector<std::int32_t> one{1};
  const auto computed = [&](std::size_t elements) {
    std::vector<float> output(elements, 9);
    Copies::reset();
    must(runtime.compute(
        desc,
        {.query = kTwoRows, .key = kTwoRows, .value = kValues, .output = output, .query_lengths = one}));
    EXPECT_EQ(Copies::downloads, 1U);
    return output;
  };
  (void)computed(4);
  EXPECT_EQ(Copies::uploads, 2U) << "query and key, which are one, and value";
  desc.output.strides = Strides{0, 0, 3, 1};
  EXPECT_EQ(computed(5)[2], 9);
  EXPECT_EQ(Copies::uploads, 3U) << "with what lies between the rows";
  desc.output.strides.reset();
  desc.query_lengths = Lengths::kPerEntry;
  EXPECT_EQ(computed(4)[3], 9);
  EXPECT_EQ(Copies::uploads, 4U) << "with the row that is not written, and the length";
}

/// Counts allocations that import the host's memory.
struct Imports {
  static inline std::size_t count = 0;
  static inline PFN_vkAllocateMemory allocate = nullptr;

  static void watch(const Runtime& runtime) {
    detail::RuntimeState& state = detail::RuntimeState::of(runtime);
    allocate = state.vk.vkAllocateMemory;
    state.vk.vkAllocateMemory = [](VkDevice device, const VkMemoryAllocateInfo* info,
                                   const VkAllocationCallbacks* callbacks, VkDeviceMemory* memory) {
      const auto* next = static_cast<const VkBaseInStructure*>(info->pNext);
      if (next != nullptr && next->sType == VK_STRUCTURE_TYPE_IMPORT_MEMORY_HOST_POINTER_INFO_EXT) ++count;
      return allocate(device, info, callbacks, memory);
    };
  }
};

/// Arrays that are large and aligned are used where they lie, and others are copied. V is a part of K. The
/// output has gaps between its rows, which stay as they are.
TEST_F(ComputeTest, HostMemoryIsImportedWhereTheDeviceTakesIt) {
  RuntimeOptions options;
  options.pipeline_cache = false;
  const Runtime copies = must(Runtime::create(options));
  options.import_host_memory = true;
  options.validation = std::getenv("VKATTN_VALIDATION") != nullptr;
  const Runtime imports = must(Runtime::create(options));
  if (!detail::RuntimeState::of(imports).imports_host_memory) {
    GTEST_SKIP() << imports.device().capabilities().device_name << " imports no host memory";
  }
  EXPECT_FALSE(detail::RuntimeState::of(copies).imports_host_memory);
  AttentionDesc desc{.query_length = 100, .kv_length = 100, .head_dim = 64, .value_dim = 32};
  desc.value.strides = Strides{0, 0, 64, 1};
  desc.output.strides = Strides{0, 0, 48, 1};
  Imports::watch(imports);
  // From each place in a page on, with memory of others before and behind.
  std::vector<float> memory(30000);
  for (std::size_t i = 0; i < memory.size(); ++i) memory[i] = static_cast<float>(i * 7 % 23) / 8;
  for (const std::size_t place : {16U, 40U, 41U, 1020U}) {
    const std::span<const float> query = std::span(memory).subspan(place, 6400);
    const std::span<const float> key = std::span(memory).subspan(place + 8000, 6400);
    std::vector<float> expected(6000, 9), output = expected;
    must(copies.compute(
        desc,
        {.query = query, .key = key, .value = key, .output = std::span(expected).subspan(place, 4784)}));
    EXPECT_NE(expected, output) << "nothing was computed";
    Imports::count = 0;
    must(imports.compute(
        desc, {.query = query, .key = key, .value = key, .output = std::span(output).subspan(place, 4784)}));
    // A vector begins at a multiple of 16 bytes.
    EXPECT_EQ(Imports::count, place % 4 == 0 ? 3U : 0U) << place;
    EXPECT_EQ(output, expected) << place;
  }
  EXPECT_TRUE(imports.validation_messages().empty());
}

/// Large buffers of a driver for CPUs lie in memory that the runtime asks of the system, in large pages.
TEST_F(ComputeTest, LargeBuffersOfCpusAreInLargePages) {
  RuntimeOptions options;
  options.pipeline_cache = false;
  options.validation = std::getenv("VKATTN_VALIDATION") != nullptr;
  const Runtime own = must(Runtime::create(options));
  if (!detail::RuntimeState::of(own).has_large_pages) GTEST_SKIP() << "the device has no large pages";
  Imports::watch(own);
  for (const std::size_t bytes : {std::size_t{262140}, std::size_t{262144}, std::size_t{3000004}}) {
    Imports::count = 0;
    const Buffer buffer = must(own.create_buffer(bytes));
    EXPECT_EQ(Imports::count, bytes < 262144 ? 0U : 1U) << bytes;
    EXPECT_EQ(own.mapped(buffer).size(), bytes);
    std::vector<std::byte> written(bytes, std::byte{7}), read(bytes);
    must(own.write(buffer, 0, written));
    must(own.read(buffer, 0, read));
    EXPECT_EQ(read, written);
  }
  Imports::count = 0;
  EXPECT_EQ(own.mapped(must(own.create_buffer(3000004))).size(), 3000004U);
  EXPECT_EQ(Imports::count, 0U) << "the buffer that was given up serves again";
  EXPECT_TRUE(own.validation_messages().empty());
  options.disabled_extensions = "VK_EXT_external_memory_host";
  EXPECT_FALSE(detail::RuntimeState::of(must(Runtime::create(options))).has_large_pages);
}

/// Keeps as many plans as the options say, those that were used last.
TEST_F(ComputeTest, PlansAreKept) {
  for (const std::size_t most : {std::size_t{0}, std::size_t{3}, std::size_t{64}}) {
    const Runtime runtime = own_runtime(most);
    const auto& kept = detail::RuntimeState::of(runtime).kept_plans;
    std::vector<float> output(4);
    for (std::int64_t shift = 0; shift < 10; ++shift) {
      AttentionDesc desc = two_by_two();
      desc.align = Align::kOffset;
      desc.offset = shift;
      desc.causal = true;
      must(runtime.compute(desc, {.query = kTwoRows, .key = kTwoRows, .value = kValues, .output = output}));
      EXPECT_EQ(kept.size(), std::min<std::size_t>(most, static_cast<std::size_t>(shift) + 1));
      if (!kept.empty()) {
        EXPECT_EQ(kept.back().desc().offset, shift);
      }
    }
  }
}

}  // namespace
}  // namespace vkattn::tests
