// The pipeline cache on disk. A file is a header of ours (which device and driver, how long, a checksum) and
// then Vulkan's own data. Anything that does not check out is ignored: a torn or foreign file never reaches a
// driver.
#include <algorithm>
#include <array>
#include <cstring>
#include <fstream>
#include <string_view>

#include "runtime/files.hpp"
#include "runtime/runtime_state.hpp"

namespace vkattn::detail {

namespace {

constexpr std::array<char, 8> kMagic{'v', 'k', 'a', 't', 't', 'n', 'P', '1'};
constexpr std::uint64_t kMaxBytes = std::uint64_t{256} << 20U;  // larger files are not ours

struct FileHeader {
  std::array<char, 8> magic = kMagic;
  std::uint32_t vendor_id = 0;
  std::uint32_t device_id = 0;
  std::uint32_t driver_version = 0;
  std::uint32_t reserved = 0;
  std::array<std::uint8_t, VK_UUID_SIZE> uuid{};
  std::uint64_t data_bytes = 0;
  std::uint64_t checksum = 0;
};
static_assert(sizeof(FileHeader) == 56);

// FNV-1a, 64 bits (Fowler, Noll and Vo).
std::uint64_t checksum(const std::vector<char>& data) {
  std::uint64_t hash = 0xcbf29ce484222325ULL;
  for (char c : data) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3ULL;
  return hash;
}

FileHeader header_for(const VkPhysicalDeviceProperties& properties) {
  FileHeader header;
  header.vendor_id = properties.vendorID;
  header.device_id = properties.deviceID;
  header.driver_version = properties.driverVersion;
  std::copy_n(properties.pipelineCacheUUID, VK_UUID_SIZE, header.uuid.begin());
  return header;
}

// The data of a valid file, else nothing.
std::vector<char> load(const std::filesystem::path& path, const FileHeader& expected) {
  std::ifstream file(path, std::ios::binary);
  FileHeader header;
  if (!file.read(reinterpret_cast<char*>(&header), sizeof(header))) return {};
  if (header.magic != kMagic || header.vendor_id != expected.vendor_id ||
      header.device_id != expected.device_id || header.driver_version != expected.driver_version ||
      header.uuid != expected.uuid || header.data_bytes > kMaxBytes) {
    return {};
  }
  std::vector<char> data(static_cast<std::size_t>(header.data_bytes));
  if (!file.read(data.data(), static_cast<std::streamsize>(data.size()))) return {};
  if (file.peek() != std::ifstream::traits_type::eof() || checksum(data) != header.checksum) return {};
  return data;
}

}  // namespace

Result<void> create_pipeline_cache(RuntimeState& state, const RuntimeOptions& options) {
  VkPhysicalDeviceProperties properties;
  state.instance->vk.vkGetPhysicalDeviceProperties(state.physical_device, &properties);
  const FileHeader expected = header_for(properties);
  std::vector<char> data;
  if (options.pipeline_cache) {
    const std::filesystem::path folder = cache_directory(options);
    if (!folder.empty()) state.self_tests.open(folder / device_file_name("self-tests", properties, ".txt"));
    if (!folder.empty()) state.cache_file = folder / device_file_name("pipelines", properties, ".bin");
    data = load(state.cache_file, expected);
    state.cache_checksum = checksum(data);
  }
  VkPipelineCacheCreateInfo info{VK_STRUCTURE_TYPE_PIPELINE_CACHE_CREATE_INFO};
  info.initialDataSize = data.size();
  info.pInitialData = data.data();
  VkResult result = state.vk.vkCreatePipelineCache(state.handle, &info, nullptr, &state.pipeline_cache);
  if (result != VK_SUCCESS) return runtime_error(state, result, "vkCreatePipelineCache");
  return {};
}

Result<void> save_pipeline_cache(RuntimeState& state) {
  if (state.cache_file.empty() || state.pipeline_cache == VK_NULL_HANDLE || state.lost) return {};
  std::size_t bytes = 0;
  VkResult result = state.vk.vkGetPipelineCacheData(state.handle, state.pipeline_cache, &bytes, nullptr);
  if (result != VK_SUCCESS) return runtime_error(state, result, "vkGetPipelineCacheData");
  std::vector<char> data(bytes);
  result = state.vk.vkGetPipelineCacheData(state.handle, state.pipeline_cache, &bytes, data.data());
  if (result != VK_SUCCESS) return runtime_error(state, result, "vkGetPipelineCacheData");
  data.resize(bytes);
  VkPhysicalDeviceProperties properties;
  state.instance->vk.vkGetPhysicalDeviceProperties(state.physical_device, &properties);
  FileHeader header = header_for(properties);
  header.data_bytes = data.size();
  header.checksum = checksum(data);
  if (header.checksum == state.cache_checksum) return {};  // nothing new
  const std::string_view pieces[] = {{reinterpret_cast<const char*>(&header), sizeof(header)},
                                     {data.data(), data.size()}};
  if (Result<void> status = replace_file(state.cache_file, pieces); !status) return status;
  state.cache_checksum = header.checksum;
  return {};
}

}  // namespace vkattn::detail
