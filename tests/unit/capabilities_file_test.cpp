// Files of capabilities: what the tool writes arrives, and nothing else is taken.
#include <vkattn/runtime.hpp>
#include <vkattn/supports.hpp>

#include <gtest/gtest.h>
#include <vulkan/vulkan_core.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <set>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "support/must.hpp"
#include "support/problem_text.hpp"
#include "support/temp_folder.hpp"
#include "unit/build.hpp"
#include "unit/families.hpp"
#include "unit/made_up_device.hpp"
#include "vulkan/capability_fields.hpp"

namespace vkattn::tests {
namespace {

std::string text_of(const Capabilities& device) {
  return capabilities_text({&device, 1});
}

Capabilities read_one(const std::string& text) {
  const std::vector<Capabilities> devices = must(parse_capabilities(text));
  EXPECT_EQ(devices.size(), 1U);
  return devices.at(0);
}

/// Everything of a field as text, to compare it.
std::string shown(const std::string& text) {
  return text;
}
std::string shown(DeviceType type) {
  return std::to_string(static_cast<int>(type));
}
template <class Number>
requires(std::is_integral_v<Number>) std::string shown(Number number) {
  return std::to_string(number);
}
template <class List>
requires(!std::is_integral_v<List>) std::string shown(const List& list) {
  std::string text;
  for (const auto& element : list) {
    if constexpr (std::is_class_v<std::decay_t<decltype(element)>>) {
      detail::for_each_field(&element, [&](const std::string& name, auto member) {
        text += name + " " + shown(element.*member) + ", ";
      });
    } else {
      text += shown(element) + ", ";
    }
  }
  return text;
}

void expect_equal(const Capabilities& a, const Capabilities& b) {
  detail::for_each_capability([&](const std::string& group, const std::string& name, auto member) {
    EXPECT_EQ(shown(a.*member), shown(b.*member)) << group << " " << name;
  });
}

/// Another value than the field has at first.
struct Change {
  void operator()(std::string& value) const { value += " \"\\ \n\x1f \xc3\xa4"; }
  void operator()(bool& value) const { value = !value; }
  void operator()(DeviceType& value) const { value = DeviceType::kVirtualGpu; }
  void operator()(std::uint32_t& value) const { value = value == ~0U ? 64 : 2 * value + (value == 0); }
  void operator()(std::uint64_t& value) const { value = value == ~0ULL ? 1ULL << 40U : 2 * value; }
  void operator()(std::array<std::uint32_t, 3>& values) const {
    for (std::uint32_t& value : values) value += 7;
  }
  void operator()(std::vector<MatrixShape>& shapes) const {
    shapes = {{16, 8, 32, "f16", "bf16", "f32", "s32", "subgroup"},
              {1, 2, 3, "s8", "u8", "u32", "other", "workgroup"}};
  }
  void operator()(std::vector<FlexibleMatrix>& matrices) const {
    matrices = {{32, 16, 8, "f16", "bf16", "f32", "s32", "workgroup", 128}};
  }
  void operator()(std::vector<RowLayout>& layouts) const {
    layouts = {{32, 64, 16, 32, 4, 3, 65, 33}, {8, 16, 8, 8, 0, 0, 0, 0}};
  }
};

TEST(CapabilitiesFile, EveryFieldArrives) {
  expect_equal(read_one(text_of(Capabilities{})), Capabilities{});
  detail::for_each_capability([&](const std::string& group, const std::string& name, auto member) {
    SCOPED_TRACE(group + " " + name);
    Capabilities device;
    if (name == "api_version") {
      device.api_version = VK_MAKE_API_VERSION(0, 1, 4, 321);
    } else if (name == "min_storage_offset_alignment_bytes") {
      device.min_storage_offset_alignment = 16;
    } else {
      // A subgroup's sizes are in order.
      if (name == "size" || name == "min_size") device.max_subgroup_size = 8;
      if (name == "min_size") device.subgroup_size = 4;
      Change{}(device.*member);
    }
    EXPECT_NE(shown(device.*member), shown(Capabilities{}.*member));
    expect_equal(read_one(text_of(device)), device);
  });
}

TEST(CapabilitiesFile, EachRowHasAMemberAndANameOfItsOwn) {
  std::vector<std::string> names;
  Capabilities device;
  std::vector<const void*> members;
  detail::for_each_capability([&](const std::string& group, const std::string& name, auto member) {
    names.push_back(group + "." + name);
    members.push_back(&(device.*member));
  });
  std::ranges::sort(names);
  EXPECT_EQ(std::ranges::adjacent_find(names), names.end());
  std::ranges::sort(members);
  EXPECT_EQ(std::ranges::adjacent_find(members), members.end());
}

TEST(CapabilitiesFile, FieldsThatAreMissingAreTheLeastOfVulkan) {
  expect_equal(read_one(R"({"capabilities_version": 1, "devices": [{}]})"), Capabilities{});
  const Capabilities device = read_one(
      R"({"origin": "by hand", "devices": [{"features": {"shader_int16": true}}], "capabilities_version": 1})");
  EXPECT_TRUE(device.shader_int16);
}

TEST(CapabilitiesFile, DevicesThatCannotBeUsedAreLeftOut) {
  const std::string rejected = R"({"name": "Old", "rejected": "offers Vulkan 1.0"})";
  std::string both = text_of(made_up_gpu());
  both.insert(both.find('[') + 1, rejected + ",");
  expect_equal(read_one(both), made_up_gpu());
  const std::string none =
      message_of(parse_capabilities(R"({"capabilities_version": 1, "devices": [)" + rejected + "]}"));
  EXPECT_TRUE(has(none, "none of the 1 devices can be used: Old: offers Vulkan 1.0")) << none;
}

TEST(CapabilitiesFile, ATornFileIsRefusedWhereverItEnds) {
  const std::string whole = text_of(device_of(kFamilies[6]));
  ASSERT_TRUE(parse_capabilities(whole).ok());
  for (std::size_t bytes = 0; bytes + 2 < whole.size(); ++bytes) {  // the last ones are "}\n"
    const std::string message = message_of(parse_capabilities(whole.substr(0, bytes)));
    ASSERT_TRUE(has(message, "it is torn: it ends after " + std::to_string(bytes) + " bytes"));
  }
}

TEST(CapabilitiesFile, RefusesWhatItDoesNotKnow) {
  const auto with_device = [](const std::string& device) {
    return R"({"capabilities_version": 1, "devices": [)" + device + "]}";
  };
  const std::string deep(40, '[');
  const std::pair<std::string, const char*> cases[] = {
      {"", "it is torn: it ends after 0 bytes"},
      {"\x7f"
       "ELF",
       "it is no JSON from byte 0 on"},
      {deep + std::string(40, ']'), "it is no JSON from byte 17 on"},
      {"{} {}", "it is no JSON from byte 3 on"},
      {"{\"a\": 01}", "it is no JSON from byte 7 on"},
      {"{\"a\": tru}", "it is no JSON from byte 6 on"},
      {R"({"a": "\ud800"})", "it is no JSON"},
      {R"({"a": "\x"})", "it is no JSON"},
      {"[1, 2.5e-3, null, true, \"\"]", "it has no capabilities_version"},
      {R"({"devices": [{}]})", "it has no capabilities_version"},
      {R"({"capabilities_version": "1", "devices": [{}]})", "it has no capabilities_version"},
      {R"({"capabilities_version": 2, "devices": [{}]})",
       "it is of version 2 and this library reads version 1"},
      {R"({"capabilities_version": 1})", "there is no device in it"},
      {R"({"capabilities_version": 1, "devices": []})", "there is no device in it"},
      {R"({"capabilities_version": 1, "devices": 7})", "devices is '7', not a list"},
      {with_device(" 7"), "devices[0] is '7', not an object"},
      {with_device(R"({"nmae": "x"})"), "devices[0].nmae is no field of this version; write it anew"},
      {with_device(R"({"features": {"shader_int17": true}})"),
       "devices[0].features.shader_int17 is no field"},
      {with_device(R"({"shader_int16": true})"), "devices[0].shader_int16 is no field"},
      {with_device(R"({"features": true})"), "devices[0].features is 'true', not an object"},
      {with_device(R"({"features": {"shader_int16": 1}})"), "shader_int16 is '1', not true or false"},
      {with_device(R"({"name": 3})"), "devices[0].name is '3', not a text"},
      {with_device(R"({"type": "toaster"})"), "devices[0].type is '\"toaster\"', not a type of a device"},
      {with_device(R"({"api_version": "1.3"})"),
       "devices[0].api_version is '\"1.3\"', not a version of Vulkan"},
      {with_device(R"({"api_version": "1.3.99999"})"), "'\"1.3.99999\"', not a version of Vulkan"},
      {with_device(R"({"vendor_id": -1})"),
       "devices[0].vendor_id is '-1', not a whole number from 0 to 4294967295"},
      {with_device(R"({"vendor_id": 4294967296})"), "vendor_id is '4294967296', not a whole number"},
      {with_device(R"({"vendor_id": 1.5})"), "devices[0].vendor_id is '1.5', not a whole number"},
      {with_device(R"({"limits": {"max_workgroup_size": [128, 128]}})"),
       "max_workgroup_size is '[128, 128]', not a list of 3"},
      {with_device(R"({"limits": {"max_workgroup_size": [1, 2, 3, 4]}})"), "has more than 3 numbers"},
      {with_device(R"({"matrix_shapes": {}})"), "matrix_shapes is '{}', not a list of objects"},
      {with_device(R"({"matrix_shapes": [[]]})"), "matrix_shapes[0] is '[]', not an object"},
      {with_device(R"({"name": [")" + std::string(200, 'x') + "\"]}"),
       "name is '[\"xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx…', not a text"},
      {with_device(R"({"a\nb)" + std::string(100, 'x') + "\": 1}"),
       "[0].a?bxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx… is no field"},
      {with_device(R"({"matrix_shapes": [{"q": 1}]})"), "devices[0].matrix_shapes[0].q is no field"},
      {with_device(R"({"matrix_shapes": [{"m": 8}]})"), "devices[0].matrix_shapes has 8x0x0"},
      {with_device(R"({"flexible_matrices": [{"m_granularity": 5000}]})"), "flexible_matrices has 5000x0x0"},
      {with_device(R"({"limits": {"max_workgroup_invocations": 0}})"),
       "limits.max_workgroup_invocations is 0, below the 128 that Vulkan guarantees"},
      {with_device(R"({"limits": {"max_workgroup_count": [65535, 0, 1]}})"), "max_workgroup_count is 0"},
      {with_device(R"({"limits": {"max_buffer_size_bytes": 5}})"), "max_buffer_size_bytes is 5, below"},
      {with_device(R"({"limits": {"min_storage_offset_alignment_bytes": 0}})"), "must be a power of two"},
      {with_device(R"({"subgroup": {"size": 0}})"), "subgroup has sizes 1, 0 and 1"},
      {with_device(R"({"subgroup": {"size": 32, "max_size": 16}})"), "subgroup has sizes 1, 32 and 16"},
      {with_device(R"({"compute_units": 4294967295})"), "devices[0].compute_units is 4294967295"}};
  for (const auto& [text, words] : cases) {
    const auto devices = parse_capabilities(text);
    ASSERT_FALSE(devices.ok()) << text;
    EXPECT_EQ(devices.error().code, ErrorCode::kInvalidArgument) << text;
    EXPECT_TRUE(has(devices.error().message, words)) << text;
    EXPECT_TRUE(has(devices.error().message, "the file of capabilities cannot be used: "));
  }
}

