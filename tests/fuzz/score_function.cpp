// Score functions: a text is refused with name and line, or compiles into a kernel.
#include <vkattn/score_function.hpp>

#include "fuzz/fuzz.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace vkattn;
  using fuzz::require;
  const auto function = ScoreFunction::create(
      {.source = std::string(fuzz::text_of(data, size)),
       .name = "fuzz.glsl",
       .buffers = {{"bias", ScoreBufferType::kFloat}, {"table", ScoreBufferType::kInt}}});
  if (!function.ok()) {
    const std::string& message = function.error().message;
    require(message.starts_with("fuzz.glsl"), "a refusal names the text", message);
    return 0;
  }
  const auto kernel = (*function)->binary("attention_block_mask_features");
  require(kernel.ok() && !kernel->empty(), "what was taken compiles in a kernel",
          kernel.ok() ? "" : kernel.error().message);
  return 0;
}
