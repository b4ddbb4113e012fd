// What the tests of examples with models share.
#pragma once

#include <vkattn/runtime.hpp>

#include <cstdio>
#include <filesystem>
#include <random>
#include <string>

namespace decoder {

inline int failures = 0;

// Counts and prints what does not hold.
inline void expect(bool holds, const std::string& what) {
  if (holds) return;
  std::fprintf(stderr, "failed: %s\n", what.c_str());
  ++failures;
}

// True if the validation layer is installed.
inline bool has_validation() {
  vkattn::RuntimeOptions options;
  options.validation = true;
  return vkattn::Runtime::create(options).ok();
}

// A folder that is removed with it.
class TemporaryFolder {
 public:
  TemporaryFolder()
      : path_(std::filesystem::temp_directory_path() / ("vkattn-" + std::to_string(std::random_device()()))) {
    std::filesystem::create_directories(path_);
  }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
  ~TemporaryFolder() {
    std::error_code error;
    std::filesystem::remove_all(path_, error);
  }
  [[nodiscard]] const std::filesystem::path& path() const { return path_; }
  [[nodiscard]] std::filesystem::path operator/(const char* name) const { return path_ / name; }

 private:
  std::filesystem::path path_;
};

}  // namespace decoder