TEST(CapabilitiesFile, OnDiskIsReadOrRefusedByItsName) {
  const TempFolder folder;
  write_file(folder / "gpu.json", text_of(made_up_gpu()));
  expect_equal(must(read_capabilities(folder / "gpu.json")).at(0), made_up_gpu());
  const auto none = read_capabilities(folder / "none.json");
  EXPECT_TRUE(names(none.error(), ErrorCode::kNotFound, {"none.json cannot be read"}));
  write_file(folder / "torn.json", "{");
  const auto torn = read_capabilities(folder / "torn.json");
  EXPECT_TRUE(names(torn.error(), ErrorCode::kInvalidArgument, {"torn.json: ", "it is torn"}));
  EXPECT_EQ(read_capabilities(folder.path()).error().code, ErrorCode::kIo);
}

/// The files that are installed.
TEST(CapabilitiesFile, OfKnownDevicesTellTheirOriginAndRunPlainAttention) {
  std::set<std::string> device_names;
  std::size_t count = 0;
  for (const auto& entry : std::filesystem::directory_iterator(build::kDevices)) {
    if (entry.path().extension() != ".json") continue;
    SCOPED_TRACE(entry.path());
    ++count;
    std::ifstream file(entry.path());
    const std::string text{std::istreambuf_iterator<char>(file), {}};
    EXPECT_TRUE(has(text, "\"origin\": \""));
    const std::vector<Capabilities> devices = must(read_capabilities(entry.path()));
    ASSERT_EQ(devices.size(), 1U);
    EXPECT_TRUE(device_names.insert(devices[0].device_name + devices[0].driver_info).second);
    expect_equal(read_one(text_of(devices[0])), devices[0]);
    for (const char* const problem : {"h8 1024x1024 d64", "hq32 hkv8 1x4096 d128 f16"}) {
      const AttentionDesc desc = desc_of(problem);
      const Support support = must(supports(desc, devices[0]));
      EXPECT_LE(support.storage_buffers, devices[0].max_stage_storage_buffers);
      const std::vector<KernelSupport> kernels = kernel_support(desc, devices[0]);
      const auto first = std::ranges::find(kernels, std::string(), &KernelSupport::reason);
      ASSERT_NE(first, kernels.end());
      EXPECT_EQ(support.kernel, first->kernel) << problem;
    }
  }
  EXPECT_GE(count, 3U);
}

