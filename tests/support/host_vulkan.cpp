// The objects and commands of the Vulkan on the host: see host_vulkan.hpp.
#include "support/host_vulkan.hpp"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <limits>
#include <map>
#include <memory>
#include <set>
#include <string_view>
#include <utility>
#include <vector>

#include "support/initial.hpp"

namespace vkattn::tests {
namespace {

using Handle = std::uint64_t;

enum class Kind {
  kBuffer,
  kMemory,
  kModule,
  kSetLayout,
  kPipelineLayout,
  kPipeline,
  kPipelineCache,
  kPool,
  kSet
};

/// The members of an object of any kind.
struct Object {
  Kind kind;
  VkDeviceSize offset = 0;        ///< of a buffer: start of the part that may be used
  VkDeviceSize size = 0;          ///< of a buffer: bytes from the offset; of memory: all bytes
  std::vector<std::byte> bytes;   ///< of memory and of a pipeline cache
  std::uint32_t bindings = 0;     ///< of a set layout and of a set
  std::uint32_t push_bytes = 0;   ///< of a pipeline layout
  std::uint32_t room = 0;         ///< of a pool: number of sets that it can still give
  bool frees_sets = false;        ///< of a pool
  Handle pool = 0;                ///< of a set
  std::set<std::uint32_t> bound;  ///< of a set: bindings that were written
  bool is_callers = false;        ///< made by the test, not by the library
};

struct State {
  HostSettings settings;
  bool is_checked = false;
  std::map<Handle, Object> objects;
  Handle last = 0x1000000;  ///< larger than handles that programs make up
  std::uint32_t calls = 0;
  bool pipeline_bound = false;
  std::set<std::uint32_t> bound;  ///< of the set that commands have bound
};

State& state() {
  static State it;
  return it;
}

template <class Type>
Handle number_of(Type handle) {
  return reinterpret_cast<Handle>(handle);
}

void require(bool holds, const char* promise) {
  if (holds || !state().is_checked) return;
  std::fprintf(stderr, "broken promise: %s\n", promise);
  std::abort();
}

/// If nothing is checked, a handle that a program made up is an object that allows every use.
Object& object(Handle handle, Kind kind) {
  const auto found = state().objects.find(handle);
  const bool is_alive = found != state().objects.end() && found->second.kind == kind;
  require(is_alive, "an object that is used is alive");
  if (is_alive) return found->second;
  static Object stranger;
  stranger = {.kind = kind, .room = std::numeric_limits<std::uint32_t>::max(), .frees_sets = true};
  return stranger;
}

template <class Type>
VkResult add(Object made, Type* handle) {
  state().objects.emplace(++state().last, std::move(made));
  *handle = reinterpret_cast<Type>(state().last);
  return VK_SUCCESS;
}

void remove(Handle handle, Kind kind) {
  if (handle == 0) return;
  (void)object(handle, kind);
  state().objects.erase(handle);
}

bool fails() {
  return ++state().calls == state().settings.fails_at;
}

// --- Memory ---

VKAPI_ATTR VkResult VKAPI_CALL create_buffer(VkDevice, const VkBufferCreateInfo* info,
                                             const VkAllocationCallbacks*, VkBuffer* buffer) {
  require(info->size != 0, "a buffer has a size");
  return fails() ? VK_ERROR_OUT_OF_HOST_MEMORY : add({.kind = Kind::kBuffer, .size = info->size}, buffer);
}
VKAPI_ATTR void VKAPI_CALL get_requirements(VkDevice, VkBuffer buffer, VkMemoryRequirements* needs) {
  *needs = {object(number_of(buffer), Kind::kBuffer).size, 64, 3};
}
VKAPI_ATTR VkResult VKAPI_CALL allocate(VkDevice, const VkMemoryAllocateInfo* info,
                                        const VkAllocationCallbacks*, VkDeviceMemory* memory) {
  const auto* const next = static_cast<const VkBaseInStructure*>(info->pNext);
  if (next != nullptr && next->sType == VK_STRUCTURE_TYPE_IMPORT_MEMORY_HOST_POINTER_INFO_EXT) {
    const void* const pages = reinterpret_cast<const VkImportMemoryHostPointerInfoEXT*>(next)->pHostPointer;
    constexpr std::uintptr_t kPage = 4096;
    if (reinterpret_cast<std::uintptr_t>(pages) % kPage != 0 || info->allocationSize % kPage != 0)
      return VK_ERROR_INVALID_EXTERNAL_HANDLE;
  }
  return fails() ? VK_ERROR_OUT_OF_DEVICE_MEMORY
                 : add({.kind = Kind::kMemory, .size = info->allocationSize}, memory);
}
VKAPI_ATTR VkResult VKAPI_CALL bind_memory(VkDevice, VkBuffer buffer, VkDeviceMemory memory,
                                           VkDeviceSize offset) {
  require(
      offset + object(number_of(buffer), Kind::kBuffer).size <= object(number_of(memory), Kind::kMemory).size,
      "a buffer fits its memory");
  return fails() ? VK_ERROR_OUT_OF_DEVICE_MEMORY : VK_SUCCESS;
}
VKAPI_ATTR VkResult VKAPI_CALL map_memory(VkDevice, VkDeviceMemory memory, VkDeviceSize offset, VkDeviceSize,
                                          VkMemoryMapFlags, void** data) {
  Object& it = object(number_of(memory), Kind::kMemory);
  it.bytes.resize(it.size);
  *data = it.bytes.data() + offset;
  return fails() ? VK_ERROR_MEMORY_MAP_FAILED : VK_SUCCESS;
}

// --- Pipelines ---

VKAPI_ATTR VkResult VKAPI_CALL create_module(VkDevice, const VkShaderModuleCreateInfo* info,
                                             const VkAllocationCallbacks*, VkShaderModule* module) {
  require(info->codeSize > 20 && info->codeSize % 4 == 0 && info->pCode[0] == 0x07230203,
          "a shader is SPIR-V");
  return fails() ? VK_ERROR_OUT_OF_HOST_MEMORY : add({.kind = Kind::kModule}, module);
}
VKAPI_ATTR VkResult VKAPI_CALL create_set_layout(VkDevice, const VkDescriptorSetLayoutCreateInfo* info,
                                                 const VkAllocationCallbacks*,
                                                 VkDescriptorSetLayout* layout) {
  require(info->bindingCount <= state().settings.storage_buffers, "a stage has no more buffers than it may");
  return fails() ? VK_ERROR_OUT_OF_HOST_MEMORY
                 : add({.kind = Kind::kSetLayout, .bindings = info->bindingCount}, layout);
}
VKAPI_ATTR VkResult VKAPI_CALL create_pipeline_layout(VkDevice, const VkPipelineLayoutCreateInfo* info,
                                                      const VkAllocationCallbacks*,
                                                      VkPipelineLayout* layout) {
  Object made{.kind = Kind::kPipelineLayout};
  require(info->setLayoutCount == 1, "there is one set");
  made.bindings = object(number_of(info->pSetLayouts[0]), Kind::kSetLayout).bindings;
  if (info->pushConstantRangeCount != 0) made.push_bytes = info->pPushConstantRanges[0].size;
  require(made.push_bytes <= 128 && made.push_bytes % 4 == 0, "push constants fit");
  return fails() ? VK_ERROR_OUT_OF_HOST_MEMORY : add(std::move(made), layout);
}
VKAPI_ATTR VkResult VKAPI_CALL create_pipelines(VkDevice, VkPipelineCache cache, std::uint32_t count,
                                                const VkComputePipelineCreateInfo* infos,
                                                const VkAllocationCallbacks*, VkPipeline* pipelines) {
  if (cache != VK_NULL_HANDLE) (void)object(number_of(cache), Kind::kPipelineCache);
  const bool failed = fails();
  for (std::uint32_t i = 0; i < count; ++i) {
    (void)object(number_of(infos[i].stage.module), Kind::kModule);
    (void)object(number_of(infos[i].layout), Kind::kPipelineLayout);
    const VkSpecializationInfo& constants = *infos[i].stage.pSpecializationInfo;
    std::set<std::uint32_t> ids;
    for (std::uint32_t entry = 0; entry < constants.mapEntryCount; ++entry) {
      const VkSpecializationMapEntry& it = constants.pMapEntries[entry];
      require(it.offset + it.size <= constants.dataSize, "a constant lies in the data");
      require(ids.insert(it.constantID).second, "a constant is given once");
    }
    pipelines[i] = VK_NULL_HANDLE;
    if (!failed) (void)add({.kind = Kind::kPipeline}, &pipelines[i]);
  }
  return failed ? VK_ERROR_OUT_OF_DEVICE_MEMORY : VK_SUCCESS;
}
VKAPI_ATTR VkResult VKAPI_CALL create_cache(VkDevice, const VkPipelineCacheCreateInfo* info,
                                            const VkAllocationCallbacks*, VkPipelineCache* cache) {
  if (fails()) return VK_ERROR_OUT_OF_HOST_MEMORY;
  const auto* const data = static_cast<const std::byte*>(info->pInitialData);
  Object made{.kind = Kind::kPipelineCache};
  if (info->initialDataSize != 0) made.bytes.assign(data, data + info->initialDataSize);
  if (!state().is_checked) made.bytes.resize(16);  // so that a program has something to keep
  add(std::move(made), cache);
  return VK_SUCCESS;
}
VKAPI_ATTR VkResult VKAPI_CALL get_cache_data(VkDevice, VkPipelineCache cache, std::size_t* bytes,
                                              void* data) {
  const std::vector<std::byte>& all = object(number_of(cache), Kind::kPipelineCache).bytes;
  if (fails()) return VK_ERROR_OUT_OF_HOST_MEMORY;
  if (data != nullptr) {
    *bytes = std::min(*bytes, all.size());
    std::copy_n(all.begin(), *bytes, static_cast<std::byte*>(data));
    return *bytes < all.size() ? VK_INCOMPLETE : VK_SUCCESS;
  }
  *bytes = all.size();
  return VK_SUCCESS;
}

// --- Descriptors ---

VKAPI_ATTR VkResult VKAPI_CALL create_pool(VkDevice, const VkDescriptorPoolCreateInfo* info,
                                           const VkAllocationCallbacks*, VkDescriptorPool* pool) {
  require(info->maxSets != 0, "a pool has room");
  return fails() ? VK_ERROR_OUT_OF_DEVICE_MEMORY
                 : add({.kind = Kind::kPool,
                        .room = info->maxSets,
                        .frees_sets = (info->flags & VK_DESCRIPTOR_POOL_CREATE_FREE_DESCRIPTOR_SET_BIT) != 0},
                       pool);
}
VKAPI_ATTR void VKAPI_CALL destroy_pool(VkDevice, VkDescriptorPool pool, const VkAllocationCallbacks*) {
  const Handle number = number_of(pool);
  std::erase_if(state().objects, [&](const auto& it) { return it.second.pool == number; });
  remove(number, Kind::kPool);
}
VKAPI_ATTR VkResult VKAPI_CALL allocate_sets(VkDevice, const VkDescriptorSetAllocateInfo* info,
                                             VkDescriptorSet* sets) {
  const Handle number = number_of(info->descriptorPool);
  Object& pool = object(number, Kind::kPool);
  if (pool.room < info->descriptorSetCount) return VK_ERROR_OUT_OF_POOL_MEMORY;
  if (fails()) return VK_ERROR_FRAGMENTED_POOL;
  pool.room -= info->descriptorSetCount;
  for (std::uint32_t i = 0; i < info->descriptorSetCount; ++i) {
    const std::uint32_t bindings = object(number_of(info->pSetLayouts[i]), Kind::kSetLayout).bindings;
    (void)add({.kind = Kind::kSet, .bindings = bindings, .pool = number}, &sets[i]);
  }
  return VK_SUCCESS;
}
VKAPI_ATTR VkResult VKAPI_CALL free_sets(VkDevice, VkDescriptorPool pool, std::uint32_t count,
                                         const VkDescriptorSet* sets) {
  Object& from = object(number_of(pool), Kind::kPool);
  require(from.frees_sets, "sets are freed where the pool allows it");
  for (std::uint32_t i = 0; i < count; ++i) {
    require(object(number_of(sets[i]), Kind::kSet).pool == number_of(pool), "a set goes back to its pool");
    remove(number_of(sets[i]), Kind::kSet);
  }
  from.room += count;
  return VK_SUCCESS;
}

void check_buffer(const VkDescriptorBufferInfo& info) {
  const HostSettings& settings = state().settings;
  const Object& buffer = object(number_of(info.buffer), Kind::kBuffer);
  require(info.range != 0 && info.range <= settings.range, "a range is one that the device takes");
  require(info.offset % settings.offset_alignment == 0, "a range begins where the device allows it");
  // The caller's part of a buffer may begin between two offsets that the device allows, or between two
  // multiples of 16, where descriptors begin so that 16-byte loads work.
  const VkDeviceSize begin = buffer.offset - buffer.offset % std::max(settings.offset_alignment, 16U);
  require(info.offset >= begin && info.range <= buffer.offset + buffer.size - info.offset,
          "a range lies in the part that was given");
}

void check_write(const VkWriteDescriptorSet& write, std::uint32_t bindings, std::set<std::uint32_t>& bound) {
  require(write.dstBinding < bindings && write.descriptorCount == 1, "a binding is there");
  check_buffer(*write.pBufferInfo);
  bound.insert(write.dstBinding);
}

VKAPI_ATTR void VKAPI_CALL update_sets(VkDevice, std::uint32_t count, const VkWriteDescriptorSet* writes,
                                       std::uint32_t, const VkCopyDescriptorSet*) {
  for (std::uint32_t i = 0; i < count; ++i) {
    Object& set = object(number_of(writes[i].dstSet), Kind::kSet);
    check_write(writes[i], set.bindings, set.bound);
  }
}

// --- Commands ---

VKAPI_ATTR void VKAPI_CALL bind_pipeline(VkCommandBuffer, VkPipelineBindPoint, VkPipeline pipeline) {
  (void)object(number_of(pipeline), Kind::kPipeline);
  state().pipeline_bound = true;
}
VKAPI_ATTR void VKAPI_CALL bind_sets(VkCommandBuffer, VkPipelineBindPoint, VkPipelineLayout layout,
                                     std::uint32_t, std::uint32_t count, const VkDescriptorSet* sets,
                                     std::uint32_t, const std::uint32_t*) {
  const Object& set = object(number_of(sets[0]), Kind::kSet);
  require(count == 1 && set.bindings == object(number_of(layout), Kind::kPipelineLayout).bindings,
          "a set fits its layout");
  require(set.bound.size() == set.bindings, "all bindings of a set were written");
  state().bound = set.bound;
}
VKAPI_ATTR void VKAPI_CALL push_set(VkCommandBuffer, VkPipelineBindPoint, VkPipelineLayout layout,
                                    std::uint32_t, std::uint32_t count, const VkWriteDescriptorSet* writes) {
  const std::uint32_t bindings = object(number_of(layout), Kind::kPipelineLayout).bindings;
  state().bound.clear();
  for (std::uint32_t i = 0; i < count; ++i) check_write(writes[i], bindings, state().bound);
  require(state().bound.size() == bindings, "all bindings are pushed");
}
VKAPI_ATTR void VKAPI_CALL push_constants(VkCommandBuffer, VkPipelineLayout layout, VkShaderStageFlags,
                                          std::uint32_t offset, std::uint32_t size, const void* values) {
  require(offset + size <= object(number_of(layout), Kind::kPipelineLayout).push_bytes,
          "push constants are those of the layout");
  const std::vector<std::byte> read(static_cast<const std::byte*>(values),
                                    static_cast<const std::byte*>(values) + size);
  require(read.size() == size, "push constants can be read");
}
VKAPI_ATTR void VKAPI_CALL pipeline_barrier(VkCommandBuffer, VkPipelineStageFlags from,
                                            VkPipelineStageFlags to, VkDependencyFlags, std::uint32_t,
                                            const VkMemoryBarrier*, std::uint32_t,
                                            const VkBufferMemoryBarrier*, std::uint32_t,
                                            const VkImageMemoryBarrier*) {
  require(from != 0 && to != 0, "a barrier has stages");
}
VKAPI_ATTR void VKAPI_CALL update_buffer(VkCommandBuffer, VkBuffer buffer, VkDeviceSize offset,
                                         VkDeviceSize size, const void*) {
  const Object& it = object(number_of(buffer), Kind::kBuffer);
  require(size != 0 && size <= 65536 && size % 4 == 0 && offset % 4 == 0, "an update is of whole words");
  require(offset >= it.offset && offset + size <= it.offset + it.size, "an update lies in its buffer");
}
VKAPI_ATTR void VKAPI_CALL dispatch(VkCommandBuffer, std::uint32_t x, std::uint32_t y, std::uint32_t z) {
  const std::uint32_t most = state().settings.groups;
  require(x != 0 && y != 0 && z != 0 && x <= most && y <= most && z <= most,
          "a dispatch has groups, and no more than it may");
  require(state().pipeline_bound && !state().bound.empty(), "a dispatch has a pipeline and buffers");
}

// No object of the library's: a pool of the caller's, which nothing here knows.
VKAPI_ATTR void VKAPI_CALL write_timestamp(VkCommandBuffer, VkPipelineStageFlagBits stage, VkQueryPool pool,
                                           std::uint32_t) {
  require(stage != 0 && pool != VK_NULL_HANDLE, "a timestamp has a stage and a pool");
}

template <class Type, Kind kKind>
VKAPI_ATTR void VKAPI_CALL destroy(VkDevice, Type handle, const VkAllocationCallbacks*) {
  remove(number_of(handle), kKind);
}

struct Entry {
  std::string_view name;
  PFN_vkVoidFunction function;
};

VKAPI_ATTR PFN_vkVoidFunction VKAPI_CALL get_device_function(VkDevice, const char* name);

#define VKATTN_ENTRY(NAME, FUNCTION) \
  { #NAME, reinterpret_cast < PFN_vkVoidFunction>(static_cast <PFN_##NAME>(FUNCTION)) }
const Entry kEntries[] = {
    VKATTN_ENTRY(vkGetDeviceProcAddr, get_device_function),
    VKATTN_ENTRY(vkCreateBuffer, create_buffer),
    VKATTN_ENTRY(vkDestroyBuffer, (destroy<VkBuffer, Kind::kBuffer>)),
    VKATTN_ENTRY(vkGetBufferMemoryRequirements, get_requirements),
    VKATTN_ENTRY(vkBindBufferMemory, bind_memory),
    VKATTN_ENTRY(vkAllocateMemory, allocate),
    VKATTN_ENTRY(vkFreeMemory, (destroy<VkDeviceMemory, Kind::kMemory>)),
    VKATTN_ENTRY(vkMapMemory, map_memory),
    VKATTN_ENTRY(vkCreateShaderModule, create_module),
    VKATTN_ENTRY(vkDestroyShaderModule, (destroy<VkShaderModule, Kind::kModule>)),
    VKATTN_ENTRY(vkCreateDescriptorSetLayout, create_set_layout),
    VKATTN_ENTRY(vkDestroyDescriptorSetLayout, (destroy<VkDescriptorSetLayout, Kind::kSetLayout>)),
    VKATTN_ENTRY(vkCreatePipelineLayout, create_pipeline_layout),
    VKATTN_ENTRY(vkDestroyPipelineLayout, (destroy<VkPipelineLayout, Kind::kPipelineLayout>)),
    VKATTN_ENTRY(vkCreateComputePipelines, create_pipelines),
    VKATTN_ENTRY(vkDestroyPipeline, (destroy<VkPipeline, Kind::kPipeline>)),
    VKATTN_ENTRY(vkCreatePipelineCache, create_cache),
    VKATTN_ENTRY(vkDestroyPipelineCache, (destroy<VkPipelineCache, Kind::kPipelineCache>)),
    VKATTN_ENTRY(vkGetPipelineCacheData, get_cache_data),
    VKATTN_ENTRY(vkCreateDescriptorPool, create_pool),
    VKATTN_ENTRY(vkDestroyDescriptorPool, destroy_pool),
    VKATTN_ENTRY(vkAllocateDescriptorSets, allocate_sets),
    VKATTN_ENTRY(vkFreeDescriptorSets, free_sets),
    VKATTN_ENTRY(vkUpdateDescriptorSets, update_sets),
    VKATTN_ENTRY(vkCmdBindPipeline, bind_pipeline),
    VKATTN_ENTRY(vkCmdBindDescriptorSets, bind_sets),
    VKATTN_ENTRY(vkCmdPushConstants, push_constants),
    VKATTN_ENTRY(vkCmdPipelineBarrier, pipeline_barrier),
    VKATTN_ENTRY(vkCmdUpdateBuffer, update_buffer),
    VKATTN_ENTRY(vkCmdDispatch, dispatch),
    VKATTN_ENTRY(vkCmdWriteTimestamp, write_timestamp),
    VKATTN_ENTRY(vkCmdPushDescriptorSetKHR, push_set),
};
#undef VKATTN_ENTRY

VKAPI_ATTR PFN_vkVoidFunction VKAPI_CALL get_device_function(VkDevice, const char* name) {
  return host_get_instance_proc_addr(VK_NULL_HANDLE, name);
}

}  // namespace

HostSettings& host_settings() {
  return state().settings;
}

PFN_vkVoidFunction host_get_instance_proc_addr(VkInstance /*instance*/, const char* name) {
  for (const Entry& entry : kEntries) {
    if (entry.name == name) return entry.function;
  }
  const PFN_vkVoidFunction tells = function_that_tells(name);
  return tells != nullptr || state().is_checked ? tells : function_of_runtime(name);
}

HostVulkan::HostVulkan(const HostSettings& settings) {
  state() = {};
  state().settings = settings;
  state().is_checked = true;
}

HostVulkan::~HostVulkan() {
  // The sets of the caller's pool are destroyed with it.
  std::erase_if(state().objects, [](const auto& it) {
    const auto pool = state().objects.find(it.second.pool);
    return pool != state().objects.end() && pool->second.is_callers;
  });
  std::erase_if(state().objects, [](const auto& it) { return it.second.is_callers; });
  require(state().objects.empty(), "every object was destroyed");
  state().is_checked = false;
}

vkattn_physical_device HostVulkan::physical_device() {
  auto physical = initial(vkattn_physical_device_init);
  physical.instance = reinterpret_cast<VkInstance>(&state());
  physical.physical_device = reinterpret_cast<VkPhysicalDevice>(&state());
  physical.get_instance_proc_addr = &host_get_instance_proc_addr;
  physical.api_version = state().settings.api_version;
  return physical;
}

vkattn_device* HostVulkan::borrow(std::span<std::byte> parameters, VkDeviceSize offset) {
  const vkattn_physical_device physical = physical_device();
  VkDeviceCreateInfo info{VK_STRUCTURE_TYPE_DEVICE_CREATE_INFO};
  const auto memory = std::make_unique<vkattn_enable_memory>();
  require(vkattn_enable_wanted(&physical, &info, memory.get(), nullptr) == VKATTN_SUCCESS,
          "what is wanted can be enabled");
  auto desc = initial(vkattn_device_desc_init);
  desc.instance = physical.instance;
  desc.physical_device = physical.physical_device;
  desc.device = reinterpret_cast<VkDevice>(&state());
  desc.get_instance_proc_addr = physical.get_instance_proc_addr;
  desc.api_version = physical.api_version;
  desc.enabled_extensions = info.ppEnabledExtensionNames;
  desc.enabled_extension_count = info.enabledExtensionCount;
  desc.enabled_features = info.pNext;
  if (!parameters.empty()) {
    desc.parameter_buffer = buffer(offset, parameters.size());
    desc.parameter_offset = offset;
    desc.parameter_size = parameters.size();
    desc.parameter_data = parameters.data();
  }
  vkattn_device* device = nullptr;
  require(vkattn_device_create(&desc, &device, nullptr) == VKATTN_SUCCESS, "a device can be borrowed");
  return device;
}

VkBuffer HostVulkan::buffer(VkDeviceSize offset, VkDeviceSize size) {
  VkBuffer made = VK_NULL_HANDLE;
  (void)add({.kind = Kind::kBuffer, .offset = offset, .size = size, .is_callers = true}, &made);
  return made;
}

VkDescriptorPool HostVulkan::pool() {
  VkDescriptorPool made = VK_NULL_HANDLE;
  (void)add({.kind = Kind::kPool, .room = 4, .is_callers = true}, &made);
  return made;
}

VkCommandBuffer HostVulkan::commands() {
  return reinterpret_cast<VkCommandBuffer>(&state());
}

void HostVulkan::begin_commands() {
  state().pipeline_bound = false;
  state().bound.clear();
}

}  // namespace vkattn::tests
