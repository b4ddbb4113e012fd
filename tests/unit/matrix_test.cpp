// Rules of the host halves of the kernels on cooperative matrices, from made-up capabilities: features that
// they name, and what holds of every configuration. Single decisions are in decisions.txt.
#include <vkattn/runtime.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "attention/features.hpp"
#include "common/message.hpp"
#include "families.hpp"
#include "kernels/specialization.hpp"
#include "kernels/vendors.hpp"
#include "made_up_device.hpp"
#include "shared/attention_constants.h"
#include "support/must.hpp"
#include "unit/build.hpp"

namespace vkattn::tests {
namespace {

using namespace detail;

constexpr HostKernel kMatrix{"matrix", configure_matrix};
constexpr HostKernel kMatrix2{"matrix2", configure_matrix2};

/// As NVIDIA lists it, but without matrices of subgroups, which the staged form has.
Capabilities without_subgroup_scope() {
  Capabilities c = with_workgroup_scope();
  std::erase_if(c.flexible_matrices, [](const FlexibleMatrix& entry) { return entry.scope == "subgroup"; });
  return c;
}

using Feature = std::pair<const char*, bool Capabilities::*>;
const std::vector<Feature> kCommonFeatures = {
    {"VK_KHR_cooperative_matrix", &Capabilities::cooperative_matrix},
    {"vulkanMemoryModel", &Capabilities::vulkan_memory_model},
    {"shaderFloat16", &Capabilities::shader_float16},
    {"storageBuffer16BitAccess", &Capabilities::storage_buffer_16bit}};

/// Takes each feature away from a device that has all that the kernel needs.
void expect_named(const HostKernel& kernel, const Capabilities& device, std::vector<Feature> features) {
  EXPECT_EQ(kernel.reason("64x64 d64 f16", device), "");
  features.insert(features.end(), kCommonFeatures.begin(), kCommonFeatures.end());
  for (const auto& [name, feature] : features) {
    const Capabilities without = changed(device, [feature = feature](auto& c) { c.*feature = false; });
    EXPECT_TRUE(has(kernel.reason("64x64 d64 f16", without), name));
  }
}

TEST(MatrixKernels, NameEachMissingFeature) {
  expect_named(kMatrix, matrix_gpu(),
               {{"subgroup shuffles", &Capabilities::subgroup_shuffle},
                {"subgroup votes", &Capabilities::subgroup_vote}});
  expect_named(kMatrix2, with_workgroup_scope(),
               {{"maintenance4", &Capabilities::maintenance4},
                {"cooperativeMatrixFlexibleDimensions", &Capabilities::matrix2_flexible_dimensions},
                {"cooperativeMatrixReductions", &Capabilities::matrix2_reductions},
                {"cooperativeMatrixConversions", &Capabilities::matrix2_conversions},
                {"cooperativeMatrixPerElementOperations", &Capabilities::matrix2_per_element_operations}});
  expect_named(kMatrix2, without_subgroup_scope(),
               {{"cooperativeMatrixTensorAddressing", &Capabilities::matrix2_tensor_addressing},
                {"cooperativeMatrixWorkgroupScope", &Capabilities::matrix2_workgroup_scope}});
  const auto named = [](const HostKernel& kernel, const Capabilities& device, const char* what, auto change) {
    EXPECT_TRUE(has(kernel.reason("64x64 d64 f16", changed(device, change)), what));
  };
  named(kMatrix, matrix_gpu(), "subgroupSizeControl", [](auto& c) { c.max_subgroup_size = 64; });
  const Capabilities device = with_workgroup_scope();
  named(kMatrix2, device, "Vulkan 1.3", [](auto& c) { c.api_version = VK_API_VERSION_1_2; });
  named(kMatrix2, device, "f16 x f16 to f32", [](auto& c) { c.flexible_matrices.clear(); });
  named(kMatrix2, device, "at most 8 ", [](auto& c) { c.max_flexible_matrix_dimension = 8; });
  named(kMatrix2, without_subgroup_scope(), "no tile fits the device's flexible matrices of f16",
        [](auto& c) {
          for (FlexibleMatrix& entry : c.flexible_matrices) entry.workgroup_invocations = 64;
        });
}

TEST(Matrix, TakesNoShapeOfOtherTypesScopesAndSizes) {
  for (const MatrixShape& other : {MatrixShape{16, 16, 16, "f16", "f16", "f16", "f16", "subgroup"},
                                   {16, 16, 16, "f16", "f16", "f32", "f32", "workgroup"},
                                   {16, 16, 16, "s8", "s8", "s32", "s32", "subgroup"},
                                   {16, 16, 16, "bf16", "bf16", "f32", "f32", "subgroup"},
                                   {16, 16, 16, "f16", "f16", "f32", "f16", "subgroup"},
                                   shape(4, 16, 16),
                                   shape(16, 64, 16),
                                   shape(16, 16, 24)}) {
    EXPECT_TRUE(has(kMatrix.reason("64x64 d64 f16", matrix_gpu({other})), "no matrix shape"));
    const KernelConfig config =
        kMatrix.configured("512x512 d64 f16", matrix_gpu({other, shape(8, 8, 8), other}));
    EXPECT_TRUE(has(config.summary, "matrices of 8x8x8,"));
  }
}

/// The bytes of shared memory that attention_matrix.comp declares with these constants.
std::uint32_t declared_bytes(const KernelConfig& config, const AttentionDesc& desc) {
  const auto head_dim = static_cast<std::uint32_t>(desc.head_dim);
  const std::uint32_t k = constant(config, VKATTN_SPEC_MATRIX_K);
  const std::uint32_t keys = constant(config, VKATTN_SPEC_MATRIX_KEYS);
  const std::uint32_t dims = constant(config, VKATTN_SPEC_MATRIX_SLICE_DIMS);
  const std::uint32_t rows = config.rows_per_workgroup;
  const std::uint32_t key_stride8 = (head_dim + k - 1) / k * k / 8 + 1;
  const bool transposed = constant(config, VKATTN_SPEC_MATRIX_VALUES_TRANSPOSED) == 1;
  const bool held = constant(config, VKATTN_SPEC_MATRIX_QUERY_IN_REGISTERS) == 1;
  const std::uint32_t value_stage = transposed ? dims * (keys / 8 + 1) : keys * (dims / 8 + 1);
  const std::uint32_t stages =
      keys * key_stride8 + value_stage + (held ? 1 : rows * key_stride8) + rows * (keys / 4 + 1);
  const bool keys_scaled = block_elements(desc.key.type) > 1,
             values_scaled = block_elements(desc.value.type) > 1;
  const std::uint32_t scales =
      (keys_scaled ? keys * ((head_dim + 31) / 32) : 4) + (values_scaled ? keys * (dims / 32) : 4);
  const std::uint32_t products = values_scaled ? rows * (keys / 8 + 1) : 1;
  return stages * 16 + rows * 4 + (has_features(desc) ? scales * 4 + products * 16 : 0);
}

/// What holds of any configuration, by the shader's constants.
void expect_consistent(const KernelConfig& config, const AttentionDesc& desc, const Capabilities& device) {
  const std::uint32_t n = constant(config, VKATTN_SPEC_MATRIX_N);
  const std::uint32_t lanes = constant(config, VKATTN_SPEC_MATRIX_SUBGROUP_SIZE);
  const std::uint32_t rows =
      constant(config, VKATTN_SPEC_MATRIX_M) * constant(config, VKATTN_SPEC_MATRIX_ROW_BLOCKS);
  const std::uint32_t keys = constant(config, VKATTN_SPEC_MATRIX_KEYS);
  const std::uint32_t dims = constant(config, VKATTN_SPEC_MATRIX_SLICE_DIMS);
  const SpecializationValues all = specialization(desc, config, {});
  const SpecializationValue size{VKATTN_SPEC_WORKGROUP_SIZE, config.workgroup_size};
  EXPECT_NE(std::find(all.begin(), all.end(), size), all.end());
  EXPECT_EQ(config.workgroup_size, config.tile.subgroups * lanes);
  EXPECT_EQ(config.rows_per_workgroup, config.tile.subgroups * rows);
  EXPECT_EQ(keys % n, 0U);
  EXPECT_EQ(keys % constant(config, VKATTN_SPEC_MATRIX_K), 0U);
  EXPECT_EQ(keys % (8 * std::max(1U, lanes / rows)), 0U) << "whole vectors of a row for each lane";
  EXPECT_EQ(dims % n, 0U);
  EXPECT_LE(dims, std::max(n, 128 * lanes / rows)) << "sums of a lane";
  EXPECT_EQ(config.shared_bytes, declared_bytes(config, desc));
  EXPECT_LE(config.shared_bytes, device.max_shared_memory_bytes);
  const bool prefetch = constant(config, VKATTN_SPEC_MATRIX_PREFETCH) == 1;
  EXPECT_FALSE(prefetch && device.vendor_id != kVendorNvidia);
  EXPECT_FALSE(prefetch && constant(config, VKATTN_SPEC_MATRIX_QUERY_IN_REGISTERS) == 0);
  EXPECT_EQ(constant(config, VKATTN_SPEC_MATRIX_VALUES_TRANSPOSED) == 1, device.vendor_id != kVendorNvidia);
}

/// Every shape on subgroups of every size, by vendor and shared memory: a configuration that holds together,
/// or a refusal that says why. Subgroups of 64 leave each lane no whole vector of 8 rows.
TEST(Matrix, IsConsistentOrRefusesByName) {
  std::size_t configurations = 0, refusals = 0;
  const auto check = [&](const Capabilities& device, bool has_tile) {
    for (const char* problem :
         {"512x512 d64 f16", "512x512 d17 dv5 f16", "512x512 d128 f16", "1x512 d64 f16", "512x512 d256 f16",
          "512x512 d576 dv512 f16", "40x512 d33 dv576 f16", "512x512 d64 f16 softcap=3",
          "512x512 d64 dv96 f16 cache=q8_0", "512x512 d96 f16 key=q4_0", "512x512 d33 dv288 f16 value=q8_0",
          "512x512 d17 dv5 f16 cache=e4m3"}) {
      SCOPED_TRACE(message(problem, " in subgroups of ", device.subgroup_size, ", ",
                           device.max_shared_memory_bytes, " bytes"));
      const auto config = kMatrix(problem, device);
      if (config.ok()) expect_consistent(*config, desc_of(problem), device);
      ++(config.ok() ? configurations : refusals);
      if (!has_tile) {
        EXPECT_TRUE(has(kMatrix.reason(problem, device), "has no tile for matrices of 8x"));
      } else if (!config.ok()) {
        EXPECT_TRUE(
            has(kMatrix.reason(problem, device, ErrorCode::kLimitExceeded), "the smallest block needs "));
      }
    }
  };
  for (const MatrixShape& matrix : {shape(16, 16, 16), shape(16, 8, 16), shape(8, 16, 16), shape(8, 8, 8)}) {
    for (const std::uint32_t lanes : {8U, 16U, 32U, 64U}) {
      for (const std::uint32_t vendor_id : {kVendorAmd, kVendorNvidia, kVendorIntel}) {
        for (const std::uint32_t bytes : {16384U, 32768U, 49152U}) {
          Capabilities device = with_lanes(matrix_gpu({matrix}), lanes);
          device.vendor_id = vendor_id;
          device.max_shared_memory_bytes = bytes;
          check(device, matrix.m == 16 || lanes != 64);
        }
      }
    }
  }
  EXPECT_GT(configurations, 2 * refusals);
}

bool skips_tiles(const char* problem, const Capabilities& device) {
  return constant(kMatrix.configured(problem, device), VKATTN_SPEC_MATRIX_SKIP_TILES) == 1;
}

/// Intel's compiler is suspected of wrong results if they do not, and lavapipe's barriers need it.
TEST(Matrix, SubgroupsDoTheSameMatrixOperationsOnIntelAndCpus) {
  std::vector<Capabilities> devices;
  for (const Family& family : kFamilies) devices.push_back(device_of(family));
  for (const auto& entry : std::filesystem::directory_iterator(build::kDevices)) {
    if (entry.path().extension() == ".json") devices.push_back(must(read_capabilities(entry.path())).at(0));
  }
  std::size_t intel = 0, others = 0;
  for (const Capabilities& device : devices) {
    if (!device.cooperative_matrix) continue;
    SCOPED_TRACE(message(device.device_name, ", vendor ", device.vendor_id));
    const bool is_same = device.vendor_id == kVendorIntel || device.is_cpu();
    ++(is_same && !device.is_cpu() ? intel : others);
    for (const char* problem : {"h8 1024x1024 d64 f16 causal", "h8 4096x4096 d128 f16 window=100,0",
                                "h8 512x512 d96 f16 mask=bits:hqk", "hq64 hkv8 40x512 d64 f16 cache=q8_0"}) {
      EXPECT_EQ(skips_tiles(problem, device), !is_same) << problem;
      const auto as_cpu = [](Capabilities& c) { c.device_type = DeviceType::kCpu; };
      EXPECT_FALSE(skips_tiles(problem, changed(device, as_cpu))) << problem;
    }
  }
  EXPECT_EQ(intel, 6U) << "3 made up, 3 of files";
  EXPECT_GE(others, 4U);
}

TEST(Matrix, StepsAreWrittenOutForNvidiaAlone) {
  for (const Family& family : kFamilies) {
    if (family.matrix_m == 0) continue;
    const KernelConfig config = kMatrix.configured("h8 1024x1024 d64 f16", device_of(family));
    EXPECT_EQ(constant(config, VKATTN_SPEC_WRITES_OUT_STEPS) == 1, family.vendor_id == kVendorNvidia)
        << family.name;
  }
}

TEST(Matrix2, MatricesAreMultiplesOfTheGranularities) {
  for (const char* problem : {"128x128 d1 f16", "128x128 d40 f16", "128x128 d64 dv72 f16", "128x128 d128 f16",
                              "128x128 d192 dv128 f16", "128x128 d256 f16", "128x128 d576 dv512 f16",
                              "1x128 d64 f16", "128x128 d33 dv576 f16"}) {
    for (const Capabilities& device : {with_workgroup_scope(), cpu_with_subgroup_scope()}) {
      SCOPED_TRACE(problem);
      const KernelConfig config = kMatrix2.configured(problem, device);
      const std::uint32_t n = device.is_cpu() ? 8 : config.workgroup_size == 128 ? 16 : 32;
      const std::uint32_t head_block = constant(config, VKATTN_SPEC_MATRIX2_HEAD_BLOCK);
      const std::uint32_t value_block = constant(config, VKATTN_SPEC_MATRIX2_VALUE_BLOCK);
      EXPECT_EQ(config.rows_per_workgroup % (device.is_cpu() ? 8 : 32), 0U);
      EXPECT_EQ(config.key_step % n + head_block % n + value_block % n, 0U);
      EXPECT_LT(head_block, static_cast<std::uint32_t>(desc_of(problem).head_dim) + n);
      EXPECT_LE(std::max(head_block, value_block), 256U);
      EXPECT_TRUE(config.workgroup_size == 128 || config.workgroup_size == 256 || device.is_cpu());
    }
  }
}

TEST(Matrix2, NamesLayoutsThatTensorAddressingCannotExpress) {
  const Capabilities device = with_workgroup_scope();
  const Capabilities unstaged = without_subgroup_scope();
  EXPECT_TRUE(
      has(kMatrix2.reason("64x64 d64 f16 shift=1", unstaged), "tensor addressing needs heads of key"));
  for (const char* problem :
       {"64x64 d64 f16 cache=e4m3", "64x64 d64 f16 key=e4m3", "64x64 d64 f16 value=e4m3"})
    EXPECT_TRUE(has(kMatrix2.reason(problem, unstaged), "tensor addressing takes K and V of Q's type"));
  const auto expect_refused = [&](auto change, const char* name) {
    AttentionDesc desc = desc_of("h2 64x64 d64 f16");
    change(desc);
    EXPECT_TRUE(
        has(message_of(kMatrix2(desc, unstaged)), std::string("tensor addressing needs heads of ") + name));
    EXPECT_TRUE(kMatrix2(desc, device).ok()) << "staged";
    EXPECT_TRUE(kMatrix2(desc, cpu_with_subgroup_scope()).ok());
  };
  expect_refused([](auto& d) { d.key.strides->row = 0; }, "key");
  expect_refused([](auto& d) { d.value.strides->dim = 2; }, "value");
  expect_refused([](auto& d) { d.value.strides->head += 4; }, "value");
}

}  // namespace
}  // namespace vkattn::tests
