// ShaderCode::words() in the place of that of src/vulkan/shader_code.cpp: binaries are unpacked once. A test
// makes the same pipelines thousands of times, and unpacking them would be most of its time.
#include "vulkan/shader_code.hpp"

#include <map>

#include "failing_driver/host_memory.hpp"
#include "vulkan/inflate.hpp"

namespace vkattn::detail {

namespace {

std::span<const std::uint32_t> unpacked_once(std::span<const std::uint8_t> gzip) {
  static std::map<const std::uint8_t*, std::vector<std::uint32_t>> all;
  const tests::UncountedMemory ours;
  std::vector<std::uint32_t>& words = all[gzip.data()];
  if (words.empty()) {
    words.resize(unpacked_bytes(gzip).value_or(0) / sizeof(std::uint32_t));
    if (!unpack(gzip, {reinterpret_cast<std::uint8_t*>(words.data()), words.size() * sizeof(std::uint32_t)}))
      words.clear();
  }
  return words;
}

}  // namespace

Result<std::vector<std::uint32_t>> ShaderCode::words() const {
  const std::span<const std::uint32_t> words = gzip_.empty() ? words_ : unpacked_once(gzip_);
  if (words.empty()) return Error{ErrorCode::kIo, 0, "a shader is damaged"};
  return std::vector<std::uint32_t>(words.begin(), words.end());
}

}  // namespace vkattn::detail
