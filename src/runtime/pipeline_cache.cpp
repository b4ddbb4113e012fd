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

// The bytes of a file; empty if there is no such file.
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
  std::vector<std::byte> loaded;
  VkPhysicalDeviceProperties properties;
  state.instance->vk.vkGetPhysicalDeviceProperties(state.physical_device, &properties);
  if (options.pipeline_cache) {
    const std::filesystem::path folder = cache_directory(options);
    if (!folder.empty()) state.self_tests.open(folder / device_file_name("self-tests", properties, ".txt"));
    if (!folder.empty()) state.cache_file = folder / device_file_name("pipelines", properties, ".bin");
    loaded = load(state.cache_file);
  }
  auto cache = PipelineCache::create(*state.device, loaded);
  if (!cache) return runtime_error(state, cache.error());
  state.pipeline_cache.emplace(*std::move(cache));
  state.kept_pipelines = KeptPipelines(loaded);
  return {};
}

namespace {

// The file's bytes merged with the runtime's cache; empty if the driver does not merge them.
std::vector<std::byte> merged(const RuntimeState& state, const std::vector<std::byte>& there) {
  // In a cache of their own, as threads may be making pipelines with the runtime's.
  auto all = PipelineCache::create(*state.device, there);
  if (!all) return {};
  const VkPipelineCache ours = state.pipeline_cache->handle();
  if (state.vk.vkMergePipelineCaches(state.handle, all->handle(), 1, &ours) != VK_SUCCESS) return {};
  auto bytes = all->save();
  return bytes ? *std::move(bytes) : std::vector<std::byte>();
}

}  // namespace

Result<void> save_pipeline_cache(RuntimeState& state) {
  if (Result<void> s = check_not_lost(state); !s) return s;
  if (state.cache_file.empty() || !state.pipeline_cache) return {};
  auto own = state.pipeline_cache->save();
  if (!own) return runtime_error(state, own.error());
  if (state.kept_pipelines.has(*own)) return {};  // nothing new
  constexpr std::chrono::seconds kPatience{2};    // also at a program's end
  FileLock lock;
  if (lock.take(state.cache_file, kPatience) == FileLock::Status::kBusy) {
    return Error{ErrorCode::kIo, VK_SUCCESS,
                 message("another program has been writing ", path_text(state.cache_file), " for ",
                         kPatience.count(), " seconds")};
  }
  const std::vector<std::byte> bytes = state.kept_pipelines.to_write(
      *own, load(state.cache_file),
      [&](const std::vector<std::byte>& there) { return merged(state, there); });
  const std::string_view piece(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  if (Result<void> status = replace_file(state.cache_file, std::span(&piece, 1)); !status) return status;
  state.kept_pipelines.wrote(*std::move(own), bytes);
  return {};
}

}  // namespace vkattn::detail
