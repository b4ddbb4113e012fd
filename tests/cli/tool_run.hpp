// A folder of .npy files and the tool's command on them, for tests of `vkattn run`.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "npy.hpp"
#include "support/temp_folder.hpp"
#include "tool.hpp"

namespace vkattn::tests {

using Shape = std::vector<std::int64_t>;

template <class T>
void write_npy(const std::filesystem::path& path, npy::ElementType type, const Shape& shape,
               const std::vector<T>& values) {
  std::string content = npy::make_header(type, shape);
  const std::size_t header = content.size();
  content.resize(header + values.size() * sizeof(T));
  if (!values.empty()) std::memcpy(content.data() + header, values.data(), values.size() * sizeof(T));
  write_file(path, content);
}

/// An array of any float type, as float32.
struct Array {
  Shape shape;
  npy::ElementType type = npy::ElementType::kFloat32;
  std::vector<float> values;
};

inline Array read_npy(const std::filesystem::path& path) {
  Array array;
  Result<npy::Reader> reader = npy::Reader::open(path);
  EXPECT_TRUE(reader.ok()) << (reader.ok() ? "" : reader.error().message);
  if (!reader.ok()) return array;
  array.shape = reader->header().shape;
  array.type = reader->header().type;
  std::vector<std::byte> raw(reader->header().data_bytes());
  EXPECT_TRUE(reader->read(raw).ok());
  array.values.resize(static_cast<std::size_t>(reader->header().elements));
  npy::convert(reader->header(), raw, DataType::kFloat32, std::as_writable_bytes(std::span(array.values)));
  return array;
}

inline std::size_t element_count(const Shape& shape) {
  std::size_t count = 1;
  for (const std::int64_t size : shape) count *= static_cast<std::size_t>(size);
  return count;
}

/// Numbers without a pattern, between -1 and 1.
inline std::vector<float> noise(const Shape& shape, std::uint32_t seed) {
  std::vector<float> values(element_count(shape));
  std::uint32_t state = seed;
  for (float& value : values) {
    state = state * 1664525U + 1013904223U;
    value = static_cast<float>(state >> 8U) / 8388608.0F - 1.0F;
  }
  return values;
}

/// A folder with query.npy, key.npy and value.npy, and the words that name them.
class ToolRun : public testing::Test {
 protected:
  void SetUp() override {
    if (!has_device()) GTEST_SKIP() << "the tool finds no Vulkan device";
    write("query", {2, 4, 9, 16});
    write("key", {2, 2, 13, 16});
    write("value", {2, 2, 13, 8});
  }

  void write(const std::string& name, const Shape& shape) {
    write_npy(file(name), npy::ElementType::kFloat32, shape,
              noise(shape, static_cast<std::uint32_t>(name.size())));
  }
  [[nodiscard]] std::filesystem::path file(const std::string& name) const {
    return folder_ / (name + ".npy");
  }
  [[nodiscard]] std::vector<std::string> words(const std::vector<std::string>& more) const {
    std::vector<std::string> all = {"run",
                                    "--query",
                                    file("query").string(),
                                    "--key",
                                    file("key").string(),
                                    "--value",
                                    file("value").string()};
    all.insert(all.end(), more.begin(), more.end());
    return all;
  }
  /// Runs with --check and expects success.
  void expect_checked(std::vector<std::string> more) const {
    more.emplace_back("--check");
    const ToolResult result = run_tool(words(more));
    EXPECT_EQ(result.exit_code, 0) << command_text(words(more)) << "\n" << result.out << result.err;
    EXPECT_NE(result.out.find("passed"), std::string::npos) << result.out;
  }

  TempFolder folder_;
};

}  // namespace vkattn::tests
