// The pipeline cache on disk. A file is a header of ours (which device and driver, how long, a checksum) and
// then Vulkan's own data. Anything that does not check out is ignored: a torn or foreign file never reaches a
// driver.
#include <algorithm>
#include <array>
#include <cstdlib>
#include <cstring>
#include <fstream>

#ifdef _WIN32
#include <process.h>
#define VKATTN_PROCESS_ID _getpid
#else
#include <unistd.h>
#define VKATTN_PROCESS_ID getpid
#endif

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

std::filesystem::path environment_path(const char* name) {
  const char* value = std::getenv(name);  // NOLINT(concurrency-mt-unsafe): read once, at start-up
  return value != nullptr ? value : "";
}

std::filesystem::path cache_directory(const RuntimeOptions& options) {
  if (!options.cache_dir.empty()) return options.cache_dir;
  if (auto path = environment_path("VKATTN_CACHE_DIR"); !path.empty()) return path;
  if (auto path = environment_path("XDG_CACHE_HOME"); !path.empty()) return path / "vkattn";
  if (auto path = environment_path("HOME"); !path.empty()) return path / ".cache" / "vkattn";
  return {};
}

std::filesystem::path file_for(const std::filesystem::path& directory, const FileHeader& header) {
  if (directory.empty()) return {};
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::string uuid;
  for (std::uint8_t byte : header.uuid) {
    uuid += kDigits[byte >> 4U];
    uuid += kDigits[byte & 15U];
  }
  return directory /
         message("pipelines-", std::hex, header.vendor_id, "-", header.device_id, "-", uuid, ".bin");
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

Status write_file(const std::filesystem::path& path, const FileHeader& header,
                  const std::vector<char>& data) {
  std::error_code error;
  std::filesystem::create_directories(path.parent_path(), error);
  std::filesystem::path temporary = path;
  temporary += message(".", VKATTN_PROCESS_ID(), ".tmp");
  std::ofstream file(temporary, std::ios::binary | std::ios::trunc);
  file.write(reinterpret_cast<const char*>(&header), sizeof(header));
  file.write(data.data(), static_cast<std::streamsize>(data.size()));
  file.close();
  if (file.good()) std::filesystem::rename(temporary, path, error);
  if (!file.good() || error) {
    std::filesystem::remove(temporary, error);
    return Error{ErrorCode::kIo, VK_SUCCESS,
                 message("the pipeline cache ", path.string(), " cannot be written")};
  }
  return {};
}

}  // namespace

Status create_pipeline_cache(RuntimeState& state, const RuntimeOptions& options) {
  VkPhysicalDeviceProperties properties;
  vkGetPhysicalDeviceProperties(state.physical_device, &properties);
  const FileHeader expected = header_for(properties);
  std::vector<char> data;
  if (options.pipeline_cache) {
    state.cache_file = file_for(cache_directory(options), expected);
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

Status save_pipeline_cache(RuntimeState& state) {
  if (state.cache_file.empty() || state.pipeline_cache == VK_NULL_HANDLE || state.lost) return {};
  std::size_t bytes = 0;
  VkResult result = state.vk.vkGetPipelineCacheData(state.handle, state.pipeline_cache, &bytes, nullptr);
  if (result != VK_SUCCESS) return runtime_error(state, result, "vkGetPipelineCacheData");
  std::vector<char> data(bytes);
  result = state.vk.vkGetPipelineCacheData(state.handle, state.pipeline_cache, &bytes, data.data());
  if (result != VK_SUCCESS) return runtime_error(state, result, "vkGetPipelineCacheData");
  data.resize(bytes);
  VkPhysicalDeviceProperties properties;
  vkGetPhysicalDeviceProperties(state.physical_device, &properties);
  FileHeader header = header_for(properties);
  header.data_bytes = data.size();
  header.checksum = checksum(data);
  if (header.checksum == state.cache_checksum) return {};  // nothing new
  if (Status status = write_file(state.cache_file, header, data); !status) return status;
  state.cache_checksum = header.checksum;
  return {};
}

}  // namespace vkattn::detail