/// Problems of several kinds, planned for the device. Only that this ends without a fault is looked at.
void plan_for(const Capabilities& device) {
  for (const char* const problem : {"hq8 hkv2 40x3000 d64 f16 causal", "hq32 hkv8 1x4096 d128 f16"}) {
    (void)supports(desc_of(problem), device);
  }
  (void)supports(backward_of("h2 70x90 d64 f16"), device);
  (void)supports(product_of(100, 300, 1000), device);
}

struct Extremes {
  void operator()(std::uint32_t& value, bool largest) const { value = largest ? ~0U : 0; }
  void operator()(std::uint64_t& value, bool largest) const { value = largest ? ~0ULL : 0; }
  void operator()(bool& value, bool largest) const { value = largest; }
  void operator()(std::array<std::uint32_t, 3>& values, bool largest) const {
    values.fill(largest ? ~0U : 0);
  }
  template <class Other>
  void operator()(Other& /*value*/, bool /*largest*/) const {}
};

TEST(CapabilitiesFile, NoNumberThatIsTakenLetsPlanningFail) {
  for (const Capabilities& base : {device_of(kFamilies[6]), with_workgroup_scope(), Capabilities{}}) {
    std::size_t taken = 0;
    detail::for_each_capability([&](const std::string& group, const std::string& name, auto member) {
      SCOPED_TRACE(group + " " + name);
      for (const bool largest : {false, true}) {
        Capabilities device = base;
        Extremes{}(device.*member, largest);
        const auto devices = parse_capabilities(text_of(device));
        if (!devices) continue;
        ++taken;
        plan_for(devices->front());
      }
    });
    EXPECT_GT(taken, 60U);
  }
}

}  // namespace
}  // namespace vkattn::tests
