// A shader as the build embeds it: a gzip file that packed_shader.hpp unpacks.
#pragma once

#include <cstddef>

namespace vkattn::detail {

struct EmbeddedShader {
  const unsigned char* gzip;
  std::size_t bytes;
};

}  // namespace vkattn::detail
