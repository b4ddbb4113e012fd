// A folder of .npy files, and the tool's command on them, for tests of `vkattn run`.
#pragma once

#include <cstdint>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "arrays.hpp"
#include "npy.hpp"
#include "tool.hpp"

namespace vkattn::tests {

/// A folder with query.npy, key.npy and value.npy, and the command on them.
class RunFolder : public Tool {
 protected:
  [[nodiscard]] std::filesystem::path file(const std::string& name) const {
    return folder_ / (name + ".npy");
  }
  template <class T>
  void write(const std::string& name, const Shape& shape, const std::vector<T>& values) const {
    write_npy(file(name), shape, values);
  }
  void write(const std::string& name, const Shape& shape, const std::vector<std::uint16_t>& values) const {
    write_npy(file(name), shape, values, npy::ElementType::kFloat16);
  }
  /// Writes an array of one axis.
  template <class T>
  void write_list(const std::string& name, const std::vector<T>& values) const {
    write(name, {static_cast<std::int64_t>(values.size())}, values);
  }
  void write_bools(const std::string& name, const Shape& shape,
                   const std::vector<std::uint8_t>& values) const {
    write_npy(file(name), shape, values, npy::ElementType::kBool);
  }
  void write_noise(const std::string& name, const Shape& shape) const {
    write(name, shape, noise(shape, static_cast<std::uint32_t>(name.size())));
  }
  void write_inputs(const Shape& query, const Shape& key, const Shape& value) const {
    write_noise("query", query);
    write_noise("key", key);
    write_noise("value", value);
  }
  /// Marks a file's elements as being in Fortran order.
  void claim_fortran_order(const std::string& name) const {
    std::string content = read_file(file(name));
    write_file(file(name), content.replace(content.find("False"), 5, "True "));
  }
  [[nodiscard]] std::vector<float> values(const std::string& name) const {
    return read_npy(file(name)).values;
  }
  [[nodiscard]] Shape shape(const std::string& name) const { return read_npy(file(name)).shape; }

  [[nodiscard]] static std::string attend(const std::string& options) {
    return "run --query query.npy --key key.npy --value value.npy " + options;
  }
  /// Runs with --check and expects success.
  void expect_checked(const std::string& options) const {
    const std::string out = printed(attend(options + " --check"));
    EXPECT_NE(out.find("passed"), std::string::npos) << options << "\n" << out;
  }
  /// The output of a checked run.
  [[nodiscard]] std::vector<float> output_of(const std::string& options) const {
    expect_checked(options + " --output out.npy");
    return values("out");
  }
};

/// Tests of files that need a device.
class RunOnDevice : public RunFolder {
 protected:
  void SetUp() override {
    if (!has_device()) GTEST_SKIP() << "the tool finds no Vulkan device";
  }
  /// The JSON output of `vkattn inspect`.
  [[nodiscard]] nlohmann::json inspected(const std::string& options) const {
    return nlohmann::json::parse(printed("inspect " + options + " --json"));
  }
};

/// Arrays of 4 query heads over 2 heads of keys.
class ToolRun : public RunOnDevice {
 protected:
  void SetUp() override {
    RunOnDevice::SetUp();
    if (!IsSkipped()) write_inputs({2, 4, 9, 16}, {2, 2, 13, 16}, {2, 2, 13, 8});
  }
};

}  // namespace vkattn::tests
