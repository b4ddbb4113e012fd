// Bytes of pipeline caches: a driver gets only complete bytes that a driver of the same kind has produced.
#include <array>
#include <cstring>
#include <span>
#include <vector>

#include "c/handles.hpp"
#include "common/checksum.hpp"
#include "fuzz/fuzz.hpp"
#include "support/host_vulkan.hpp"

namespace {

using namespace vkattn;
using fuzz::require;

constexpr std::size_t kHeaderBytes = 56;

/// Makes length and checksum right, which a mutation hardly ever does.
void repair(std::vector<std::byte>& blob) {
  if (blob.size() < kHeaderBytes) return;
  const std::span<const std::byte> data = std::span(blob).subspan(kHeaderBytes);
  const std::uint64_t words[] = {data.size(), detail::checksum(data)};
  std::memcpy(blob.data() + kHeaderBytes - sizeof(words), words, sizeof(words));
}

std::vector<std::byte> saved(const vkattn_pipeline_cache* cache) {
  std::size_t bytes = 0;
  require(vkattn_pipeline_cache_save(cache, nullptr, &bytes, nullptr) == VKATTN_SUCCESS,
          "a cache tells its size");
  std::vector<std::byte> blob(bytes);
  require(vkattn_pipeline_cache_save(cache, blob.data(), &bytes, nullptr) == VKATTN_SUCCESS,
          "a cache can be saved");
  return blob;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  std::vector<std::byte> blob(size - 1);
  if (!blob.empty()) std::memcpy(blob.data(), data + 1, blob.size());
  if (data[0] % 2 != 0) repair(blob);
  const tests::HostVulkan vulkan(tests::HostSettings{});
  vkattn_device* const device = tests::HostVulkan::borrow();
  std::array<char, 200> ignored{};
  vkattn_pipeline_cache* cache = nullptr;
  require(vkattn_pipeline_cache_create(device, blob.data(), blob.size(), ignored.data(), ignored.size(),
                                       &cache, nullptr) == VKATTN_SUCCESS,
          "bytes that are of no use do not stand in the way of a cache");
  const std::vector<std::byte> again = saved(cache);
  require(again.size() >= kHeaderBytes, "what is saved has a header");
  const bool is_used = ignored[0] == '\0';
  require(is_used || again.size() == kHeaderBytes, "bytes that are ignored do not reach the driver");
  // The reserved word does not matter.
  require(!is_used || blob.empty() ||
              std::equal(blob.begin() + kHeaderBytes, blob.end(), again.begin() + kHeaderBytes, again.end()),
          "bytes that are used come back");
  require(vkattn_pipeline_cache_destroy(cache) == VKATTN_SUCCESS, "a cache can be destroyed");
  require(vkattn_pipeline_cache_create(device, again.data(), again.size(), ignored.data(), ignored.size(),
                                       &cache, nullptr) == VKATTN_SUCCESS,
          "what was saved can be read");
  require(ignored[0] == '\0', "what was saved is used");
  require(vkattn_pipeline_cache_destroy(cache) == VKATTN_SUCCESS, "a cache can be destroyed");
  require(vkattn_device_release(device) == VKATTN_SUCCESS, "a device can be released");
  return 0;
}
