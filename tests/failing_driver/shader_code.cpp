// Replaces ShaderCode::words() of src/vulkan/shader_code.cpp. It unpacks binaries once, and may keep only the
// entry function of each. A test makes the same pipelines thousands of times, and this driver does not
// compile them, so handling their code would take most of the time.
#include "vulkan/shader_code.hpp"

#include <algorithm>
#include <map>
#include <utility>

#include "failing_driver/host_memory.hpp"
#include "failing_driver/shader_code.hpp"
#include "spirv/control_flow.hpp"
#include "spirv/packed_shader.hpp"

namespace vkattn::detail {

namespace {

using Words = std::vector<std::uint32_t>;

// Keeps the declarations and the entry function, although it calls functions that are then missing.
Words without_called_functions(const Words& words) {
  const auto flow = ControlFlow::read(words);
  if (!flow) return {};
  const SpirvFunction& entry = flow->functions()[*flow->function_of(flow->entry())];
  Words kept(words.begin(), words.begin() + static_cast<std::ptrdiff_t>(flow->functions_begin()));
  kept.insert(kept.end(), words.begin() + static_cast<std::ptrdiff_t>(entry.begin),
              words.begin() + static_cast<std::ptrdiff_t>(entry.end));
  // At least as many words as there are ids, otherwise the library would not take it for code of its own.
  constexpr std::uint32_t kNothing = 1U << 16U;
  kept.resize(std::max(kept.size(), flow->bound()), kNothing);
  return kept;
}

std::span<const std::uint32_t> unpacked_once(std::span<const std::uint8_t> gzip) {
  static std::map<std::pair<const std::uint8_t*, bool>, Words> all;
  const tests::UncountedMemory ours;
  Words& kept = all[{gzip.data(), tests::keeps_all_functions}];
  if (kept.empty()) {
    const Words words = unpacked_words(gzip).value_or(Words{});
    kept = tests::keeps_all_functions ? words : without_called_functions(words);
  }
  return kept;
}

}  // namespace

Result<std::vector<std::uint32_t>> ShaderCode::words() const {
  const std::span<const std::uint32_t> words = gzip_.empty() ? words_ : unpacked_once(gzip_);
  if (words.empty()) return Error{ErrorCode::kIo, 0, "a shader is damaged"};
  return Words(words.begin(), words.end());
}

}  // namespace vkattn::detail
