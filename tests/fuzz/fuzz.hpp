// Shared by the fuzz targets: a broken promise ends the program, and inputs become texts and files.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <string_view>

namespace vkattn::fuzz {

/// Ends the program if the promise does not hold, and prints what was seen instead. libFuzzer then saves the
/// input.
inline void require(bool holds, const char* promise, std::string_view what = {}) {
  if (holds) return;
  std::fprintf(stderr, "broken promise: %s%s%.*s\n", promise, what.empty() ? "" : ": ",
               static_cast<int>(what.size()), what.data());
  std::abort();
}

inline std::string_view text_of(const std::uint8_t* data, std::size_t size) {
  return {reinterpret_cast<const char*>(data), size};
}

/// A folder of this process. The destructor removes it.
class Folder {
 public:
  Folder() {
    std::string name = (std::filesystem::temp_directory_path() / "vkattn-fuzz-XXXXXX").string();
    require(mkdtemp(name.data()) != nullptr, "a folder for temporary files can be made");
    path_ = name;
  }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  ~Folder() {
    std::error_code error;
    std::filesystem::remove_all(path_, error);
  }
  [[nodiscard]] const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

inline void write_file(const std::filesystem::path& path, std::string_view bytes) {
  std::FILE* const file = std::fopen(path.c_str(), "wb");
  require(file != nullptr, "a temporary file can be opened");
  const bool is_written = std::fwrite(bytes.data(), 1, bytes.size(), file) == bytes.size();
  require(std::fclose(file) == 0 && is_written, "a temporary file can be written");
}

}  // namespace vkattn::fuzz

/// libFuzzer's entry point, which each target defines.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);
