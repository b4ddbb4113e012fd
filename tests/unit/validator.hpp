// Asks spirv-val, if the build has it.
#pragma once

#include <cstdlib>
#include <string>

#include "common/message.hpp"
#include "support/temp_folder.hpp"
#include "unit/build.hpp"
#include "unit/spirv_words.hpp"

namespace vkattn::tests {

/// Runs spirv-val on a file of its own.
class Validator {
 public:
  [[nodiscard]] bool accepts(const Words& words) const {
    write_file(file_, {reinterpret_cast<const char*>(words.data()), words.size() * sizeof(words[0])});
    const std::string command = detail::message("\"", build::kSpirvVal, "\" --target-env vulkan1.3 ", file_,
                                                " > ", file_, ".out 2>&1");
    return std::system(command.c_str()) == 0;  // NOLINT: a test with its own words
  }

 private:
  TempFolder folder_;
  std::string file_ = (folder_ / "shader.spv").string();
};

}  // namespace vkattn::tests
