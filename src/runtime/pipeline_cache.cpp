// The pipeline cache on disk: the bytes of a PipelineCache in a file for each device and driver.
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "common/message.hpp"
#include "common/path_text.hpp"
#include "runtime/files.hpp"
#include "runtime/input_file.hpp"
#include "runtime/runtime_state.hpp"

namespace vkattn::detail {

namespace {

constexpr std::uintmax_t kMaxCacheBytes = std::uintmax_t{256} << 20U;  // larger files are not ours

// The bytes of a file; none where there is no such file.
std::vector<std::byte> load(const std::filesystem::path& path) {
  auto file = open_input(path);
  if (!file || file->bytes > kMaxCacheBytes) return {};
  std::vector<std::byte> data(static_cast<std::size_t>(file->bytes));
  if (!file->stream.read(reinterpret_cast<char*>(data.data()), static_cast<std::streamsize>(data.size())))
    return {};
  return data;
}

}  // namespace

Result<void> create_pipeline_cache(RuntimeState& state, const RuntimeOptions& options) {
  VkPhysicalDeviceProperties properties;
  state.instance->vk.vkGetPhysicalDeviceProperties(state.physical_device, &properties);
  if (options.pipeline_cache) {
    const std::filesystem::path folder = cache_directory(options);
    if (!folder.empty()) state.self_tests.open(folder / device_file_name("self-tests", properties, ".txt"));
    if (!folder.empty()) state.cache_file = folder / device_file_name("pipelines", properties, ".bin");
    state.cached_bytes = load(state.cache_file);
  }
  auto cache = PipelineCache::create(*state.device, state.cached_bytes);
  if (!cache) return runtime_error(state, cache.error());
  state.pipeline_cache.emplace(*std::move(cache));
  return {};
}

namespace {

// What the driver has now, with what other programs have kept in the file since this one read it.
Result<std::vector<std::byte>> bytes_to_keep(const RuntimeState& state) {
  const std::vector<std::byte> there = load(state.cache_file);
  if (there.empty() || there == state.cached_bytes) return state.pipeline_cache->save();
  // In a cache of their own, as threads may be making pipelines with the runtime's.
  auto all = PipelineCache::create(*state.device, there);
  if (!all) return all.error();
  const VkPipelineCache ours = state.pipeline_cache->handle();
  if (VkResult result = state.vk.vkMergePipelineCaches(state.handle, all->handle(), 1, &ours);
      result != VK_SUCCESS) {
    return vulkan_error(result, "vkMergePipelineCaches");
  }
  return all->save();
}

}  // namespace

Result<void> save_pipeline_cache(RuntimeState& state) {
  if (Result<void> s = check_not_lost(state); !s) return s;
  if (state.cache_file.empty() || !state.pipeline_cache) return {};
  auto bytes = state.pipeline_cache->save();
  if (!bytes) return runtime_error(state, bytes.error());
  if (*bytes == state.cached_bytes) return {};  // nothing new
  constexpr std::chrono::seconds kPatience{2};  // also at a program's end
  FileLock lock;
  if (lock.take(state.cache_file, kPatience) == FileLock::Status::kBusy) {
    return Error{ErrorCode::kIo, VK_SUCCESS,
                 message("another program has been writing ", path_text(state.cache_file), " for ",
                         kPatience.count(), " seconds")};
  }
  bytes = bytes_to_keep(state);
  if (!bytes) return runtime_error(state, bytes.error());
  const std::string_view piece(reinterpret_cast<const char*>(bytes->data()), bytes->size());
  if (Result<void> status = replace_file(state.cache_file, std::span(&piece, 1)); !status) return status;
  state.cached_bytes = *std::move(bytes);
  return {};
}

}  // namespace vkattn::detail
