// Pipeline caches as bytes: a header of ours (which device and driver, how long, a checksum) and then
// Vulkan's own data.
#include <vkattn/pipeline_cache.hpp>

#include <algorithm>
#include <array>
#include <cstring>

#include "common/checksum.hpp"
#include "common/message.hpp"
#include "vulkan/debug.hpp"
#include "vulkan/device_state.hpp"
#include "vulkan/shared_pipelines.hpp"

namespace vkattn {

namespace detail {

struct PipelineCacheState {
  Shared<const DeviceState> device;
  VkPipelineCache handle = VK_NULL_HANDLE;
  std::string ignored;

  PipelineCacheState() = default;
  PipelineCacheState(const PipelineCacheState&) = delete;
  PipelineCacheState& operator=(const PipelineCacheState&) = delete;
  ~PipelineCacheState() {
    if (handle != VK_NULL_HANDLE) {
      device->pipelines->forget(handle);  // before another can have it
      device->vk.vkDestroyPipelineCache(device->device, handle, device->allocator.get());
    }
  }
};

namespace {

constexpr std::array<char, 8> kMagic{'v', 'k', 'a', 't', 't', 'n', 'P', '1'};

struct BlobHeader {
  std::array<char, 8> magic = kMagic;
  std::uint32_t vendor_id = 0;
  std::uint32_t device_id = 0;
  std::uint32_t driver_version = 0;
  std::uint32_t reserved = 0;
  std::array<std::uint8_t, VK_UUID_SIZE> uuid{};
  std::uint64_t data_bytes = 0;
  std::uint64_t checksum = 0;
};
static_assert(sizeof(BlobHeader) == 56);

BlobHeader header_for(const DeviceState& device) {
  VkPhysicalDeviceProperties2 properties{VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PROPERTIES_2};
  device.instance_vk.vkGetPhysicalDeviceProperties2(device.physical_device, &properties);
  BlobHeader header;
  header.vendor_id = properties.properties.vendorID;
  header.device_id = properties.properties.deviceID;
  header.driver_version = properties.properties.driverVersion;
  std::copy_n(properties.properties.pipelineCacheUUID, VK_UUID_SIZE, header.uuid.begin());
  return header;
}

// The data of a blob that checks out; else nothing, and why.
std::span<const std::byte> data_of(std::span<const std::byte> blob, const BlobHeader& expected,
                                   std::string& why) {
  BlobHeader header;
  if (blob.size() < sizeof(header)) {
    why = message("its ", blob.size(), " bytes are too few");
    return {};
  }
  std::memcpy(&header, blob.data(), sizeof(header));
  const std::span<const std::byte> data = blob.subspan(sizeof(header));
  if (header.magic != kMagic) {
    why = "it is no pipeline cache of this library";
  } else if (header.vendor_id != expected.vendor_id || header.device_id != expected.device_id) {
    why = "it is of another device";
  } else if (header.driver_version != expected.driver_version || header.uuid != expected.uuid) {
    why = "it is of another driver";
  } else if (header.data_bytes != data.size()) {
    why = message("it has ", data.size(), " bytes of data in place of ", header.data_bytes);
  } else if (header.checksum != checksum(data)) {
    why = "its checksum is wrong";
  } else {
    return data;
  }
  return {};
}

}  // namespace

}  // namespace detail

PipelineCache::PipelineCache(std::unique_ptr<detail::PipelineCacheState> state) : state_(std::move(state)) {}
PipelineCache::PipelineCache(PipelineCache&&) noexcept = default;
PipelineCache& PipelineCache::operator=(PipelineCache&&) noexcept = default;
PipelineCache::~PipelineCache() = default;

Result<PipelineCache> PipelineCache::create(const Device& device, std::span<const std::byte> blob) {
  return detail::without_exceptions([&]() -> Result<PipelineCache> {
    auto state = std::make_unique<detail::PipelineCacheState>();
    state->device = device.share();
    std::span<const std::byte> data;
    if (!blob.empty()) data = detail::data_of(blob, detail::header_for(device.state()), state->ignored);
    if (!state->ignored.empty()) {
      detail::write_log(device.state().log, LogLevel::kWarning,
                        "the pipeline cache's bytes are not used: ", state->ignored);
    }
    VkPipelineCacheCreateInfo info{VK_STRUCTURE_TYPE_PIPELINE_CACHE_CREATE_INFO};
    info.initialDataSize = data.size();
    info.pInitialData = data.data();
    const detail::DeviceState& it = device.state();
    const VkResult result = detail::null_on_failure(
        it.vk.vkCreatePipelineCache(it.device, &info, it.allocator.get(), &state->handle), state->handle);
    if (result != VK_SUCCESS) return detail::vulkan_error(result, "vkCreatePipelineCache");
    detail::name_object(it, VK_OBJECT_TYPE_PIPELINE_CACHE, state->handle, "pipeline cache");
    return PipelineCache(std::move(state));
  });
}

VkPipelineCache PipelineCache::handle() const {
  return state_->handle;
}

const std::string& PipelineCache::ignored() const {
  return state_->ignored;
}

Result<std::vector<std::byte>> PipelineCache::save() const {
  return detail::without_exceptions([&]() -> Result<std::vector<std::byte>> {
    const detail::DeviceState& it = *state_->device;
    detail::BlobHeader header = detail::header_for(it);
    std::size_t bytes = 0;
    VkResult result = it.vk.vkGetPipelineCacheData(it.device, state_->handle, &bytes, nullptr);
    if (result != VK_SUCCESS) return detail::vulkan_error(result, "vkGetPipelineCacheData");
    std::vector<std::byte> blob(sizeof(header) + bytes);
    result = it.vk.vkGetPipelineCacheData(it.device, state_->handle, &bytes, blob.data() + sizeof(header));
    if (result < VK_SUCCESS) return detail::vulkan_error(result, "vkGetPipelineCacheData");
    blob.resize(sizeof(header) +
                bytes);  // VK_INCOMPLETE: others compile meanwhile, and what is there is whole
    header.data_bytes = bytes;
    header.checksum = detail::checksum(std::span(blob).subspan(sizeof(header)));
    std::memcpy(blob.data(), &header, sizeof(header));
    return blob;
  });
}

}  // namespace vkattn
